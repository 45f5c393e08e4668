/** Events of a vendor with this API, as the client gets them: the gateway's id, the name that was asked for, the cost. */
import type { ErrorBody } from '../../../../errors/errors.ts'
import { costJson } from '../../../../money/money.ts'
import type { Receipt } from '../../../../pipeline/pipeline.ts'
import type { AnswerChunk } from '../../billing.ts'
import { endingOf } from './events.ts'
import type { ResponseEvent } from './items.ts'
import { usageJson } from './usage.ts'
import { isObject } from '../../../../errors/checks.ts'
import { countsIn, membersIn } from '../shared/known.ts'

/** Terminal events of a vendor that are passed on; the gateway writes that of a failure. */
const TERMINAL = new Set(['response.completed', 'response.incomplete'])

export class ForwardedResponse {
  /** Members of every resource that are not the vendor's. */
  readonly #own: Readonly<Record<string, unknown>>
  /** Members that some servers leave out of theirs. */
  readonly #base: Readonly<Record<string, unknown>>
  #resource: Record<string, unknown>
  readonly #output: object[] = []
  #open: ForwardedItem | undefined
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

  get #items(): object[] {
    return this.#output.filter(Boolean)
  }

  #pass(sent: ResponseEvent): ResponseEvent[] {
    const event = this.#isConfidential ? knownEvent(sent, this.#base) : sent
    if (!event) return []
    const { type, response, obfuscation: _obfuscation, ...others } = event
    if (response) this.#resource = { ...this.#base, ...response, ...this.#own }
    if (TERMINAL.has(type)) {
      const { output } = this.#resource
      const isTold = Array.isArray(output) && output.length > 0
      const whole = isTold ? this.#resource : { ...this.#resource, output: this.#items }
      this.#last = { type, response: whole }
      return []
    }
    if (type === 'response.failed' || type === 'error' || type === 'keepalive') return []
    if (response) return [{ type, ...others, response: this.#resource }]
    if (type === 'response.output_item.added') {
      this.#open = new ForwardedItem(others.item, others.output_index)
    } else if (type === 'response.output_item.done') {
      this.#open = undefined
      this.#output[others.output_index ?? this.#output.length] = others.item
    } else this.#open?.add(event)
    return [{ type, ...others }]
  }

  /** Ends the answer with the vendor's own end and the cost, or the gateway's where it cut the answer. */
  #finish(reason: string | null | undefined, receipt: Receipt): ResponseEvent[] {
    const { bill, guard } = receipt
    const last = this.#last
    const usage = last?.response.usage
      ? { ...last.response.usage, ...costJson(bill) }
      : usageJson(receipt)
    const billed = { usage, ...(guard && { guard }) }
    if (!last) {
      const cut = reason === 'content_filter' ? reason : 'max_output_tokens'
      return this.#end('incomplete', { ...endingOf(cut), ...billed })
    }
    return [{ type: last.type, response: { ...last.response, ...billed } }]
  }

  #end(status: string, ending: object): ResponseEvent[] {
    const events: ResponseEvent[] = []
    const item = this.#open?.close((event) => events.push(event))
    const output = item ? [...this.#items, item] : this.#items
    const response = { ...this.#resource, output, status, ...ending }
    return [...events, { type: `response.${status}`, response }]
  }
}

class ForwardedItem {
  readonly #item: any
  readonly #index: number
  #part: number | undefined

  constructor(item: object, index: number) {
    this.#item = structuredClone(item)
    this.#index = index
  }

  add({ type, delta, part, content_index, summary_index }: ResponseEvent): void {
    const parts = this.#parts
    if (type.endsWith('_part.added')) {
      this.#part = content_index ?? summary_index ?? 0
      parts[this.#part!] = structuredClone(part)
    } else if (type.endsWith('_part.done')) this.#part = undefined
    else if (type.endsWith('.delta') && typeof delta === 'string') this.#append(delta)
  }

  /** Ends the open parts. @returns the item as far as it came */
  close(emit: (event: ResponseEvent) => void): object {
    const { id: item_id, type } = this.#item
    const output_index = this.#index
    const say = (name: string, members: object) =>
      emit({ type: `response.${name}`, item_id, output_index, ...members })
    if (this.#part !== undefined) this.#closePart(say)
    if (type === 'function_call') {
      const { arguments: text, name } = this.#item
      say('function_call_arguments.done', { arguments: text, name })
    } else if (type === 'custom_tool_call') {
      say('custom_tool_call_input.done', { input: this.#item.input })
    }
    const item = { ...this.#item, status: 'incomplete' }
    emit({ type: 'response.output_item.done', output_index, item })
    return item
  }

  get #parts(): any[] {
    const { type } = this.#item
    return (type === 'reasoning' ? this.#item.summary : this.#item.content) ?? []
  }

  #append(delta: string): void {
    const item = this.#item
    const part = this.#part === undefined ? undefined : this.#parts[this.#part]
    if (part) part[part.type === 'refusal' ? 'refusal' : 'text'] += delta
    else if (item.type === 'function_call') item.arguments = (item.arguments ?? '') + delta
    else if (item.type === 'custom_tool_call') item.input = (item.input ?? '') + delta
  }

  #closePart(say: (name: string, members: object) => void): void {
    const index = this.#part!
    const part = this.#parts[index]
    if (this.#item.type === 'reasoning') {
      say('reasoning_summary_text.done', { summary_index: index, text: part.text })
      return say('reasoning_summary_part.done', { summary_index: index, part })
    }
    if (part.type === 'refusal')
      say('refusal.done', { content_index: index, refusal: part.refusal })
    else say('output_text.done', { content_index: index, text: part.text, logprobs: [] })
    say('content_part.done', { content_index: index, part })
  }
}

function eventOf(data: any): ResponseEvent {
  return data.object === 'response' ? { type: `response.${data.status}`, response: data } : data
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
