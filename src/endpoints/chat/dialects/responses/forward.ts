/** Events of a vendor with this API, as the client gets them: the gateway's id, the name that was asked for, the cost. */
import { isObject } from '../../../../errors/checks.ts'
import type { ErrorBody } from '../../../../errors/errors.ts'
import type { Receipt } from '../../../../pipeline/pipeline.ts'
import type { AnswerChunk } from '../../billing.ts'
import { endingOf } from './events.ts'
import type { ResponseEvent } from './items.ts'
import { SteadyEvents } from './steady.ts'
import { usageJson, vendorUsage } from './usage.ts'
import { countsIn, membersIn } from '../shared/known.ts'

/** Terminal events of a vendor that are passed on; the gateway writes that of a failure. */
const TERMINAL = new Set(['response.completed', 'response.incomplete'])

export class ForwardedResponse {
  /** Members of every resource that are not the vendor's. */
  readonly #own: Readonly<Record<string, unknown>>
  /** Members that some servers leave out of theirs. */
  readonly #base: Readonly<Record<string, unknown>>
  #resource: Record<string, unknown>
  readonly #steady = new SteadyEvents()
  #last: ResponseEvent | undefined

  readonly #isConfidential: boolean

  /** @param resource the gateway's own, for absent members. @param isConfidential see {@link knownEvent} */
  constructor(
    own: Readonly<Record<string, unknown>>,
    resource: Record<string, unknown>,
    isConfidential: boolean,
  ) {
    this.#isConfidential = isConfidential
    this.#own = own
    this.#base = resource
    this.#resource = resource
  }

  get resource(): Record<string, unknown> {
    return this.#resource
  }

  /** The events of a chunk. One without an event only repeats those of others, or ends the answer. */
  push({ native, choices, receipt }: AnswerChunk): ResponseEvent[] {
    const events = native ? this.#pass(eventOf(native.data)) : []
    return receipt ? [...events, ...this.#finish(choices[0]?.finish_reason, receipt)] : events
  }

  /** Ends the answer with an error. @param body as for an answer that failed before its head */
  fail({ error: { code, message, usage } }: ErrorBody): ResponseEvent[] {
    return this.#end('failed', { error: { code, message }, usage: usage ?? null })
  }

  #pass(sent: ResponseEvent): ResponseEvent[] {
    const event = this.#isConfidential ? knownEvent(sent, this.#base) : sent
    if (!event) return []
    const { type, response, obfuscation: _obfuscation, ...others } = event
    if (response) this.#resource = { ...this.#base, ...response, ...this.#own }
    if (TERMINAL.has(type)) {
      const events = this.#steady.complete(this.#resource.output)
      this.#last = { type, response: { ...this.#resource, output: this.#steady.output } }
      return events
    }
    if (type === 'response.failed' || type === 'error' || type === 'keepalive') return []
    if (response) return [{ type, ...others, response: this.#resource }]
    return this.#steady.push({ type, ...others })
  }

  /** Ends the answer with the vendor's own end and the cost, or the gateway's where it cut the answer. */
  #finish(reason: string | null | undefined, receipt: Receipt): ResponseEvent[] {
    const { guard } = receipt
    const last = this.#last
    const given: unknown = last?.response.usage
    const usage = isObject(given) ? vendorUsage(given, receipt) : usageJson(receipt)
    const billed = { usage, ...(guard && { guard }) }
    if (!last) {
      const cut = reason === 'content_filter' ? reason : 'max_output_tokens'
      return this.#end('incomplete', { ...endingOf(cut), ...billed })
    }
    return [{ type: last.type, response: { ...last.response, ...billed } }]
  }

  #end(status: string, ending: object): ResponseEvent[] {
    const events = this.#steady.close()
    const response = { ...this.#resource, output: this.#steady.output, status, ...ending }
    return [...events, { type: `response.${status}`, response }]
  }
}

/** Whether this is an answer that came whole, not an event of a stream. */
export function isWhole(data: any): boolean {
  return isObject(data) && typeof data.type !== 'string' && Array.isArray(data.output)
}

function eventOf(data: any): ResponseEvent {
  if (!isWhole(data)) return data
  const response = { ...data, object: 'response' }
  return { type: `response.${data.status ?? 'completed'}`, response }
}

// The part of a vendor's events that this API describes.

const TYPES =
  /^response\.(created|queued|in_progress|completed|incomplete|failed|output_|content_part|reasoning|refusal|function_call_|custom_tool_call_|web_search_call)/
const OF_EVENT = new Set(
  (
    'type response item item_id part delta text refusal annotation arguments input name logprobs ' +
    'output_index content_index summary_index annotation_index sequence_number'
  ).split(' '),
)

/** @param resource the gateway's own, with all members. @returns undefined for an event of another type */
function knownEvent(event: ResponseEvent, resource: object): ResponseEvent | undefined {
  if (!TYPES.test(event.type)) return undefined
  const { response, ...others } = membersIn(event, OF_EVENT)
  const type = event.type
  if (!isObject(response)) return { ...others, type }
  const { usage, ...known } = membersIn(response, new Set(Object.keys(resource)))
  const counted = usage === undefined ? {} : { usage: isObject(usage) ? countsIn(usage) : null }
  return { ...others, type, response: { ...known, ...counted } }
}
