/** Sends spans by OTLP over HTTP, as JSON. https://opentelemetry.io/docs/specs/otlp/ */
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { GatewayEvent, Sink, SinkHost } from '../../../src/plugin.ts'
import { spansOf, type Span, type SpanSettings, attributesOf, type Attribute } from './spans.ts'

/** Where spans go. */
interface Receiver {
  /** The whole address. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly more?: SpanSettings['more']
}

/** What a failure tells about the answer. */
interface Refusal {
  readonly retryAfterMs?: number
  readonly cause?: { readonly status?: number }
}

/** Spans of one request. */
const MOST_SPANS = 512
const CALLS = 128
/** The characters of the texts in one request: receivers refuse much more. */
const MOST_CHARACTERS = 2 * 1024 * 1024
/** The statuses that ask for another try; any other refusal is final. */
const AGAIN = new Set([429, 502, 503, 504])
/** The pause between two lines about spans that a receiver did not take. */
const QUIET_MS = 60_000

const compress = promisify(gzip)

/** A sink that sends the spans of calls to a receiver. */
export function traceSink({ url, headers, more }: Receiver, host: SinkHost): Sink {
  const { telemetry } = host
  const settings: SpanSettings = { telemetry, ...(more && { more }) }
  /** The spans of a batch that is sent again: their ids stay the same. */
  const made = new WeakMap<GatewayEvent, readonly Span[]>()
  const sent = new WeakSet<Span>()
  let warnedAt = -Infinity
  const warn = (message: string) => {
    if (performance.now() - warnedAt < QUIET_MS) return
    warnedAt = performance.now()
    host.log.warn(message)
  }
  const post = async (
    spans: readonly Span[],
    resource: readonly Attribute[],
    signal: AbortSignal,
  ) => {
    const sending = host.http(url, {
      method: 'POST',
      headers: {
        ...headers,
        'content-type': 'application/json',
        'content-encoding': 'gzip',
      },
      body: await compress(bodyOf(spans, resource, telemetry.version)),
      signal,
      responseType: 'text',
    })
    const text = await sending.catch((error: Refusal) => {
      const { retryAfterMs, cause } = error
      if (cause?.status === undefined) throw error
      const failure = AGAIN.has(cause.status) ? 'overloaded' : 'bad_request'
      throw host.fail(failure, undefined, { cause, retryAfterMs })
    })
    const answer = partialSuccess(text)
    if (answer !== undefined) warn(`the receiver did not take ${answer} spans`)
    for (const span of spans) sent.add(span)
  }
  return {
    takes: ['call.ended'],
    batch: CALLS,
    async send(events, signal) {
      const spans = events.flatMap((event) => {
        if (event.event !== 'call.ended') return []
        const callSpans = made.get(event) ?? spansOf(event.data, settings)
        made.set(event, callSpans)
        return callSpans.filter((span) => !sent.has(span))
      })
      const resource = attributesOf(telemetry.semconv, {
        service: telemetry.service,
        serviceVersion: telemetry.version,
        instance: events[0]?.gateway,
      })
      for (const some of requestsOf(spans)) await post(some, resource, signal)
    },
  }
}

function bodyOf(spans: readonly Span[], attributes: readonly Attribute[], version: string): string {
  const scopeSpans = [{ scope: { name: 'sluicegate', version }, spans }]
  return JSON.stringify({ resourceSpans: [{ resource: { attributes }, scopeSpans }] })
}

/** Spans in groups that a receiver takes at once. */
function* requestsOf(spans: readonly Span[]): Generator<readonly Span[]> {
  let some: Span[] = []
  let characters = 0
  for (const span of spans) {
    // Without contents all spans together are far below the bound.
    const size = span.attributes.reduce((sum, { value }) => sum + textLength(value), 0)
    if (some.length === MOST_SPANS || (some.length > 0 && characters + size > MOST_CHARACTERS)) {
      yield some
      some = []
      characters = 0
    }
    some.push(span)
    characters += size
  }
  if (some.length > 0) yield some
}

function textLength(value: Attribute['value']): number {
  return 'stringValue' in value ? value.stringValue.length : 0
}

/** The number of spans that were rejected; undefined for none. */
function partialSuccess(text: string): number | undefined {
  try {
    const { partialSuccess: partial } = JSON.parse(text) as {
      partialSuccess?: { rejectedSpans?: string | number }
    }
    return Number(partial?.rejectedSpans ?? 0) || undefined
  } catch {
    // A receiver may answer with nothing.
    return undefined
  }
}
