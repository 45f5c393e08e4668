/** Reads the members of a delta or a message in all vendors' forms. */
import type { ReasoningDetail, ToolCallDelta } from '../../src/plugin.ts'

/** Whether a delta contains text only, as nearly all do, so that the rest need not be looked for. */
export function isText(delta: any): delta is { content: string } {
  return (
    typeof delta.content === 'string' &&
    isAbsent(delta.reasoning_content) &&
    isAbsent(delta.reasoning) &&
    isAbsent(delta.reasoning_details) &&
    isAbsent(delta.refusal) &&
    isAbsent(delta.tool_calls) &&
    isAbsent(delta.annotations) &&
    isAbsent(delta.extra_content)
  )
}

function isAbsent(value: unknown): boolean {
  return value === undefined || value === null || (Array.isArray(value) && value.length === 0)
}

/** Text and reasoning. Servers that send reasoning under two names send it twice; it counts once. */
export function textOf(delta: any): { content: string; reasoning: string } {
  let content = ''
  let reasoning = ''
  if (typeof delta.content === 'string') content = delta.content
  // Mistral sends reasoning and text as parts.
  else if (Array.isArray(delta.content)) {
    for (const part of delta.content) {
      if (part?.type === 'text') content += part.text ?? ''
      else if (part?.type !== 'thinking' || !Array.isArray(part.thinking)) continue
      else for (const thought of part.thinking) reasoning += thought?.text ?? ''
    }
  }
  for (const name of ['reasoning_content', 'reasoning']) {
    if (!reasoning && typeof delta[name] === 'string') reasoning = delta[name]
  }
  return { content, reasoning }
}

const TYPES: ReadonlySet<unknown> = new Set([
  'reasoning.text',
  'reasoning.summary',
  'reasoning.encrypted',
])
/** Formats that clients know. */
const FORMATS: ReadonlySet<unknown> = new Set([
  'openai-responses-v1',
  'azure-openai-responses-v1',
  'xai-responses-v1',
  'anthropic-claude-v1',
  'google-gemini-v1',
])

/** Valid entries of `reasoning_details`, and signatures of Mistral and Google as such entries. */
export function detailsOf(delta: any): ReasoningDetail[] {
  const details: ReasoningDetail[] = []
  if (Array.isArray(delta.reasoning_details)) {
    for (const detail of delta.reasoning_details) {
      const { type, text, signature, summary, data, id, format, index } = detail ?? {}
      if (!TYPES.has(type) || !(text || signature || summary || data)) continue
      details.push({
        type,
        ...(text ? { text } : {}),
        ...(signature ? { signature } : {}),
        ...(summary ? { summary } : {}),
        ...(data ? { data } : {}),
        ...(id ? { id } : {}),
        format: FORMATS.has(format) ? format : 'unknown',
        ...(Number.isInteger(index) ? { index } : {}),
      })
    }
  }
  if (Array.isArray(delta.content)) {
    for (const part of delta.content) {
      if (part?.type !== 'thinking' || typeof part.signature !== 'string') continue
      details.push({ type: 'reasoning.text', signature: part.signature, format: 'unknown' })
    }
  }
  const bearers = [delta, ...(Array.isArray(delta.tool_calls) ? delta.tool_calls : [])]
  for (const bearer of bearers) {
    const signature = bearer?.extra_content?.google?.thought_signature
    if (typeof signature !== 'string') continue
    details.push({ type: 'reasoning.encrypted', data: signature, format: 'google-gemini-v1' })
  }
  return details
}

/** A fragment of a tool call, without empty members and vendor extensions. */
export function toToolCall(fragment: any): ToolCallDelta {
  const { index, id, type, function: called, custom } = fragment ?? {}
  const call: ToolCallDelta = {}
  if (index !== undefined && index !== null) call.index = index
  if (id) call.id = id
  if (type === 'function' || type === 'custom') call.type = type
  if (called) {
    call.function = {}
    if (called.name) call.function.name = called.name
    const text = called.arguments
    // Some servers send an object.
    if (text) call.function.arguments = typeof text === 'string' ? text : JSON.stringify(text)
  }
  if (custom) call.custom = { name: custom.name, input: custom.input }
  return call
}

/** URL citations in OpenAI's nested form; some vendors send them flat. Entries without a URL are dropped. */
export function toAnnotations(given: readonly any[]): object[] {
  return given
    .map((annotation) => annotation?.url_citation ?? annotation)
    .filter((citation) => typeof citation?.url === 'string')
    .map(({ url, title, content, start_index, end_index }) => ({
      type: 'url_citation',
      url_citation: {
        url,
        title: title ?? '',
        start_index: start_index ?? 0,
        end_index: end_index ?? 0,
        ...(content ? { content } : {}),
      },
    }))
}

/**
 * Sources beside a text as citations, each at the first `[n]` in the text. Positions are code points; the end is
 * exclusive.
 */
export function toCitations(sources: readonly any[], text: string): object[] {
  const citations = sources.map((source, position) => {
    const marker = `[${position + 1}]`
    const at = text.indexOf(marker)
    const start_index = at < 0 ? 0 : Array.from(text.slice(0, at)).length
    const end_index = at < 0 ? 0 : start_index + marker.length
    const page = typeof source === 'string' ? { url: source } : source
    return { ...page, content: page?.snippet, start_index, end_index }
  })
  return toAnnotations(citations)
}
