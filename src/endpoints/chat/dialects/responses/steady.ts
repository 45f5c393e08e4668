/**
 * Makes a vendor's events well formed: every part belongs to an item that was announced, ids do not change, and what
 * only the terminal event knows is sent before it. Events that are so already pass as they are.
 */
import { isObject } from '../../../../errors/checks.ts'
import { randomId } from '../../../../state/ids.ts'
import type { ResponseEvent } from './events.ts'

type Emit = (event: ResponseEvent) => void

const PREFIXES: Readonly<Record<string, string>> = {
  message: 'msg_',
  reasoning: 'rs_',
  function_call: 'fc_',
  custom_tool_call: 'ctc_',
  web_search_call: 'ws_',
}
/** Members that an item has from its beginning. */
const EMPTY: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  message: { content: [] },
  reasoning: { summary: [] },
  function_call: { arguments: '' },
  custom_tool_call: { input: '' },
}

/** How the events of a part are named, by the type of the part. */
interface PartForm {
  readonly item: string
  readonly list: 'content' | 'summary'
  readonly at: 'content_index' | 'summary_index'
  readonly text: 'text' | 'refusal'
  /** The type of the events with its text. */
  readonly event: string
  /** The type of the events that open and close it. */
  readonly part: string
}

const PARTS: Readonly<Record<string, PartForm>> = {
  output_text: {
    item: 'message',
    list: 'content',
    at: 'content_index',
    text: 'text',
    event: 'output_text',
    part: 'content_part',
  },
  refusal: {
    item: 'message',
    list: 'content',
    at: 'content_index',
    text: 'refusal',
    event: 'refusal',
    part: 'content_part',
  },
  summary_text: {
    item: 'reasoning',
    list: 'summary',
    at: 'summary_index',
    text: 'text',
    event: 'reasoning_summary_text',
    part: 'reasoning_summary_part',
  },
}
const BY_EVENT = new Map(Object.entries(PARTS).map(([type, form]) => [form.event, type]))
const CALLS: Readonly<Record<string, 'arguments' | 'input'>> = {
  function_call_arguments: 'arguments',
  custom_tool_call_input: 'input',
}
const CALL_TYPES: Readonly<Record<string, string>> = {
  function_call_arguments: 'function_call',
  custom_tool_call_input: 'custom_tool_call',
}

interface Part {
  readonly type: string
  /** The text that has been sent so far. */
  text: string
  members: Readonly<Record<string, unknown>>
  textDone: boolean
  done: boolean
}

interface Item {
  readonly type: string
  readonly id: string
  /** The id that the vendor gave. */
  readonly vendorId: unknown
  readonly index: number
  members: Readonly<Record<string, any>>
  readonly parts: Part[]
  /** Arguments or input of a call, as far as they have been sent. */
  text: string
  textDone: boolean
  done: boolean
}

export class SteadyEvents {
  /** The items, by the vendor's place. */
  readonly #items = new Map<unknown, Item>()
  readonly #order: Item[] = []
  /** Calls whose names are not known yet. */
  readonly #nameless = new Map<unknown, Readonly<Record<string, any>>>()
  readonly #output: object[] = []

  /** The items that are done, as they were sent. */
  get output(): object[] {
    return this.#output.filter(Boolean)
  }

  /** The events for the client. A terminal event first completes what it knows more of; it is not among them. */
  push(event: ResponseEvent): ResponseEvent[] {
    const events: ResponseEvent[] = []
    this.#read(event, (one) => void events.push(one))
    return events
  }

