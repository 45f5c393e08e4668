/** The chat request as a vendor takes it. */
import { hash } from 'node:crypto'
import type { ChatInput } from '../../src/plugin.ts'
import { toMessages, type Outgoing, type Replay } from './messages.ts'
import type { Quirks } from './quirks.ts'
import { isOff } from './reasoning.ts'

export interface RequestOptions {
  /** Earlier reasoning goes back to the model, or does not; by default as the vendor wants it. */
  readonly replayReasoning?: boolean | undefined
  /** Members, in the vendor's own names, that this model refuses. */
  readonly omit?: readonly string[] | undefined
}

/** Builds the body of `POST /chat/completions`. */
export function toBody(
  input: ChatInput,
  model: string,
  quirks: Quirks,
  options: RequestOptions,
): Record<string, unknown> {
  const { messages, stream, reasoning, cache_control, ...given } = input
  const body: Record<string, unknown> = {
    ...(reasoning ? quirks.ask(reasoning, model, input.max_completion_tokens) : {}),
    ...given,
    model,
    messages: toMessages(messages, quirks, replayOf(quirks, options)),
  }
  if (stream) Object.assign(body, { stream }, quirks.streamed)
  if (cache_control && quirks.cacheControl) body.cache_control = cache_control
  if (input.tools && !quirks.cacheControl) body.tools = input.tools.map(withoutMarker)
  if (quirks.sessionAsCacheKey && input.session_id) {
    body.prompt_cache_key ??= hash('sha256', String(input.session_id), 'hex').slice(0, 32)
  }
  if (quirks.schemaInPrompt) putSchemaInPrompt(body)
  if (quirks.arrange) body.messages = quirks.arrange(body.messages as Outgoing[])
  for (const [name, most] of Object.entries(quirks.caps ?? {})) {
    if (Number(body[name]) > most) body[name] = most
  }
  for (const [from, to] of Object.entries(quirks.renames ?? {})) {
    if (body[from] !== undefined) body[to] = body[from]
    delete body[from]
  }
  const unwanted = [
    ...(quirks.drops ?? []),
    ...(quirks.refuses?.(model, isOff(reasoning)) ?? []),
    ...(options.omit ?? []),
  ]
  for (const name of unwanted) delete body[name]
  for (const name in body) {
    if (body[name] === null || quirks.knows?.has(name) === false) delete body[name]
  }
  return body
}

function replayOf(quirks: Quirks, { replayReasoning }: RequestOptions): Replay | undefined {
  const wanted = replayReasoning ?? !quirks.replayOnRequest
  if (!wanted) return undefined
  // The name most servers take that have one at all.
  return quirks.replay ?? (replayReasoning ? 'reasoning_content' : undefined)
}

function withoutMarker({ cache_control: _marker, ...tool }: any): unknown {
  return tool
}

function putSchemaInPrompt(body: Record<string, any>): void {
  if (body.response_format?.type !== 'json_schema') return
  const schema = JSON.stringify(body.response_format.json_schema?.schema ?? {})
  const content = `Answer with one JSON object, and nothing else. It must be valid under this JSON Schema:\n${schema}`
  body.response_format = { type: 'json_object' }
  body.messages = [{ role: 'system', content }, ...body.messages]
}
