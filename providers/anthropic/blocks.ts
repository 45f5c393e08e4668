/** The words of the Messages API: what a conversation is made of. Amazon's Converse has the same under other names. */

/** What a client put on something to have it cached; passed on unchanged. */
export interface Marked {
  cache_control?: unknown
}

export interface TextBlock extends Marked {
  readonly type: 'text'
  text: string
}

/** Where an image or a document comes from. */
export type MediaSource =
  | { readonly type: 'base64'; readonly media_type: string; readonly data: string }
  | { readonly type: 'text'; readonly media_type: 'text/plain'; readonly data: string }
  | { readonly type: 'url'; readonly url: string }

export interface ImageBlock extends Marked {
  readonly type: 'image'
  readonly source: MediaSource
}

export interface DocumentBlock extends Marked {
  readonly type: 'document'
  readonly source: MediaSource
  readonly title?: string
}

export interface ToolUseBlock extends Marked {
  readonly type: 'tool_use'
  readonly id: string
  readonly name: string
  /** An object. */
  readonly input: unknown
}

export interface ToolResultBlock extends Marked {
  readonly type: 'tool_result'
  readonly tool_use_id: string
  /** Absent when there is none. */
  readonly content?: string | readonly ContentBlock[]
  readonly is_error?: true
}

/** Takes no marker, and no change. */
export interface ThinkingBlock {
  readonly type: 'thinking'
  readonly thinking: string
  readonly signature: string
}

/** Takes no marker, and no change. */
export interface RedactedBlock {
  readonly type: 'redacted_thinking'
  readonly data: string
}

export type ThoughtBlock = ThinkingBlock | RedactedBlock
/** What people and tools say. */
export type ContentBlock = TextBlock | ImageBlock | DocumentBlock
export type Block = ContentBlock | ToolUseBlock | ToolResultBlock | ThoughtBlock

export interface Turn {
  readonly role: 'user' | 'assistant'
  readonly content: Block[]
}

/** Whether anything is left of a text: the vendor refuses blank blocks. */
export function isBlank(text: string): boolean {
  return text.trim() === ''
}

export function isThought(block: Block): block is ThoughtBlock {
  return block.type === 'thinking' || block.type === 'redacted_thinking'
}

/** Puts a marker on the last block that takes one; without such a block it is lost, as it says nothing then. */
export function markLast(blocks: readonly Block[], marker: unknown): void {
  if (marker === undefined || marker === null) return
  const last = blocks.findLast((block) => !isThought(block)) as Marked | undefined
  if (last) last.cache_control = marker
}