  /** Completes the items of the terminal event. @param output its list */
  complete(output: unknown): ResponseEvent[] {
    const events: ResponseEvent[] = []
    const emit: Emit = (one) => void events.push(one)
    const items = Array.isArray(output) ? output.filter(isObject) : []
    const partners = this.#partnersOf(items)
    items.forEach((finalItem, i) => {
      const item = partners[i]
      if (item && !item.done) this.#finish(item, finalItem, emit)
    })
    for (const item of this.#order) if (!item.done) this.#finish(item, {}, emit)
    items.forEach((finalItem, i) => {
      if (!partners[i])
        this.#finish(this.#announce(Symbol('place'), finalItem, emit), finalItem, emit)
    })
    return events
  }

  /** Ends what is open where the answer breaks off. */
  close(): ResponseEvent[] {
    const events: ResponseEvent[] = []
    const open = this.#order.filter(({ done }) => !done)
    for (const item of open) {
      this.#finish(item, { status: 'incomplete' }, (one) => void events.push(one))
    }
    return events
  }

  #read(event: ResponseEvent, emit: Emit): void {
    const { type, output_index: place, item_id } = event
    const [, name = '', step] = /^response\.(.+)\.(\w+)$/.exec(type) ?? []
    if (name === 'output_item') {
      if (!isObject(event.item)) return
      if (step === 'added') return this.#added(event, emit)
      const item = this.#itemAt(place, event.item, emit)
      return item.done ? undefined : this.#finish(item, event.item, emit, event)
    }
    const kind = partKind(event, name)
    if (kind !== undefined) return this.#readPart(kind, step!, event, emit)
    const member = CALLS[name]
    if (member) return this.#readCall(member, step!, event, emit)
    const item = this.#items.get(place)
    emit(item && item_id !== undefined ? this.#placed(item, event) : event)
  }

  #added(event: ResponseEvent, emit: Emit): void {
    const { output_index: place, item } = event
    const isCall = item.type === 'function_call' || item.type === 'custom_tool_call'
    if (isCall && !item.name) this.#nameless.set(place, item)
    else this.#announce(place, item, emit, event)
  }

