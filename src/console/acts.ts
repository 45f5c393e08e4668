/** What can be done with a thing: one table for search, incidents and rows of lists. */
import { useEffect, useState } from 'preact/hooks'
import { acted, call, to, toApiError } from './api.ts'
import { at } from './base.ts'
import { go, hrefWith, place, session, setQuery } from './state.ts'
import { copyText } from './parts/copy.ts'
import { toast } from './parts/toast.ts'
import type { Right } from '../server/admin/resources/rights.ts'
import type { TestAnswer } from '../server/admin/resources/managed.ts'

/** A thing as the search and lists have it. */
interface Target {
  readonly kind: string
  readonly id: string
  readonly name: string
  readonly state?: string
  /** The account of a key or a team. */
  readonly account?: string
}

/** An act goes somewhere, or is done at once. What it says is shown with a button that takes it back, where it can be. */
export interface Act {
  readonly verb: string
  readonly right: Right
  readonly href?: string
  readonly act?: () => Promise<{
    readonly message: string
    readonly undo?: () => Promise<unknown>
  } | void>
}

const link = (verb: string, href: string, right: Right = 'read'): Act => ({ verb, right, href })

const ACTS: Readonly<Record<string, (target: Target) => readonly Act[]>> = {
  key: (target) => [
    ...(target.state === 'archived'
      ? []
      : [
          link('Edit', to.key(target.id, 'overview', { act: 'edit' }), 'keys'),
          switchOf(target, '/admin/keys'),
          link('Rotate', to.key(target.id, 'overview', { act: 'rotate' }), 'keys'),
        ]),
    link('Limits', to.key(target.id)),
    link('Policy', to.key(target.id, 'policy')),
    link('Calls', to.requests({ key: target.id })),
  ],
  account: (target) => [
    ...(target.state === 'archived'
      ? []
      : [
          link('Add credits', to.account(target.id, 'overview', { act: 'credits' }), 'money'),
          switchOf(target, '/admin/accounts'),
          link('New key', `/console/keys?new=${encodeURIComponent(target.id)}`, 'keys'),
        ]),
    link('Calls', to.requests({ account: target.id })),
  ],
  model: ({ id }) => [
    testOf(id),
    link('Calls', to.requests({ model: id })),
    link('Playground', `/console/play?model=${encodeURIComponent(id)}`, 'keys'),
  ],
  vendor: ({ id }) => [testVendor(id)],
  user: ({ id }) => [link('Calls', to.requests({ user: id }))],
}

/** Acts of no thing, by the words that search takes. */
export const COMMANDS: readonly Act[] = [
  { verb: 'Sign out', right: 'read', act: signOut },
  { verb: 'New key', right: 'keys', href: '/console/keys?new=' },
  { verb: 'New account', right: 'keys', href: '/console/accounts?new=' },
  { verb: 'Add a vendor', right: 'config', href: '/console/models/vendors?add=' },
  { verb: 'Add a model', right: 'config', href: '/console/models?add=' },
  { verb: 'Import prices', right: 'config', href: '/console/models?import=' },
  { verb: 'New token', right: 'people', href: to.settings('people', { act: 'token' }) },
]

/** Ends the session, and leaves the page. */
export async function signOut(): Promise<{ readonly message: string }> {
  await call('DELETE', '/admin/session').catch(() => {})
  location.assign(session.value?.sign_out ?? at('/console'))
  return { message: 'Signed out' }
}

export function actsOf(target: Target): readonly Act[] {
  return ACTS[target.kind]?.(target) ?? []
}

/** Narrows the list of this screen to a value of a row. */
export function onlyThis(label: string, name: string, value: string | null | undefined): Act[] {
  return value ? [link(`Only this ${label}`, hrefWith({ [name]: value, open: undefined }))] : []
}

/** What can be done with every row. */
export function copies(id: string, href: string | undefined): readonly Act[] {
  const copy = (verb: string, text: string): Act => ({
    verb,
    right: 'read',
    act: () => copyText(text),
  })
  const address = href && new URL(at(href), location.href).href
  return [copy('Copy id', id), ...(address ? [copy('Copy link', address)] : [])]
}

