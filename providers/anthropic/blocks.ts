/** Content blocks of the Messages API. Converse has the same blocks under other names. */

/** Something that can carry the client's `cache_control`, which is passed on unchanged. */
export interface Marked {
  cache_control?: unknown
}

/** A text. */
export interface TextBlock extends Marked {
  readonly type: 'text'
  text: string
}

/** Where an image or a document comes from. */
type MediaSource =
  | { readonly type: 'base64'; readonly media_type: string; readonly data: string }
  | { readonly type: 'text'; readonly media_type: 'text/plain'; readonly data: string }
  | { readonly type: 'url'; readonly url: string }

/** An image. */
export interface ImageBlock extends Marked {
  readonly type: 'image'
  readonly source: MediaSource
}

/** A PDF or a plain text file. */
export interface DocumentBlock extends Marked {
  readonly type: 'document'
  readonly source: MediaSource
  readonly title?: string
}

/** A call of a tool. */
export interface ToolUseBlock extends Marked {
  readonly type: 'tool_use'
  readonly id: string
  readonly name: string
  /** An object. */
  readonly input: unknown
}

/** The result of a call. */
export interface ToolResultBlock extends Marked {
  readonly type: 'tool_result'
  readonly tool_use_id: string
  /** It is absent for an empty result. */
  readonly content?: string | readonly ContentBlock[]
  readonly is_error?: true
}

/** Must stay unchanged and carries no cache marker. */
interface ThinkingBlock {
  readonly type: 'thinking'
  readonly thinking: string
  readonly signature: string
}

/** Must stay unchanged and carries no cache marker. */
interface RedactedBlock {
  readonly type: 'redacted_thinking'
  readonly data: string
}

/** A reasoning block. */
export type ThoughtBlock = ThinkingBlock | RedactedBlock
/** Blocks that users and tools produce. */
export type ContentBlock = TextBlock | ImageBlock | DocumentBlock
/** Any block. */
export type Block = ContentBlock | ToolUseBlock | ToolResultBlock | ThoughtBlock

/** One turn of a conversation. */
export interface Turn {
  readonly role: 'user' | 'assistant' | 'system'
  readonly content: Block[]
}

/** Whether a text has only white space. The vendor refuses such blocks. */
export function isBlank(text: string): boolean {
  return text.trim() === ''
}

/** Whether a block is reasoning. */
export function isThought(block: Block): block is ThoughtBlock {
  return block.type === 'thinking' || block.type === 'redacted_thinking'
}

/** Puts a cache marker on the last block that can carry one. Without such a block the marker is dropped. */
export function markLast(blocks: readonly Block[], marker: unknown): void {
  if (marker === undefined || marker === null) return
  const last = blocks.findLast((block) => !isThought(block)) as Marked | undefined
  if (last) last.cache_control = marker
}
