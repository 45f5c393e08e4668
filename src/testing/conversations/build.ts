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

export function custom(id: string, name: string, input: string): object {
  return { id, type: 'custom', custom: { name, input } }
}

export function result(id: string, content: unknown, more: object = {}): object {
  return say('tool', content, { tool_call_id: id, ...more })
}

export function text(words: string, more: object = {}): object {
  return { type: 'text', text: words, ...more }
}

export function image(url: string, more: object = {}): object {
  return { type: 'image_url', image_url: { url, ...more } }
}

export function file(file_data: string, filename?: string): object {
  return { type: 'file', file: { file_data, ...(filename === undefined ? {} : { filename }) } }
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

export function freeForm(name: string, format?: object): object {
  const description = `Applies ${name}.`
  return { type: 'custom', custom: { name, description, ...(format ? { format } : {}) } }
}

export const TOOLS: readonly object[] = [tool('weather'), tool('time')]

export function answerAs(schema: object, more: object = {}): object {
  return { type: 'json_schema', json_schema: { name: 'answer', schema, ...more } }
}