/** The dialog of a screen that is open; one that the address names is opened, and the address forgets it. */
export function useOpened(parameter = 'act') {
  const opened = useState<string>()
  const value = place.value.query.get(parameter)
  useEffect(() => {
    if (value === null) return
    opened[1](value)
    setQuery({ [parameter]: undefined }, { replace: true })
  }, [value])
  return opened
}

/** Does an act, and says what came of it. */
export async function perform({ href, act }: Act): Promise<void> {
  if (href !== undefined) return go(href)
  try {
    const done = await act!()
    if (!done) return
    toast(done.message, done.undo)
    acted.value++
  } catch (thrown) {
    toast(toApiError(thrown).message)
  }
}

/** Disabling, or enabling what is disabled. */
export function switchOf({ id, name, state, kind }: Target, path: string): Act {
  const isOff = state === 'disabled'
  const set = (disabled: boolean) =>
    call<{ data: { key_count?: number } }>('PATCH', `${path}/${encodeURIComponent(id)}`, {
      body: { disabled },
    })
  return {
    verb: isOff ? 'Enable' : 'Disable',
    right: 'keys',
    act: async () => {
      const { data } = await set(!isOff)
      const keys = kind === 'account' && data.key_count ? `, with its ${data.key_count} keys` : ''
      return { message: `${isOff ? 'Enabled' : 'Disabled'} ${name}${keys}`, undo: () => set(isOff) }
    },
  }
}

/** One smallest call of a model. */
export function testOf(model: string, deployment?: string): Act {
  return {
    verb: 'Test now',
    right: 'config',
    act: async () => {
      const path = `/admin/models/${encodeURIComponent(model)}/test`
      const body = deployment === undefined ? {} : { deployment }
      const { data } = await call<{ data: TestAnswer }>('POST', path, { body })
      const why = data.cause ?? data.message ?? 'it cannot be tested'
      return { message: data.ok ? `${model} answered in ${data.ms} ms` : `${model} failed: ${why}` }
    },
  }
}

/** Asks a vendor for its models, which costs nothing. */
export function testVendor(name: string): Act {
  return {
    verb: 'Test',
    right: 'config',
    act: async () => {
      const { data } = await call<{ data: TestAnswer }>('POST', '/admin/providers/test', {
        body: { name },
      })
      const why = data.cause ?? data.message ?? 'it cannot be tested'
      return { message: data.ok ? `${name} answered in ${data.ms} ms` : `${name}: ${why}` }
    },
  }
}

const MUTE_SECONDS = 86_400

/** No notice of an alert for a day. */
export function muteOf(id: string, what: string): Act {
  const mute = (seconds: number) =>
    call('POST', `/admin/alerts/${encodeURIComponent(id)}/mute`, { body: { seconds } })
  return {
    verb: 'Mute a day',
    right: 'keys',
    act: async () => {
      await mute(MUTE_SECONDS)
      return { message: `No notice of ${what} for a day`, undo: () => mute(0) }
    },
  }
}

/** No call goes to a deployment for some minutes. */
export function coolDown(deployment: string, minutes = 5): Act {
  const named =
    minutes < 60 ? `${minutes} minutes` : minutes === 60 ? 'an hour' : `${minutes / 60} hours`
  return {
    verb: minutes === 5 ? 'Cool down' : `Cool down for ${named}`,
    right: 'keys',
    act: async () => {
      const body = { seconds: minutes * 60 }
      await call('POST', `/admin/deployments/${encodeURIComponent(deployment)}/cooldown`, { body })
      return {
        message: `No call goes to ${deployment} for ${named}`,
        undo: resumeOf(deployment).act!,
      }
    },
  }
}

/** Calls go to a deployment again. */
export function resumeOf(deployment: string): Act {
  return {
    verb: 'Resume',
    right: 'keys',
    act: async () => {
      await call('POST', `/admin/deployments/${encodeURIComponent(deployment)}/resume`, {
        body: {},
      })
      return { message: `Calls go to ${deployment} again` }
    },
  }
}
