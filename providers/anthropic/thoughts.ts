/**
 * Thinking blocks as `reasoning_details`, and back. The vendor has signed each block at its place in the turn: it refuses
 * one that has changed by a byte or stands elsewhere. So an entry whose block was not the first says in its `id` what
 * came before it.
 */
import type { ReasoningDetail } from '../../src/plugin.ts'
import type { Block, TextBlock, ThoughtBlock, ToolUseBlock } from './blocks.ts'

/** Marks our entries; others are another vendor's, who alone can read them. */
export const FORMAT = 'anthropic-claude-v1'

/** What was said before a block: UTF-16 units of text, and calls. */
export interface Place {
  readonly characters: number
  readonly calls: number
}

interface Thought {
  readonly block: ThoughtBlock
  readonly place: Place
}

/** The `id` of a block's entry; null at the beginning of an answer. */
export function toId({ characters, calls }: Place): string | null {
  return characters === 0 && calls === 0 ? null : `after-${characters}-${calls}`
}

/**
 * The thinking blocks of a turn, byte for byte as they came, each at its place among texts and calls. Blocks without a
 * signature cannot be checked by the vendor and are left out.
 */
export function withThoughts(
  details: readonly ReasoningDetail[],
  texts: readonly TextBlock[],
  calls: readonly ToolUseBlock[],
): Block[] {
  const blocks: Block[] = []
  let rest = [...texts]
  let characters = 0
  let called = 0
  for (const { block, place } of thoughtsOf(details)) {
    while (characters < place.characters && rest.length > 0) {
      const [before, after] = cut(rest[0]!, place.characters - characters)
      blocks.push(before)
      characters += before.text.length
      rest = after ? [after, ...rest.slice(1)] : rest.slice(1)
    }
    blocks.push(...calls.slice(called, place.calls), block)
    called = Math.max(called, place.calls)
  }
  return [...blocks, ...rest, ...calls.slice(called)]
}

/**
 * Entries may come merged by `index`, or piece by piece as they were streamed. Some clients keep the last piece only: then
 * they are no longer what the vendor signed, and none is sent.
 */
function thoughtsOf(details: readonly ReasoningDetail[]): Thought[] {
  const indexes = new Set(details.map(({ index }) => index).filter((index) => index !== undefined))
  if (Math.max(-1, ...indexes) >= indexes.size) return []
  const thoughts: Thought[] = []
  let open: { index: unknown; text: string; place: Place } | undefined
  for (const { type, text, signature, data, format, id, index } of details) {
    // Only the first piece of a block says whose it is.
    const goesOn = open && !format && (index === undefined || index === open.index)
    if (!goesOn && format !== FORMAT) {
      open = undefined
    } else if (type === 'reasoning.encrypted') {
      open = undefined
      if (data) thoughts.push({ block: { type: 'redacted_thinking', data }, place: toPlace(id) })
    } else if (type === 'reasoning.text') {
      if (!open || (index !== undefined && index !== open.index)) {
        open = { index, text: '', place: toPlace(id) }
      }
      open.text += text ?? ''
      if (!signature) continue
      const block = { type: 'thinking', thinking: open.text, signature } as const
      thoughts.push({ block, place: open.place })
      open = undefined
    }
  }
  return thoughts
}

function toPlace(id: string | null | undefined): Place {
  const [, characters = 0, calls = 0] = /^after-(\d{1,9})-(\d{1,4})$/.exec(id ?? '') ?? []
  return { characters: Number(characters), calls: Number(calls) }
}

function cut(block: TextBlock, length: number): [before: TextBlock, after: TextBlock | undefined] {
  if (length >= block.text.length) return [block, undefined]
  const after = { ...block, text: block.text.slice(length) }
  return [{ type: 'text', text: block.text.slice(0, length) }, after]
}
