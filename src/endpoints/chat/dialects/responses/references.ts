/** Items that stand for others: references to items of earlier answers, and summaries that a model has written. */
import type { Recall } from '../../../../answers/items.ts'
import { isObject } from '../../../../errors/checks.ts'
import { InvalidRequest } from '../../../../errors/errors.ts'
import { isCarrier, summaryOf } from '../shared/reasoning.ts'
import { membersOf, RawJson, withItems, withMembers } from '../../../../stream/raw-json.ts'

/** Types of items that are remembered. */
const REMEMBERED: ReadonlySet<unknown> = new Set([
  'message',
  'function_call',
  'custom_tool_call',
  'reasoning',
])

/** The items of an answer that a later request may refer to. */
export function rememberedOf(output: readonly object[]): readonly object[] {
  return output.filter((item) => REMEMBERED.has((item as { type?: unknown }).type))
}

/**
 * The body with whole items in the place of references, and messages of the user in that of summaries; undefined where it
 * has neither. Reasoning that no vendor can read is left out.
 * @throws InvalidRequest for an item that is not known, a changed summary, and where the whole body exceeds `limitBytes`
 */
export function withRecalled(
  { value, text }: RawJson,
  limitBytes: number,
  recall: Recall,
): Promise<RawJson> | undefined {
  const { input } = value as { readonly input?: unknown }
  if (!Array.isArray(input)) return undefined
  const ids = input.map(referenceIn)
  const wanted = ids.filter((id) => id !== undefined)
  if (wanted.length === 0 && !input.some(isSummary)) return undefined
  const recalled = wanted.length > 0 ? recall([...new Set(wanted)]) : Promise.resolve(NO_ITEMS)
  return recalled.then((items) => {
    const unknown = ids.findIndex((id) => id !== undefined && !items.has(id))
    if (unknown >= 0) throw notKnown(unknown)
    const list = membersOf(text!).findLast(({ name }) => name === 'input')!
    const whole = withItems(text!, list.start, (item, index) => {
      const id = ids[index]
      if (id !== undefined) return textOf(items.get(id)!)
      return isSummary(input[index]) ? JSON.stringify(messageOf(input[index], index)) : item
    })
    const body = withMembers(text!, 0, new Map([['input', whole]]))
    const bytes = Buffer.byteLength(body)
    if (bytes > limitBytes) throw tooLarge(limitBytes)
    return new RawJson(body, JSON.parse(body), bytes)
  })
}

const NO_ITEMS: ReadonlyMap<string, object> = new Map()

function isSummary(item: any): boolean {
  if (!isObject(item) || item.type !== 'compaction') return false
  return typeof item.encrypted_content === 'string' && isCarrier(item.encrypted_content)
}

/** A client can write a summary itself, so it is read as the words of the user. */
function messageOf({ encrypted_content: carrier }: any, index: number): object {
  const summary = summaryOf(carrier, `input[${index}].encrypted_content`)
  const content = `Summary of the conversation so far:\n\n${summary}`
  return { type: 'message', role: 'user', content }
}

/** The id in a reference. Some clients leave out its type. */
function referenceIn(item: unknown): string | undefined {
  if (!isObject(item)) return undefined
  const { type, id } = item
  const refers = type === 'item_reference' || (!type && Object.keys(item).every(isOfReference))
  return refers && typeof id === 'string' ? id : undefined
}

function isOfReference(name: string): boolean {
  return name === 'id' || name === 'type'
}

function textOf(item: any): string | undefined {
  return item.type === 'reasoning' && !item.encrypted_content ? undefined : JSON.stringify(item)
}

function notKnown(index: number): InvalidRequest {
  const message =
    'This item is not known here, or no longer. Set "store" to false in your client so that it sends items whole.'
  return new InvalidRequest('unsupported_value', message, { param: `input[${index}]` })
}

function tooLarge(limitBytes: number): InvalidRequest {
  const message = `The request body with the items that it refers to is larger than ${limitBytes} bytes, the limit of this route.`
  return new InvalidRequest('request_too_large', message)
}
