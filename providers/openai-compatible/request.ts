/** Builds the chat request for a vendor. */
import { hash } from 'node:crypto'
import type { ChatInput, Reasoning } from '../../src/plugin.ts'
import { toMessages, type Outgoing, type Replay } from './messages.ts'
import type { Quirks } from './quirks.ts'
import { isOff } from './reasoning.ts'

/** Options of a deployment that change its requests. */
interface RequestOptions {
  /** Whether reasoning of earlier turns is sent to the model. By default as the vendor expects. */
  readonly replayReasoning?: boolean | undefined
  /** Members, in the vendor's names, that this model refuses. */
  readonly omit?: readonly string[] | undefined
}

/** Builds the body of `POST /chat/completions`. */
export function toBody(
  input: ChatInput,
  model: string,
  quirks: Quirks,
  options: RequestOptions,
): Record<string, unknown> {
  const { reasoning } = input
  const body = reasoning ? withReasoning(reasoning, input, model, quirks) : { ...input, model }
  body.messages = toMessages(input.messages, quirks, replayOf(quirks, options))
  // `undefined` is left out of JSON and is cheaper than `delete`.
  if (input.stream) Object.assign(body, quirks.streamed)
  else if (input.stream !== undefined) body.stream = undefined
  if (input.cache_control !== undefined && !(input.cache_control && quirks.cacheControl)) {
    body.cache_control = undefined
  }
  if (input.tools && !quirks.cacheControl) body.tools = input.tools.map(withoutMarker)
  if (quirks.sessionAsCacheKey && input.session_id) {
    body.prompt_cache_key ??= hash('sha256', String(input.session_id), 'hex').slice(0, 32)
  }
  if (quirks.schemaInPrompt) putSchemaInPrompt(body)
  if (quirks.arrange) body.messages = quirks.arrange(body.messages as Outgoing[])
  const { caps, renames } = quirks
  for (const name in caps) if (Number(body[name]) > caps[name]!) body[name] = caps[name]
  for (const from in renames) {
    if (body[from] === undefined) continue
    body[renames[from]!] = body[from]
    delete body[from]
  }
  omit(body, quirks.drops)
  omit(body, quirks.refuses?.(model, isOff(reasoning)))
  omit(body, options.omit)
  for (const name in body) {
    if (body[name] === null || quirks.knows?.has(name) === false) delete body[name]
  }
  return body
}

function withReasoning(
  reasoning: Reasoning,
  { reasoning: _ours, ...given }: ChatInput,
  model: string,
  quirks: Quirks,
): Record<string, unknown> {
  return { ...quirks.toReasoning(reasoning, model, given.max_completion_tokens), ...given, model }
}

function omit(body: Record<string, unknown>, names: readonly string[] = []): void {
  for (let i = 0; i < names.length; i++) if (body[names[i]!] !== undefined) delete body[names[i]!]
}

function replayOf(quirks: Quirks, { replayReasoning }: RequestOptions): Replay | undefined {
  const wanted = replayReasoning ?? !quirks.replayOnRequest
  if (!wanted) return undefined
  // The most common name among servers with such a member.
  return quirks.replay ?? (replayReasoning ? 'reasoning_content' : undefined)
}

function withoutMarker(tool: any): unknown {
  if (tool.cache_control === undefined) return tool
  const { cache_control: _marker, ...rest } = tool
  return rest
}

function putSchemaInPrompt(body: Record<string, any>): void {
  if (body.response_format?.type !== 'json_schema') return
  const schema = JSON.stringify(body.response_format.json_schema?.schema ?? {})
  const content = `Answer with one JSON object, and nothing else. It must be valid under this JSON Schema:\n${schema}`
  body.response_format = { type: 'json_object' }
  body.messages = [{ role: 'system', content }, ...body.messages]
}
