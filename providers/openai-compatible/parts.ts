/** The parts of a delta or a message, read out of the vendors' dialects. */
import type { ReasoningDetail, ToolCallDelta } from '../../src/plugin.ts'

/** Whether a delta says nothing but text, as nearly all do: none of what is read below is there. */
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

/** Text and thoughts of a delta or a message. Servers that say a thought under two names mean it once. */
export function textOf(delta: any): { content: string; reasoning: string } {
  let content = ''
  let reasoning = ''
  if (typeof delta.content === 'string') content = delta.content
  // Mistral: thinking and text as parts.
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
/** Those that clients know (wire contract, 5.4.5). */
const FORMATS: ReadonlySet<unknown> = new Set([
  'openai-responses-v1',
  'azure-openai-responses-v1',
  'xai-responses-v1',
  'anthropic-claude-v1',
  'google-gemini-v1',
])

/** Entries of `reasoning_details` that say something, and Mistral's and Google's signatures as such entries. */
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

/** A fragment of a tool call without what is empty or a vendor's own. */
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
    // Some servers send the object itself.
    if (text) call.function.arguments = typeof text === 'string' ? text : JSON.stringify(text)
  }
  if (custom) call.custom = { name: custom.name, input: custom.input }
  return call
}

/** Citations, nested as OpenAI has them; some vendors write them flat. What names no page is left out. */
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
 * Sources that stand beside a text as citations of it, each at the first `[n]` where the text names it. Code points, the
 * end exclusive.
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
