/** Requests to the gateway: cancelled with their screen, errors in the API's words, amounts as they were sent. */
import { at } from './base.ts'
import { useEffect, useRef, useState } from 'preact/hooks'
import { signal } from '@preact/signals'
import { readAnswer } from './amounts.ts'

/** The refusal of the API, or the failure to reach it (`status` 0). */
export class ApiError extends Error {
  readonly status: number
  readonly code: string
  readonly param: string | null
  readonly requestId: string | null
  /** The whole answer: with status 412 it has the object in its present state. */
  readonly body: unknown

  constructor(status: number, body: unknown, requestId: string | null) {
    const { message, code, param } = errorOf(body)
    super(message ?? (status === 0 ? 'The gateway cannot be reached.' : `The answer is ${status}.`))
    this.status = status
    this.code = code ?? (status === 0 ? 'network' : `http_${status}`)
    this.param = param ?? null
    this.requestId = requestId
    this.body = body
  }
}

interface Ask {
  readonly body?: unknown
  readonly signal?: AbortSignal
  /** The revision that a change is based on; another one is refused with 412. */
  readonly revision?: string | number | null
  /** A credential other than the session. */
  readonly key?: string
}

/** A repeated question takes at most this part of the gateway's time: a page must not slow calls. */
const MOST_TIME = 1 / 50

/** The number of acts that were done or taken back: what shows the state of a thing asks for it again. */
export const acted = signal(0)

let onSignedOut: () => void = () => {}

export function whenSignedOut(listener: () => void): void {
  onSignedOut = listener
}

/** Sends a request and reads its answer. @throws ApiError; the signal's reason when it was aborted */
export async function call<Answer>(method: string, path: string, ask: Ask = {}): Promise<Answer> {
  const response = await send(method, path, ask)
  const text = await response.text()
  const body = readAnswer(text)
  if (response.ok) return body as Answer
  if (response.status === 401 && ask.key === undefined && !path.startsWith('/admin/session')) {
    onSignedOut()
  }
  throw new ApiError(response.status, body, response.headers.get('x-request-id'))
}

/** Sends a request. Its answer may be a stream. @throws ApiError when the gateway cannot be reached */
async function send(method: string, path: string, ask: Ask = {}): Promise<Response> {
  const { body, signal, revision, key } = ask
  const headers = new Headers()
  // The header goes without a body, too: the gateway demands it of every change, because a form of another site cannot send it.
  if (method !== 'GET') headers.set('content-type', 'application/json')
  if (revision !== undefined && revision !== null) headers.set('if-match', `"${revision}"`)
  if (key !== undefined) headers.set('authorization', `Bearer ${key}`)
  try {
    return await fetch(at(path), {
      method,
      headers,
      credentials: key === undefined ? 'same-origin' : 'omit',
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    })
  } catch (error) {
    if (signal?.aborted) throw error
    throw new ApiError(0, undefined, null)
  }
}

export function withQuery(
  path: string,
  query: URLSearchParams | Readonly<Record<string, string | number | undefined>>,
): string {
  const entries =
    query instanceof URLSearchParams
      ? [...query]
      : Object.entries(query).filter(([, value]) => value !== undefined && value !== '')
  const text = new URLSearchParams(entries.map(([name, value]) => [name, String(value)])).toString()
  return text === '' ? path : `${path}?${text}`
}

export interface Loaded<Answer> {
  /** Stays when a later request fails. */
  readonly data: Answer | undefined
  readonly error: ApiError | undefined
  readonly loading: boolean
  readonly at: number
  reload(): void
  /** Replaces the answer by the answer to a change. */
  put(data: Answer): void
}

interface State<Answer> {
  readonly path: string | null
  readonly data: Answer | undefined
  readonly error: ApiError | undefined
  readonly loading: boolean
  readonly at: number
}

/**
 * Asks when the component appears and when the path changes; aborts when it is left.
 * @param path null asks nothing
 * @param options.every ms between repetitions, while the page is visible; more where an answer takes long
 */
export function useAnswer<Answer>(
  path: string | null,
  { key, every }: { readonly key?: string | undefined; readonly every?: number } = {},
): Loaded<Answer> {
  const empty = { path, data: undefined, error: undefined, loading: path !== null, at: 0 }
  const [state, setState] = useState<State<Answer>>(empty)
  const [turn, setTurn] = useState(0)
  const [took, setTook] = useState(0)
  const shown = useRef(path)
  useEffect(() => {
    if (path === null) return undefined
    const controller = new AbortController()
    const isOther = shown.current !== path
    const began = performance.now()
    shown.current = path
    setState((last) => (isOther ? { ...empty } : { ...last, path, loading: true }))
    call<Answer>('GET', path, {
      signal: controller.signal,
      ...(key !== undefined && { key }),
    }).then(
      (data) => {
        setTook(performance.now() - began)
        setState({ path, data, error: undefined, loading: false, at: Date.now() })
      },
      (error: unknown) => {
        if (controller.signal.aborted) return
        setState((last) => ({ ...last, error: toApiError(error), loading: false }))
      },
    )
    return () => controller.abort()
  }, [path, key, turn, acted.value])
  // The pause is a number of whole repetitions, so that the timer does not begin again with each answer.
  const pause = every && every * Math.max(1, Math.ceil(took / MOST_TIME / every))
  // Not while it is under way: a question that is given up is answered all the same.
  useRepetition(pause, () => state.loading || setTurn((last) => last + 1))
  const { data, error, loading, at } = state.path === path ? state : empty
  return {
    data,
    error,
    loading,
    at,
    reload: () => setTurn((last) => last + 1),
    put: (data) => setState({ path, data, error: undefined, loading: false, at: Date.now() }),
  }
}

