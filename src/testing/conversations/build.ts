/** Members of chat requests, in short forms for the table of difficult conversations. */

export interface ConversationRequest {
  readonly messages: readonly object[]
  readonly [member: string]: unknown
}

/** A message with a role. @param more further members */
export function say(role: string, content: unknown, more: object = {}): object {
  return { role, content, ...more }
}

export function ask(content: unknown, more: object = {}): object {
  return say('user', content, more)
}

export function call(calls: readonly object[], content: unknown = null): object {
  return say('assistant', content, { tool_calls: calls })
}

export function fn(id: string, name: string, args = '{"city":"Oslo"}'): object {
  return { id, type: 'function', function: { name, arguments: args } }
}

export function result(id: string, content: unknown, more: object = {}): object {
  return say('tool', content, { tool_call_id: id, ...more })
}

export function text(words: string, more: object = {}): object {
  return { type: 'text', text: words, ...more }
}

export function tool(name: string, parameters: object = CITY, more: object = {}): object {
  const description = `Looks up ${name}.`
  return { type: 'function', function: { name, description, parameters, ...more } }
}

export const CITY: object = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
}

export const TOOLS: readonly object[] = [tool('weather'), tool('time')]
