/** One call of the Playground: sent, read as it arrives, stopped when its screen is left. Nothing of it is stored. */
import { at } from '../base.ts'
import { useEffect, useRef, useState } from 'preact/hooks'
import { readAnswer } from '../amounts.ts'
import { ApiError, toApiError } from '../api.ts'
import type { PlayRequest } from './play-request.ts'

const MOST_EVENTS = 5000

interface ToolCall {
  readonly name: string
  readonly arguments: string
}

export interface Exchange {
  readonly state: 'running' | 'done' | 'failed' | 'stopped'
  readonly status: number | null
  readonly headers: readonly (readonly [string, string])[]
  /** ms from sending. */
  readonly firstMs: number | null
  readonly totalMs: number | null
  readonly text: string
  readonly reasoning: string
  readonly refusal: string
  readonly tools: readonly ToolCall[]
  readonly citations: readonly { readonly url: string; readonly title: string }[]
  readonly finish: string | null
  readonly usage: Readonly<Record<string, unknown>> | null
  /** Lines of a stream, with ms from sending. */
  readonly events: readonly { readonly ms: number; readonly text: string }[]
  /** The number of events beyond those that are kept. */
  readonly more: number
  readonly body: unknown
  readonly sound: Blob | null
  readonly error: ApiError | null
}

const BEGUN: Exchange = {
  state: 'running',
  status: null,
  headers: [],
  firstMs: null,
  totalMs: null,
  text: '',
  reasoning: '',
  refusal: '',
  tools: [],
  citations: [],
  finish: null,
  usage: null,
  events: [],
  more: 0,
  body: null,
  sound: null,
  error: null,
}

interface Callers {
  /** The last call of each column. */
  readonly exchanges: Readonly<Record<string, Exchange>>
  /** Resolves with the call when it has ended, also when it failed. */
  send(column: string, request: PlayRequest, key: string): Promise<Exchange>
  /** @param column the one to stop; all of them without it */
  stop(column?: string): void
  forget(): void
}

export function useCallers(): Callers {
  const [exchanges, setExchanges] = useState<Readonly<Record<string, Exchange>>>({})
  const running = useRef(new Map<string, AbortController>())
  const stop = (column?: string) => {
    for (const [id, one] of running.current) if (column === undefined || column === id) one.abort()
  }
  useEffect(() => () => stop(), [])
  return {
    exchanges,
    async send(column, request, key) {
      running.current.get(column)?.abort()
      const own = new AbortController()
      running.current.set(column, own)
      const shown = frames((one) => setExchanges((last) => ({ ...last, [column]: one })))
      const last = await exchangeOf(request, key, own.signal, shown.show)
      shown.end(last)
      return last
    },
    stop,
    forget: () => setExchanges({}),
  }
}

/** Shows at most one state a frame: a fast stream has hundreds of events in one. */
function frames(set: (exchange: Exchange) => void) {
  let next: Exchange | undefined
  let frame = 0
  return {
    show(exchange: Exchange) {
      next = exchange
      frame ||= requestAnimationFrame(() => {
        frame = 0
        set(next!)
      })
    },
    end(exchange: Exchange) {
      cancelAnimationFrame(frame)
      set(exchange)
    },
  }
}

/** Sends a call and reads its answer. Never rejects: a failure is part of the exchange. */
async function exchangeOf(
  request: PlayRequest,
  key: string,
  signal: AbortSignal,
  show: (exchange: Exchange) => void,
): Promise<Exchange> {
  const began = performance.now()
  const now = () => performance.now() - began
  let exchange = BEGUN
  const change = (members: Partial<Exchange>) => {
    exchange = { ...exchange, ...members }
    show(exchange)
  }
  change({})
  try {
    const response = await fetch(at(request.path), {
      method: 'POST',
      signal,
      credentials: 'omit',
      ...bodyOf(request, key),
    })
    const type = response.headers.get('content-type') ?? ''
    change({ status: response.status, headers: [...response.headers] })
    if (!response.ok) {
      const body = readAnswer(await response.text())
      throw new ApiError(response.status, body, response.headers.get('x-request-id'))
    }
    if (type.startsWith('text/event-stream')) {
      for await (const event of eventsOf(response)) {
        if (exchange.firstMs === null) change({ firstMs: now() })
        change(withEvent(exchange, event, now()))
      }
    } else if (type.includes('json')) {
      const body = readAnswer(await response.text())
      change({ firstMs: now(), body, ...wholeOf(body) })
    } else if (type.startsWith('text/')) {
      change({ firstMs: now(), text: await response.text() })
    } else {
      change({ firstMs: now(), ...(await soundOf(response)) })
    }
    if (exchange.error) throw exchange.error
    return { ...exchange, state: 'done', totalMs: now() }
  } catch (thrown) {
    if (signal.aborted) return { ...exchange, state: 'stopped', totalMs: now() }
    return { ...exchange, state: 'failed', totalMs: now(), error: toApiError(thrown) }
  }
}

