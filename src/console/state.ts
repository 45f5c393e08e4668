/** What all screens share: the address, who is signed in, and what the reader prefers. */
import { at, withoutBase } from './base.ts'
import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { Zone } from './format.ts'
import type { Right } from '../server/admin/resources/rights.ts'
import type { Session } from '../server/admin/resources/session.ts'

/** The address of the page. Range, filters, sort, open row and tab of a screen are its query. */
interface Place {
  readonly path: string
  readonly query: URLSearchParams
}

export interface ScreenProps {
  /** Parameters of the path, such as `id`. */
  readonly params: Readonly<Record<string, string>>
}

interface Preferences {
  readonly theme: 'system' | 'light' | 'dark'
  readonly zone: Zone
  /** Whether single letters are shortcuts. */
  readonly letters: boolean
  /** Whether the guided start was dismissed. */
  readonly started?: boolean
  readonly hidden: Readonly<Record<string, readonly string[]>>
}

const STORED = 'sluicegate.console'

export const place = signal<Place>(readPlace())
/** It is undefined until the gateway has answered, null without a session. */
export const session = signal<Session | null | undefined>(undefined)
export const preferences = signal<Preferences>(readPreferences())
/** The page of the manual that is open, such as `console#models`. */
export const manual = signal<string | undefined>(undefined)
/** Called before a screen is left; a text is why the reader may want to stay. */
let reasonToStay: () => string | undefined = noReason

/** Goes to another address of the console. @param options.replace adds no entry to the history */
export function go(href: string, { replace = false } = {}): void {
  const url = new URL(href.startsWith('/') ? at(href) : href, location.href)
  if (url.origin !== location.origin) return
  if (withoutBase(url.pathname) !== place.value.path && !mayLeave()) return
  if (url.href !== location.href) {
    history[replace ? 'replaceState' : 'pushState'](null, '', url.href)
  }
  place.value = readPlace()
}

/** Changes parameters of the query; undefined or an empty list removes one. */
export function setQuery(
  changes: Readonly<Record<string, string | readonly string[] | undefined>>,
  options: { readonly replace?: boolean } = {},
): void {
  go(hrefWith(changes), options)
}

export function hrefWith(
  changes: Readonly<Record<string, string | readonly string[] | undefined>>,
): string {
  const { path, query } = place.value
  const next = new URLSearchParams(query)
  for (const [name, value] of Object.entries(changes)) {
    next.delete(name)
    const values = value === undefined ? [] : typeof value === 'string' ? [value] : value
    for (const one of values) next.append(name, one)
  }
  const text = next.toString()
  return text === '' ? path : `${path}?${text}`
}

/** Warns the reader who would lose changes. @returns a function that takes it back */
export function stayWhile(reason: () => string | undefined): () => void {
  reasonToStay = reason
  return () => {
    if (reasonToStay === reason) reasonToStay = noReason
  }
}

export function followAddress(): void {
  addEventListener('popstate', () => {
    if (withoutBase(location.pathname) !== place.value.path && !mayLeave()) {
      history.pushState(null, '', at(withPath(place.value)))
      return
    }
    place.value = readPlace()
  })
  addEventListener('beforeunload', (event) => {
    if (reasonToStay() !== undefined) event.preventDefault()
  })
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0) return
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    const link = event.target instanceof Element ? event.target.closest('a') : null
    if (!link || link.target !== '' || link.hasAttribute('download')) return
    if (!/^\/(console|me)(\/|\?|$)/.test(withoutBase(link.getAttribute('href') ?? ''))) return
    event.preventDefault()
    go(link.href)
  })
}

/** Whether the reader has one of the rights. */
export function allows(...rights: readonly Right[]): boolean {
  return session.value?.rights.some((right) => rights.includes(right)) ?? false
}

export function prefer(change: Partial<Preferences>): void {
  preferences.value = { ...preferences.value, ...change }
  applyTheme()
  try {
    localStorage.setItem(STORED, JSON.stringify(preferences.value))
  } catch {
    // A browser that keeps nothing: the choice holds until the page is closed.
  }
}

export function applyTheme(): void {
  const { theme } = preferences.value
  if (theme === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme
}

/** Names the thing that a screen shows in the title of the page, so that ten tabs have ten names. */
export function useTitle(...names: readonly (string | undefined)[]): void {
  useEffect(() => {
    if (names[0] !== undefined) document.title = [...names, 'Sluicegate'].join(' · ')
  }, names)
}

/** It is defined outside of every component: inside of one it would keep what that one knew. */
function noReason(): undefined {
  return undefined
}

function mayLeave(): boolean {
  const reason = reasonToStay()
  if (reason === undefined) return true
  // eslint-disable-next-line no-alert -- The browser's own question: it blocks, as leaving has to.
  if (!confirm(reason)) return false
  reasonToStay = noReason
  return true
}

function withPath({ path, query }: Place): string {
  const text = query.toString()
  return text === '' ? path : `${path}?${text}`
}

function readPlace(): Place {
  return { path: withoutBase(location.pathname), query: new URLSearchParams(location.search) }
}

function readPreferences(): Preferences {
  const standard: Preferences = { theme: 'system', zone: 'utc', letters: true, hidden: {} }
  try {
    return { ...standard, ...JSON.parse(localStorage.getItem(STORED) ?? '{}') }
  } catch {
    return standard
  }
}
