/**
 * Reasoning between answers. The vendor encrypts it and wants it back unchanged; in `reasoning_details` every part of a
 * summary, and the encrypted content, is an entry of its own with the `id` of its item.
 */
import type { ReasoningDetail } from '../../src/plugin.ts'

/** Marks entries of one vendor. Each vendor can decrypt its own only. */
export type Format = 'openai-responses-v1' | 'azure-openai-responses-v1' | 'xai-responses-v1'

/** The text between the parts of a summary, and between messages of one answer. */
export const SEPARATOR = '\n\n'

/** A reasoning item of a request. It has no `id`: the vendor would look for it among stored items, and fail. */
export interface ReasoningItem {
  readonly type: 'reasoning'
  readonly summary: readonly { readonly type: 'summary_text'; readonly text: string }[]
  readonly encrypted_content: string
}

/** The reasoning items of an answer, as the vendor sent them. Reasoning without encrypted content is left out. */
export function toReasoningItems(
  details: readonly ReasoningDetail[],
  format: Format,
): ReasoningItem[] {
  const groups: Group[] = []
  /** Groups whose encrypted content has not come, by the id of their item. */
  const open = new Map<string | null, Group>()
  for (const entry of joined(details)) {
    // Client forms of this API do not say which vendor encrypted an entry. Another one refuses it, and is asked without.
    if (entry.format !== format && entry.format !== null) continue
    let group = open.get(entry.id)
    if (!group) {
      groups.push((group = { summary: [], data: undefined }))
      open.set(entry.id, group)
    }
    if (entry.type === 'reasoning.encrypted') {
      group.data = entry.data
      open.delete(entry.id)
    } else if (entry.type === 'reasoning.summary') {
      group.summary.push({ type: 'summary_text', text: entry.text })
    }
  }
  return groups.flatMap(({ summary, data }) =>
    data ? [{ type: 'reasoning' as const, summary, encrypted_content: data }] : [],
  )
}

interface Group {
  readonly summary: { readonly type: 'summary_text'; readonly text: string }[]
  data: string | undefined
}

interface Entry {
  readonly type: ReasoningDetail['type']
  readonly id: string | null
  readonly format: string | null | undefined
  text: string
  data: string
}

/** Whole entries, of entries that a client merged by `index` or kept in pieces as they were streamed. */
function joined(details: readonly ReasoningDetail[]): Entry[] {
  const entries: Entry[] = []
  const byIndex = new Map<unknown, Entry>()
  let shown = false
  for (const { type, index, id, format, summary, text, data } of details) {
    // Only the first piece of an entry has a format.
    const existing = format ? undefined : byIndex.get(index)
    const piece = summary ?? text ?? ''
    if (existing) {
      existing.text += piece
      existing.data += data ?? ''
      continue
    }
    // The blank line before each later part belongs to `reasoning`, which is the text of all entries.
    const own = shown && piece.startsWith(SEPARATOR) ? piece.slice(SEPARATOR.length) : piece
    shown ||= piece !== ''
    const entry: Entry = { type, id: id ?? null, format, text: own, data: data ?? '' }
    byIndex.set(index, entry)
    entries.push(entry)
  }
  return entries
}
