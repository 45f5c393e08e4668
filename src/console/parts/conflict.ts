/** Two operators changed one object: three versions of each member, and what both of them wanted. */
import { useState } from 'preact/hooks'
import type { KeyRow } from '../answers.ts'
import { call, toApiError } from '../api.ts'
import { html, type Content } from '../html.ts'
import { changesBetween, Diff, shortJson, type Change } from './diff.ts'
import type { ApiRequest } from './as-text.ts'
import { FormEnd, send, useSubmission, type Submission } from './form.ts'
import { Heads } from './heads.ts'
import { Dialog } from './sheet.ts'
import { Notice } from './states.ts'
import { toast } from './toast.ts'

type Members = Readonly<Record<string, unknown>>

/** The present object with the members that were changed here on top. A member that was removed here is removed. */
export function merged(saved: Members, theirs: Members, mine: Members): Members {
  const names = new Set([...Object.keys(saved), ...Object.keys(theirs), ...Object.keys(mine)])
  const entries = [...names].map((name) => {
    const isMine = JSON.stringify(saved[name]) !== JSON.stringify(mine[name])
    return [name, isMine ? mine[name] : theirs[name]] as const
  })
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined))
}

/** Says that members of an object were changed, with a button that gives them their former values. */
export function offerUndo(
  path: string,
  former: Members,
  { revision }: { readonly revision?: string | number },
): void {
  toast('Saved', () => call('PATCH', path, { body: former, revision: revision ?? null }))
}

/** Members as a seed has them: without those that are not set, and without a note, which it has none of. */
export function seedOf(members: Members): Members {
  return Object.fromEntries(
    Object.entries(members).filter(
      ([name, value]) => value !== null && value !== false && name !== 'note',
    ),
  )
}

/** Settings of a key as a seed has them. */
export function keySeed({ id, account_id }: KeyRow, settings: Members): Members {
  const key = { id, secret: '${GATEWAY_KEY}', ...seedOf(settings) }
  return { seed: { accounts: [{ id: account_id, name: account_id, keys: [key] }] } }
}

interface Changing {
  readonly form: Submission
  readonly request: ApiRequest
  readonly changes: readonly Change[]
  readonly versions: Versions | undefined
}

/** The members of an object when a change was begun, now, and as they are wanted. */
interface Versions {
  readonly saved: Members
  readonly theirs: Members
  readonly mine: Members
}

/**
 * Changes members of an object. A change that another operator made meanwhile is shown first; the next submission is
 * based on it.
 * @param wanted every member that can be changed.
 * @param onDone called when it is saved, or nothing differs
 */
export function useChange(
  path: string,
  row: object,
  wanted: Members,
  onDone: () => void,
): Changing {
  const [theirs, setTheirs] = useState<object>()
  const settingsOf = (of: object): Members =>
    Object.fromEntries(
      Object.entries(wanted).map(([member, value]) => [
        member,
        (of as Members)[member] ?? (typeof value === 'boolean' ? false : null),
      ]),
    )
  const saved = settingsOf(row)
  const changes = changesBetween(saved, wanted)
  const body = Object.fromEntries(changes.map(({ member, to }) => [member, to]))
  const { revision = null } = (theirs ?? row) as { readonly revision?: number | string }
  const request = { method: 'PATCH', path, body, revision }
  const form = useSubmission(async () => {
    if (changes.length === 0) return onDone()
    try {
      const { data } = await send<{ data: { revision?: string } }>(request)
      const before = settingsOf(theirs ?? row)
      offerUndo(
        path,
        Object.fromEntries(Object.keys(body).map((name) => [name, before[name]])),
        data,
      )
    } catch (thrown) {
      const error = toApiError(thrown)
      if (error.status !== 412) throw error
      return setTheirs((error.body as { data: object }).data)
    }
    onDone()
  })
  const versions = theirs && { saved, theirs: settingsOf(theirs), mine: wanted }
  return { form, request, changes, versions }
}

/** A dialog of fields, with what will change, and with the versions where another operator's change came first. */
export function ChangeDialog({
  title,
  right,
  changing: { form, request, changes, versions },
  entry,
  onClose,
  children,
}: {
  readonly title: Content
  readonly right: 'keys' | 'money'
  readonly changing: Changing
  /** What the configuration would say. */
  readonly entry?: object
  readonly onClose: () => void
  readonly children: Content
}) {
  return html`<${Dialog} title=${title} wide onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      ${children}
      <section><h3>What will change</h3><${Diff} changes=${changes} none="Nothing yet." /></section>
      ${versions && html`<${Conflict} ...${versions} />`}
      <${FormEnd} form=${form} verb=${versions ? 'Apply mine on top' : 'Save'} right=${right} onClose=${onClose} request=${request} entry=${entry} />
    </form>
  <//>`
}

export function Conflict({ saved, theirs, mine }: Versions) {
  const versions = [saved, theirs, mine, merged(saved, theirs, mine)]
  const names = [...new Set(versions.flatMap((one) => Object.keys(one)))].filter(
    (name) => new Set(versions.map((one) => JSON.stringify(one[name]))).size > 1,
  )
  return html`<${Notice} tone="warn">
      <strong>Another operator changed this meanwhile.</strong> Nothing was saved.
    <//>
    <table class="diff">
      <${Heads} names=${['Member', 'When you began', 'Now', 'Yours', 'Both']} />
      <tbody>
        ${names.map(
          (name) =>
            html`<tr key=${name}>
              <th scope="row" class="mono">${name}</th>
              ${versions.map((one) => html`<td class="mono">${shortJson(one[name])}</td>`)}
            </tr>`,
        )}
      </tbody>
    </table>`
}