  /** The item of an event, which announces it where nothing has. */
  #itemAt(place: unknown, source: Readonly<Record<string, any>>, emit: Emit): Item {
    const existing = this.#items.get(place)
    if (existing && existing.type === source.type) return existing
    return this.#announce(place, { ...this.#nameless.get(place), ...source }, emit)
  }

  #announce(
    place: unknown,
    source: Readonly<Record<string, any>>,
    emit: Emit,
    event?: ResponseEvent,
  ): Item {
    this.#nameless.delete(place)
    const type: string = typeof source.type === 'string' ? source.type : 'message'
    const id = idOf(type, source.id)
    const index = this.#order.length
    const members = { ...source, type, id }
    const own = { type, id, vendorId: source.id, index, members, parts: [] }
    const item: Item = { ...own, text: '', textDone: false, done: false }
    this.#items.set(place, item)
    this.#order.push(item)
    const role = type === 'message' ? { role: 'assistant' } : {}
    const begun = event ? source : { ...role, ...source, status: 'in_progress', ...EMPTY[type] }
    const announced = { ...begun, ...missing(type, begun), type, id }
    emit({ ...event, type: 'response.output_item.added', output_index: index, item: announced })
    return item
  }

  #placed(item: Item, event: ResponseEvent): ResponseEvent {
    return { ...event, item_id: item.id, output_index: item.index }
  }

  #say(item: Item, type: string, members: object, emit: Emit): void {
    emit({ type: `response.${type}`, item_id: item.id, output_index: item.index, ...members })
  }

  #readPart(kind: string, step: string, event: ResponseEvent, emit: Emit): void {
    const form = PARTS[kind]!
    const item = this.#itemAt(event.output_index, { type: form.item, id: event.item_id }, emit)
    if (item.done) return
    const at: unknown = event[form.at] ?? 0
    if (!Number.isInteger(at) || (at as number) < 0 || (at as number) > item.parts.length) return
    const isAdded = step === 'added' && isObject(event.part)
    const existing = item.parts[at as number]
    if (isAdded && existing) return
    const part = existing ?? this.#open(item, at as number, kind, emit, isAdded ? event : undefined)
    if (isAdded) return
    if (step === 'delta') {
      if (typeof event.delta !== 'string') return
      part.text += event.delta
      return emit(this.#placed(item, event))
    }
    if (event.part !== undefined)
      return this.#closePart(item, at as number, event.part, emit, event)
    if (form.event !== nameOf(event)) return emit(this.#placed(item, event))
    this.#endText(item, at as number, event[form.text], emit, event)
  }

  #open(item: Item, at: number, type: string, emit: Emit, event?: ResponseEvent): Part {
    const { text, part: name, at: place } = PARTS[type]!
    const empty = type === 'output_text' ? { annotations: [], logprobs: [] } : {}
    const members = event?.part ?? { type, [text]: '', ...empty }
    const part: Part = { type, text: '', members, textDone: false, done: false }
    item.parts[at] = part
    const own = event ? this.#placed(item, event) : undefined
    if (own) emit(own)
    else this.#say(item, `${name}.added`, { [place]: at, part: members }, emit)
    return part
  }

  /** Tells what is missing of a text, and its end. What was streamed wins over another text. */
  #endText(item: Item, at: number, whole: unknown, emit: Emit, event?: ResponseEvent): void {
    const part = item.parts[at]!
    if (part.textDone) return
    part.textDone = true
    const form = PARTS[part.type]!
    const place = { [form.at]: at }
    const logprobs = part.type === 'output_text' ? { logprobs: [] } : {}
    const rest = restOf(part.text, whole)
    part.text += rest
    if (rest) this.#say(item, `${form.event}.delta`, { ...place, delta: rest, ...logprobs }, emit)
    const text = { [form.text]: part.text }
    if (event) emit({ ...this.#placed(item, event), ...text })
    else this.#say(item, `${form.event}.done`, { ...place, ...text, ...logprobs }, emit)
  }

  #closePart(item: Item, at: number, source: any, emit: Emit, event?: ResponseEvent): void {
    const part = item.parts[at]!
    const form = PARTS[part.type]!
    this.#endText(item, at, source?.[form.text], emit)
    if (part.done) return
    part.done = true
    const own = isObject(source) ? source : {}
    part.members = { ...part.members, ...own, type: part.type, [form.text]: part.text }
    if (event) emit({ ...this.#placed(item, event), part: part.members })
    else this.#say(item, `${form.part}.done`, { [form.at]: at, part: part.members }, emit)
  }

  #readCall(member: 'arguments' | 'input', step: string, event: ResponseEvent, emit: Emit): void {
    const { output_index: place, item_id: id } = event
    const type = CALL_TYPES[nameOf(event)]!
    const existing = this.#items.get(place)
    const item = existing?.type === type ? existing : undefined
    // A call is announced when its name is known.
    if (!item && event.name === undefined) {
      const waiting = this.#nameless.get(place) ?? { type, id }
      const text = step === 'delta' ? String(waiting[member] ?? '') + event.delta : event[member]
      return void this.#nameless.set(place, { ...waiting, [member]: text })
    }
    const call = item ?? this.#itemAt(place, { type, id, name: event.name }, emit)
    if (call.done) return
    if (step !== 'delta') return this.#endCall(call, event[member], emit, event)
    if (typeof event.delta !== 'string') return
    call.text += event.delta
    emit(this.#placed(call, event))
  }

  #endCall(item: Item, whole: unknown, emit: Emit, event?: ResponseEvent): void {
    if (item.textDone) return
    const isFunction = item.type === 'function_call'
    const member = isFunction ? 'arguments' : 'input'
    const name = isFunction ? 'function_call_arguments' : 'custom_tool_call_input'
    const rest = restOf(item.text, whole)
    item.text += rest
    // Without any text it may still stand in a later event.
    if (item.text === '' && event) return
    item.textDone = true
    if (rest) this.#say(item, `${name}.delta`, { delta: rest }, emit)
    if (event) return emit({ ...this.#placed(item, event), [member]: item.text })
    const named = isFunction ? { name: item.members.name } : {}
    this.#say(item, `${name}.done`, { [member]: item.text, ...named }, emit)
  }

  /** Tells what is missing of an item, and that it is done. @param event the vendor's, if there is one */
  #finish(
    item: Item,
    source: Readonly<Record<string, any>>,
    emit: Emit,
    event?: ResponseEvent,
  ): void {
    const { type, id, index, parts } = item
    const isCall = type === 'function_call' || type === 'custom_tool_call'
    const member = type === 'function_call' ? 'arguments' : 'input'
    if (isCall) {
      // An end without the arguments is not the last word on them.
      if (event && item.text === '' && !source[member]) {
        item.members = { ...item.members, ...source }
        return
      }
      this.#endCall(item, source[member], emit)
    }
    const list = type === 'message' ? 'content' : 'summary'
    const last: readonly unknown[] = Array.isArray(source[list]) ? source[list] : []
    const hasParts = type === 'message' || type === 'reasoning'
    const count = hasParts ? Math.max(parts.length, last.length) : 0
    for (let at = 0; at < count; at++) {
      const one = last[at]
      const kind = isObject(one) ? String(one.type) : ''
      if (!parts[at] && PARTS[kind]?.list !== list) break
      if (!parts[at]) this.#open(item, at, kind, emit)
      this.#closePart(item, at, one, emit)
    }
    item.done = true
    const kept = parts.map(({ members }) => members)
    const whole = {
      status: 'completed',
      ...item.members,
      ...source,
      ...(isCall && { [member]: item.text }),
      ...(hasParts && { [list]: [...kept, ...last.slice(kept.length)] }),
      type,
      id,
    }
    const status = whole.status === 'in_progress' ? { status: 'completed' } : {}
    const final = {
      ...(event && !('status' in source) ? without(whole, 'status') : whole),
      ...status,
    }
    this.#output[index] = final
    emit({ ...event, type: 'response.output_item.done', output_index: index, item: final })
  }

  /** The item that each of the terminal event completes. Places do not tell: servers drop some from the list. */
  #partnersOf(items: readonly Record<string, any>[]): (Item | undefined)[] {
    const free = new Set(this.#order)
    const take = (fits: (item: Item) => boolean) => {
      const match = [...free].find(fits)
      if (match) free.delete(match)
      return match
    }
    const callIdOf = (item: Item) => item.members.call_id
    const same = items.map(({ type, id, call_id }) =>
      take((item) => {
        if (item.type !== type) return false
        return call_id === undefined ? item.vendorId === id : callIdOf(item) === call_id
      }),
    )
    return same.map((match, i) => {
      const { type, call_id } = items[i]!
      return match ?? take((item) => item.type === type && !(callIdOf(item) && call_id))
    })
  }
}

function nameOf({ type }: ResponseEvent): string {
  return /^response\.(.+)\.\w+$/.exec(type)?.[1] ?? ''
}

/** The type of the part that an event is about; undefined for an event about something else. */
function partKind(event: ResponseEvent, name: string): string | undefined {
  if (name === 'output_text.annotation') return 'output_text'
  const byText = BY_EVENT.get(name)
  if (byText !== undefined) return byText
  if (name !== 'content_part' && name !== 'reasoning_summary_part') return undefined
  const type: unknown = isObject(event.part) ? event.part.type : undefined
  return typeof type === 'string' && PARTS[type]?.part === name ? type : undefined
}

/** What a whole text has after the prefix that was sent; nothing where it differs. */
function restOf(prefix: string, whole: unknown): string {
  return typeof whole === 'string' && whole.startsWith(prefix) ? whole.slice(prefix.length) : ''
}

function idOf(type: string, vendorId: unknown): string {
  const prefix = Object.hasOwn(PREFIXES, type) ? PREFIXES[type]! : undefined
  if (typeof vendorId !== 'string' || vendorId === '') return randomId(prefix ?? 'item_')
  if (prefix === undefined || vendorId.startsWith(prefix)) return vendorId
  const plain = vendorId.replace(/[^\w-]/g, '')
  return plain === '' ? randomId(prefix) : prefix + plain
}

/** Members that an item lacks, or has in a form that no client reads. */
function missing(type: string, item: Readonly<Record<string, unknown>>): object {
  const empty = Object.hasOwn(EMPTY, type) ? EMPTY[type]! : {}
  const isFit = ([name, value]: [string, unknown]) =>
    Array.isArray(value) ? Array.isArray(item[name]) : typeof item[name] === 'string'
  return Object.fromEntries(Object.entries(empty).filter((one) => !isFit(one)))
}

function without<T extends object>(value: T, name: keyof T): Omit<T, typeof name> {
  const { [name]: _left, ...others } = value
  return others
}
