/** Conversations for Perplexity, which knows three roles in turns, and no tools. */
import { isBlank, joinedContent, type Content, type Outgoing } from './content.ts'

/**
 * Merges adjacent messages of one role. Calls and results of other models become text of their turns, and system messages
 * after the first turn become the user's.
 */
export function takeTurns(messages: readonly Outgoing[]): Outgoing[] {
  const turns: Outgoing[] = []
  for (const message of messages) {
    const turn = toTurn(message, turns)
    const last = turns.at(-1)
    if (last?.role === turn.role) last!.content = joinedContent(last!.content, turn.content, '\n\n')
    else turns.push(turn)
  }
  return turns
}

function toTurn(
  { role, content, tool_calls }: Outgoing,
  before: readonly Outgoing[],
): { role: string; content: Content } {
  if (role === 'tool') return { role: 'user', content: marked('result', content) }
  if (role === 'system') {
    const isFirst = before.every((turn) => turn.role === 'system')
    return { role: isFirst ? 'system' : 'user', content }
  }
  if (!tool_calls) return { role, content }
  const calls = tool_calls.map(({ function: called, custom }: any) => {
    const { name, arguments: text = custom?.input } = called ?? custom
    return `[called ${name} ${text}]`
  })
  return { role, content: joinedContent(content, calls.join('\n'), '\n\n') }
}

function marked(what: string, content: Content): Content {
  if (!Array.isArray(content)) return `[${what} ${content as string}]`
  if (isBlank(content)) return `[${what} ]`
  return [{ type: 'text', text: `[${what}` }, ...content, { type: 'text', text: ']' }]
}
