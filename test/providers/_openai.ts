/** Recorded traffic in OpenAI's form, of any vendor. */
import type { Recording } from '../fixtures.ts'
import { readEvents, type RecordedContent } from './_recorded.ts'

/** Paths of chat requests; some errors were recorded on a newer API. */
export const CHATS = /\/(chat\/completions|responses)(\?|$)/

/** Recordings on these paths that are not chats. */
export const NO_CHAT = /image|transcription|speech|ocr|moderation/

/** The content of a recorded chat, read without the code under test. */
export function readBack(recording: Recording): RecordedContent {
  const payloads: any[] = recording.stream
    ? readEvents(recording.body.toString())
    : [JSON.parse(recording.body.toString())]
  const said = { content: '', reasoning: '', calls: [] as any[], totalTokens: undefined }
  const byKey = new Map<unknown, { name: string; arguments: string }>()
  for (const payload of payloads) {
    said.totalTokens = (payload.usage ?? payload.x_groq?.usage)?.total_tokens ?? said.totalTokens
    const choice = payload.choices?.[0]
    const delta = choice?.delta ?? choice?.message ?? {}
    for (const part of [delta.content].flat()) {
      if (typeof part === 'string') said.content += part
      else if (part?.type === 'text') said.content += part.text
      else for (const thought of part?.thinking ?? []) said.reasoning += thought.text
    }
    said.reasoning += delta.reasoning_content ?? delta.reasoning ?? ''
    for (const call of delta.tool_calls ?? []) {
      const key = call.index ?? call.id
      const known = byKey.get(key) ?? { name: call.function.name, arguments: '' }
      known.arguments += call.function.arguments ?? ''
      byKey.set(key, known)
    }
  }
  // A vendor that sends no arguments means an empty object.
  said.calls = [...byKey.values()].map((one) => ({ ...one, arguments: one.arguments || '{}' }))
  if (recording.name.includes('think-tags')) {
    const [, reasoning, content] = /^<think>(.*)<\/think>\s*(.*)$/s.exec(said.content)!
    Object.assign(said, { reasoning, content })
  }
  return said
}