function bodyOf({ body, upload }: PlayRequest, key: string): RequestInit {
  const authorization = `Bearer ${key}`
  if (!upload) {
    const headers = { authorization, 'content-type': 'application/json' }
    return { headers, body: JSON.stringify(body) }
  }
  const form = new FormData()
  form.set('file', upload.file, upload.name)
  for (const [name, value] of Object.entries(body)) {
    form.set(name, typeof value === 'string' ? value : JSON.stringify(value))
  }
  return { headers: { authorization }, body: form }
}

async function* eventsOf(response: Response): AsyncGenerator<string> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    const events = (rest + value).split('\n\n')
    rest = events.pop()!
    for (const event of events) {
      const data = event.split('\n').filter((line) => line.startsWith('data:'))
      if (data.length > 0) yield data.map((line) => line.slice(5).trimStart()).join('\n')
    }
  }
}

function withEvent(exchange: Exchange, text: string, ms: number): Partial<Exchange> {
  const full = exchange.events.length >= MOST_EVENTS
  const kept = full ? { more: exchange.more + 1 } : { events: [...exchange.events, { ms, text }] }
  const chunk = readAnswer(text) as Chunk | undefined
  if (!chunk) return kept
  if (chunk.error) return { ...kept, error: new ApiError(exchange.status ?? 0, chunk, null) }
  const [choice] = chunk.choices ?? []
  const delta = choice?.delta ?? {}
  return {
    ...kept,
    text: exchange.text + (delta.content ?? ''),
    reasoning: exchange.reasoning + (delta.reasoning ?? delta.reasoning_content ?? ''),
    refusal: exchange.refusal + (delta.refusal ?? ''),
    tools: withTools(exchange.tools, delta.tool_calls ?? []),
    citations: [...exchange.citations, ...citationsOf(delta.annotations)],
    finish: choice?.finish_reason ?? exchange.finish,
    usage: chunk.usage ?? exchange.usage,
  }
}

function wholeOf(body: unknown): Partial<Exchange> {
  const { choices, usage, text } = (body ?? {}) as Chunk
  const [choice] = choices ?? []
  const message = choice?.message ?? {}
  return {
    text: message.content ?? text ?? '',
    reasoning: message.reasoning ?? message.reasoning_content ?? '',
    refusal: message.refusal ?? '',
    tools: withTools([], message.tool_calls ?? []),
    citations: citationsOf(message.annotations),
    finish: choice?.finish_reason ?? null,
    usage: usage ?? null,
  }
}

async function soundOf(response: Response): Promise<Partial<Exchange>> {
  return { sound: await response.blob() }
}

function withTools(
  previous: readonly ToolCall[],
  pieces: readonly ToolPiece[],
): readonly ToolCall[] {
  const calls = [...previous]
  for (const [i, { index, function: piece }] of pieces.entries()) {
    const at = index ?? i
    const before = calls[at] ?? { name: '', arguments: '' }
    calls[at] = {
      name: before.name + (piece?.name ?? ''),
      arguments: before.arguments + (piece?.arguments ?? ''),
    }
  }
  return calls
}

function citationsOf(annotations: readonly Annotation[] = []) {
  return annotations.flatMap(({ url_citation: citation }) =>
    citation ? [{ url: citation.url, title: citation.title ?? citation.url }] : [],
  )
}

interface ToolPiece {
  readonly index?: number
  readonly function?: { readonly name?: string; readonly arguments?: string }
}

interface Annotation {
  readonly url_citation?: { readonly url: string; readonly title?: string }
}

interface Message {
  readonly content?: string | null
  readonly reasoning?: string | null
  readonly reasoning_content?: string | null
  readonly refusal?: string | null
  readonly tool_calls?: readonly ToolPiece[]
  readonly annotations?: readonly Annotation[]
}

interface Chunk {
  readonly choices?: readonly {
    readonly delta?: Message
    readonly message?: Message
    readonly finish_reason?: string | null
  }[]
  readonly usage?: Readonly<Record<string, unknown>> | null
  readonly text?: string
  readonly error?: unknown
}