interface Page<Row> {
  readonly data: readonly Row[]
  readonly next?: string | number | null
  /** How many there are in all pages; not of calls and bookings. */
  readonly total?: number
  readonly searched_to?: string | null
  /** Days whose part of the request log is damaged. */
  readonly unreadable_days?: readonly string[]
}

export interface Pages<Row> extends Omit<Loaded<Page<Row>>, 'put'> {
  readonly rows: readonly Row[]
  readonly next: string | number | null
  readonly total: number | undefined
  readonly searchedTo: string | null
  /** Whether a page was added: asking again for the first one takes it away. */
  readonly hasMore: boolean
  more(): void
  readonly loadingMore: boolean
}

/** Works as {@link useAnswer} does, for lists. @param cursor name of the parameter that takes `next` */
export function usePages<Row>(path: string | null, cursor = 'after', key?: string): Pages<Row> {
  const first = useAnswer<Page<Row>>(path, { key })
  const [added, setAdded] = useState<readonly Page<Row>[]>([])
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError>()
  const controller = useRef(new AbortController())
  useEffect(() => {
    controller.current.abort()
    controller.current = new AbortController()
    setAdded([])
    setBusy(false)
    setError(undefined)
    return () => controller.current.abort()
  }, [path, first.at])
  const last = added.at(-1) ?? first.data
  const next = last?.next ?? null
  return {
    ...first,
    error: error ?? first.error,
    rows: [...(first.data?.data ?? []), ...added.flatMap(({ data }) => data)],
    next,
    total: last?.total,
    searchedTo: last?.searched_to ?? null,
    hasMore: added.length > 0,
    loadingMore: busy,
    more() {
      if (path === null || next === null || busy) return
      const { signal } = controller.current
      setBusy(true)
      const url = `${path}${path.includes('?') ? '&' : '?'}${cursor}=${encodeURIComponent(next)}`
      call<Page<Row>>('GET', url, { signal, ...(key !== undefined && { key }) }).then(
        (page) => {
          setAdded((pages) => [...pages, page])
          setBusy(false)
        },
        (thrown: unknown) => {
          if (signal.aborted) return
          setError(toApiError(thrown))
          setBusy(false)
        },
      )
    },
  }
}

export function toApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown
  return new ApiError(0, { error: { message: String(thrown), code: 'page' } }, null)
}

/** Repeats while the page is visible, and at once when it is shown again. */
function useRepetition(everyMs: number | undefined, repeat: () => void): void {
  const latest = useRef(repeat)
  latest.current = repeat
  useEffect(() => {
    if (everyMs === undefined) return undefined
    const timer = setInterval(() => document.hidden || latest.current(), everyMs)
    const onShown = () => document.hidden || latest.current()
    document.addEventListener('visibilitychange', onShown)
    return () => {
      clearInterval(timer)
      document.removeEventListener('visibilitychange', onShown)
    }
  }, [everyMs])
}

function errorOf(body: unknown): { message?: string; code?: string; param?: string | null } {
  if (typeof body !== 'object' || body === null || !('error' in body)) return {}
  const { error } = body as { error: unknown }
  return typeof error === 'object' && error !== null ? error : {}
}

// Addresses of things.

export type Query = Readonly<Record<string, string | readonly string[] | undefined>>

export const to = {
  account: (id: string, tab = 'overview', query: Query = {}) =>
    address(`/console/accounts/${encodeURIComponent(id)}/${tab}`, query),
  key: (id: string, tab = 'overview', query: Query = {}) =>
    address(`/console/keys/${encodeURIComponent(id)}/${tab}`, query),
  model: (id: string) => address('/console/models', { open: id }),
  /** A vendor, or all of them. */
  vendor: (name?: string) => address('/console/models/vendors', { open: name }),
  requests: (query: Query) => address('/console/requests', query),
  request: (id: string) => address('/console/requests', { open: id }),
  payment: (reference: string) => address('/console/payments', { open: reference }),
  /** The Markdown of a page of the manual. */
  manual: (page: string) => address(`/console/help/${page}`, {}),
  play: (query: Query) => address('/console/play', query),
  settings: (tab: string, query: Query = {}) => address(`/console/settings/${tab}`, query),
}

/** Where a thing is shown that an incident or an alert is about. */
export function hrefOfObject({
  kind,
  id,
  account,
}: {
  readonly kind: string
  readonly id: string
  readonly account?: string
}): string | undefined {
  if (kind === 'model') return to.model(id)
  if (kind === 'key') return to.key(id)
  if (kind === 'account') return to.account(id)
  if (kind === 'team') return account && to.account(account, 'teams')
  if (kind === 'payment') return to.payment(id)
  if (kind === 'guard') return '/console/guard'
  return kind === 'entry' ? to.settings('set-up') : undefined
}

function address(path: string, query: Query): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query))
    for (const one of value === undefined ? [] : [value].flat()) parameters.append(name, one)
  return withQuery(path, parameters)
}
