/** Contents of calls in the form that the conventions have for messages, as JSON. */
import type { CallText } from '../../../src/plugin.ts'

/** A part of a message. */
interface Part {
  readonly type: string
  readonly content: unknown
}

/** What was asked. A request that is no conversation is one message of the user. */
export function inputMessages({ input }: CallText): string {
  const { messages } = input as { messages?: unknown }
  const list = Array.isArray(messages) ? messages : [{ role: 'user', content: input }]
  return JSON.stringify(
    list.map(({ role, content, ...more }: { role?: unknown; content?: unknown }) => ({
      role: typeof role === 'string' ? role : 'user',
      parts: [...partsOf(content), ...(Object.keys(more).length > 0 ? [partOf(more)] : [])],
    })),
  )
}

/** What the client got, a message for each choice. */
export function outputMessages({ output }: CallText, finishReasons: readonly string[]): string {
  const choices = [...Map.groupBy(output, ({ choice }) => choice)]
  return JSON.stringify(
    choices.map(([choice, texts]) => ({
      role: 'assistant',
      parts: texts.map(({ channel, text }): Part => ({
        type: channel === 'content' ? 'text' : channel,
        content: text,
      })),
      finish_reason: finishReasons[choice] ?? 'stop',
    })),
  )
}

function partsOf(content: unknown): Part[] {
  if (content === undefined || content === null) return []
  return Array.isArray(content) ? content.map(partOf) : [partOf(content)]
}

function partOf(content: unknown): Part {
  if (typeof content === 'string') return { type: 'text', content }
  const { type, text } = content as { type?: unknown; text?: unknown }
  if (type === 'text' && typeof text === 'string') return { type, content: text }
  return { type: typeof type === 'string' ? type : 'data', content }
}
