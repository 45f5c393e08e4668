/** Compares answers with the expectations of transcripts. Pure functions. */
import { isDeepStrictEqual } from 'node:util'
import { isObject } from '../errors/checks.ts'
import type { ChatChunk, ChatCompletion, OpenAIUsage } from '../plugin.ts'
import type { Expected, ExpectedChoice } from './transcripts.ts'

interface FullChoice {
  readonly text: string
  readonly refusal: string
  readonly reasoning: string
  readonly tool_calls: readonly {
    readonly id?: string
    readonly name: string
    readonly arguments: unknown
  }[]
  readonly finish_reason: string | null
}

export function choicesIn({ choices }: ChatCompletion): FullChoice[] {
  return choices.map(({ message, finish_reason }) => ({
    text: message.content ?? '',
    refusal: message.refusal ?? '',
    reasoning: message.reasoning ?? '',
    tool_calls: [...(message.tool_calls ?? []), ...legacyCall(message)].map((call: any) => ({
      ...(call.id !== undefined && { id: call.id }),
      name: (call.function ?? call.custom).name,
      arguments: call.function?.arguments ?? call.custom?.input,
    })),
    finish_reason: finish_reason ?? null,
  }))
}

/** The reasons for which a provider has ended the choices of an answer. */
export function reasonsIn({ raw }: { readonly raw: readonly ChatChunk[] }): string[] {
  return raw.flatMap(({ choices }) =>
    (choices ?? []).flatMap(({ finish_reason }) => finish_reason ?? []),
  )
}

export function differences(expected: Expected, completion: ChatCompletion): string[] {
  const wanted = (expected.choices ?? [expected]).map((choice) => filled(choice, expected))
  // An answer that failed before its first part has no choices.
  const actual = choicesIn(completion)
  if (actual.length === 0 && expected.failure) actual.push(filled({}, expected))
  if (actual.length !== wanted.length) {
    return [`expected ${wanted.length} choices, found ${actual.length}`]
  }
  return wanted.flatMap((choice, i) => {
    const path = wanted.length > 1 ? `choices[${i}].` : ''
    return choiceDifferences(choice, actual[i]!).map((problem) => path + problem)
  })
}

/** Differences between counts of usage; absent counts are 0. */
export function usageDifferences(
  expected: OpenAIUsage | undefined,
  found: OpenAIUsage | undefined,
): string[] {
  if (!expected && !found) return []
  if (!found) return [`usage: expected ${show(expected)}, none was reported`]
  if (!expected) return [`usage: none was expected, found ${show(found)}`]
  const wanted = countsOf(expected)
  const counts = countsOf(found)
  return Object.keys(wanted)
    .filter((name) => wanted[name] !== counts[name])
    .map((name) => `usage.${name}: expected ${show(wanted[name])}, found ${show(counts[name])}`)
}

/** Members of `wanted` that are absent or different in `found`. Objects are compared member by member, lists whole. */
export function missingMembers(wanted: unknown, found: unknown, path: string): string[] {
  if (Array.isArray(wanted) && Array.isArray(found)) {
    if (wanted.length !== found.length)
      return [`${path}: expected ${wanted.length} items, found ${found.length}`]
    return wanted.flatMap((one, i) => {
      if (isDeepStrictEqual(one, found[i])) return []
      const missing = missingMembers(one, found[i], `${path}[${i}]`)
      return missing.length > 0 ? missing : [`${path}[${i}]: ${apart(one, found[i])}`]
    })
  }
  if (!isObject(wanted) || !isObject(found)) {
    const same = isDeepStrictEqual(wanted, found)
    return same ? [] : [`${path}: ${apart(wanted, found)}`]
  }
  return Object.entries(wanted).flatMap(([name, value]) =>
    missingMembers(value, found[name], `${path}.${name}`),
  )
}

/** Two values that differ; long ones from a little before the first difference. */
function apart(wanted: unknown, actual: unknown): string {
  const texts = [wanted, actual].map((value) => JSON.stringify(value) ?? 'nothing')
  const [one, other] = texts as [string, string]
  let at = 0
  while (at < one.length && one[at] === other[at]) at++
  const from = at > 60 ? at - 20 : 0
  const part = (text: string) => `${from > 0 ? '…' : ''}${shortened(text.slice(from))}`
  return `expected ${part(one)}, found ${part(other)}`
}

export function show(value: unknown): string {
  return shortened(JSON.stringify(value) ?? 'nothing')
}

function shortened(text: string): string {
  return text.length > 120 ? `${text.slice(0, 119)}…` : text
}

function filled(choice: ExpectedChoice, { failure }: Expected): FullChoice {
  const { text = '', refusal = '', reasoning = '', tool_calls = [] } = choice
  const natural = failure ? null : tool_calls.length > 0 ? 'tool_calls' : 'stop'
  return {
    text,
    refusal,
    reasoning,
    tool_calls,
    finish_reason: choice.finish_reason === undefined ? natural : choice.finish_reason,
  }
}

function choiceDifferences(wanted: FullChoice, actual: FullChoice): string[] {
  const problems: string[] = []
  for (const name of ['text', 'refusal', 'reasoning', 'finish_reason'] as const) {
    if (wanted[name] !== actual[name]) {
      problems.push(`${name}: expected ${show(wanted[name])}, found ${show(actual[name])}`)
    }
  }
  if (!isDeepStrictEqual(wanted.tool_calls, alike(actual.tool_calls, wanted.tool_calls))) {
    problems.push(
      `tool_calls: expected ${show(wanted.tool_calls)}, found ${show(actual.tool_calls)}`,
    )
  }
  return problems
}

/** Arguments as text or as JSON, and ids or none, depending on the expectation. */
function alike(found: FullChoice['tool_calls'], wanted: FullChoice['tool_calls']) {
  return found.map(({ id, ...call }, i) => ({
    ...(id !== undefined && wanted[i]?.id !== undefined && { id }),
    ...call,
    ...(typeof wanted[i]?.arguments !== 'string' && { arguments: parsed(call.arguments) }),
  }))
}

function parsed(text: unknown): unknown {
  try {
    return JSON.parse(String(text))
  } catch {
    return text
  }
}

function legacyCall({ function_call }: any): object[] {
  return function_call ? [{ function: function_call }] : []
}

function countsOf(usage: OpenAIUsage): Record<string, unknown> {
  const { prompt_tokens_details: input, completion_tokens_details: output } = usage
  const counts: Record<string, unknown> = {
    prompt_tokens: usage.prompt_tokens ?? 0,
    completion_tokens: usage.completion_tokens ?? 0,
    searches: usage.searches ?? 0,
    vendor_cost: usage.vendor_cost ?? null,
  }
  for (const name of [
    'cached_tokens',
    'cached_audio_tokens',
    'cached_image_tokens',
    'cache_write_tokens',
    'cache_write_1h_tokens',
    'audio_tokens',
    'image_tokens',
  ] as const) {
    counts[`prompt_tokens_details.${name}`] = input?.[name] ?? 0
  }
  for (const name of [
    'reasoning_tokens',
    'audio_tokens',
    'image_tokens',
    'accepted_prediction_tokens',
    'rejected_prediction_tokens',
  ] as const) {
    counts[`completion_tokens_details.${name}`] = output?.[name] ?? 0
  }
  return counts
}
