/** Converts usage. Anthropic counts cached input separately; the gateway's prompt tokens include it. */
import type { OpenAIUsage } from '../../src/plugin.ts'
import { countWith, tokenCount } from '../shared/http.ts'

/** Counts as reported. Each report of a stream covers everything so far. */
export type Counts = Readonly<Record<string, any>>

/** Merges a later report into earlier ones. Counts that are absent or zero in the later report keep their value. */
export function withLater(counts: Counts | undefined, later: unknown): Counts | undefined {
  if (typeof later !== 'object' || later === null) return counts
  const known = Object.entries(later).filter(([, value]) => value)
  return { ...counts, ...Object.fromEntries(known) }
}

/** Usage in the gateway's form. @param said characters of output, for an answer that ended before its final count */
export function toUsage(reported: Counts, said = 0): OpenAIUsage {
  const counts = withOthers(reported)
  const read = tokenCount(counts.cache_read_input_tokens)
  const { ephemeral_5m_input_tokens, ephemeral_1h_input_tokens } = counts.cache_creation ?? {}
  const hour = tokenCount(ephemeral_1h_input_tokens)
  const written = Math.max(
    tokenCount(ephemeral_5m_input_tokens) + hour,
    tokenCount(counts.cache_creation_input_tokens),
  )
  const output = Math.max(tokenCount(counts.output_tokens), Math.ceil(said / CHARACTERS_PER_TOKEN))
  const thought = tokenCount(counts.output_tokens_details?.thinking_tokens)
  const searches = counts.server_tool_use?.web_search_requests
  return {
    prompt_tokens: countWith(counts.input_tokens, read + written),
    completion_tokens: output || countWith(counts.output_tokens, 0),
    prompt_tokens_details: {
      cached_tokens: read,
      cache_write_tokens: written,
      ...(hour > 0 && { cache_write_1h_tokens: hour }),
    },
    completion_tokens_details: { reasoning_tokens: Math.min(thought, output) },
    ...(searches === undefined ? {} : { searches: tokenCount(searches) }),
  }
}

const CHARACTERS_PER_TOKEN = 4

const TOTALS = [
  'input_tokens',
  'cache_read_input_tokens',
  'cache_creation_input_tokens',
  'output_tokens',
]
const WRITTEN = ['ephemeral_5m_input_tokens', 'ephemeral_1h_input_tokens']
/** Types of the entries that the totals include. */
const INCLUDED: ReadonlySet<unknown> = new Set(['message', 'fallback_message'])

/**
 * The totals leave out what the vendor made beside the answer, such as a summary of a long conversation, and bills all the
 * same. Decision: these tokens count as those of one prompt and one answer, and the sum decides about the tier of prices.
 */
function withOthers(counts: Counts): Counts {
  const entries: readonly any[] = Array.isArray(counts.iterations) ? counts.iterations : []
  const others = entries.filter((one) => one && !INCLUDED.has(one.type))
  if (others.length === 0) return counts
  const sums = (names: readonly string[], own: Counts, more: readonly (Counts | undefined)[]) =>
    Object.fromEntries(
      names.map((name) => {
        const added = more.reduce((sum, one) => sum + tokenCount(one?.[name]), 0)
        return [name, countWith(own[name], added)]
      }),
    )
  const written = others.map((one) => one.cache_creation)
  return {
    ...counts,
    ...sums(TOTALS, counts, others),
    cache_creation: sums(WRITTEN, counts.cache_creation ?? {}, written),
  }
}
