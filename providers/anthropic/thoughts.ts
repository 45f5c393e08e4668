/**
 * Converts thinking blocks to `reasoning_details` and back. Anthropic signs each block at its position in the turn and
 * refuses blocks that were changed or moved. The `id` of an entry therefore tells what came before its block.
 */
import type { ReasoningDetail } from '../../src/plugin.ts'
import type { Block, TextBlock, ThoughtBlock, ToolUseBlock } from './blocks.ts'

/** Marks entries of Claude. Entries of other vendors are ignored. */
export const FORMAT = 'anthropic-claude-v1'

/** Position of a block: UTF-16 units of text and number of calls before it. */
interface Position {
  readonly characters: number
  readonly calls: number
}

/** A thinking block and its position. */
interface Thought {
  readonly block: ThoughtBlock
  readonly position: Position
}

/** The `id` for a position; null at the start of an answer. */
export function toId({ characters, calls }: Position): string | null {
  return characters === 0 && calls === 0 ? null : `after-${characters}-${calls}`
}

/**
 * Puts the thinking blocks of a turn back between its texts and calls, unchanged and in their original positions.
 * Blocks without a signature are left out because the vendor cannot verify them.
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
  for (const { block, position } of thoughtsOf(details)) {
    while (characters < position.characters && rest.length > 0) {
      const [before, after] = cut(rest[0]!, position.characters - characters)
      blocks.push(before)
      characters += before.text.length
      rest = after ? [after, ...rest.slice(1)] : rest.slice(1)
    }
    blocks.push(...calls.slice(called, position.calls), block)
    called = Math.max(called, position.calls)
  }
  return [...blocks, ...rest, ...calls.slice(called)]
}

/**
 * Reads the thinking blocks from entries that are merged by `index` or still in pieces as streamed. When a client kept
 * only the last pieces, no block is sent, because the signatures would not match.
 */
function thoughtsOf(details: readonly ReasoningDetail[]): Thought[] {
  const indexes = new Set(details.map(({ index }) => index).filter((index) => index !== undefined))
  if (Math.max(-1, ...indexes) >= indexes.size) return []
  const thoughts: Thought[] = []
  let open: { index: unknown; text: string; position: Position } | undefined
  for (const { type, text, signature, data, format, id, index } of details) {
    // Only the first piece of a block has a format.
    const continues = open && !format && (index === undefined || index === open.index)
    if (!continues && format !== FORMAT) {
      open = undefined
    } else if (type === 'reasoning.encrypted') {
      open = undefined
      if (data)
        thoughts.push({ block: { type: 'redacted_thinking', data }, position: toPosition(id) })
    } else if (type === 'reasoning.text') {
      if (!open || (index !== undefined && index !== open.index)) {
        open = { index, text: '', position: toPosition(id) }
      }
      open.text += text ?? ''
      if (!signature) continue
      const block = { type: 'thinking', thinking: open.text, signature } as const
      thoughts.push({ block, position: open.position })
      open = undefined
    }
  }
  return thoughts
}

function toPosition(id: string | null | undefined): Position {
  const [, characters = 0, calls = 0] = /^after-(\d{1,9})-(\d{1,4})$/.exec(id ?? '') ?? []
  return { characters: Number(characters), calls: Number(calls) }
}

function cut(block: TextBlock, length: number): [before: TextBlock, after: TextBlock | undefined] {
  if (length >= block.text.length) return [block, undefined]
  const after = { ...block, text: block.text.slice(length) }
  return [{ type: 'text', text: block.text.slice(0, length) }, after]
}
