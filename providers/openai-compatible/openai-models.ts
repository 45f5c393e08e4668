/** What the names of OpenAI's models tell about them. */
import type { Reasoning } from '../../src/plugin.ts'
import { nearestEffort, type Effort } from './reasoning.ts'

/** GPT-5.4 and later, and models that have no chat completions. `gpt-35` is GPT-3.5 in Azure's spelling. */
const RESPONSES = /^(ft:)?(gpt-5\.([4-9]|\d\d)|gpt-(?!35)([6-9]|\d\d)|gpt-[\d.]+-(pro|codex))/

/** Whether a model needs the Responses API for tools, or for everything. */
export function needsResponses(model: string): boolean {
  return RESPONSES.test(model)
}

/** Whether the name tells that a model has the Responses API. */
export function hasResponses(model: string): boolean {
  return /^(ft:)?(gpt-(?!.*(audio|search|realtime))|o\d|chatgpt-|codex-)/.test(model)
}

/**
 * Whether a model may reason. A name that tells nothing, such as that of a deployment at Azure, counts as one that may.
 */
export function mayReason(model: string): boolean {
  return !/^(ft:)?(gpt-[34]|chatgpt-|gpt-.*-chat)/.test(model)
}

/** Whether the name tells that a model reasons, so that it refuses sampling options. */
export function isReasoning(model: string): boolean {
  return /^(ft:)?(o\d|gpt-(?!35)([5-9]|\d\d)(?!.*-chat))/.test(model)
}

const LEVELS: readonly (readonly [model: RegExp, levels: readonly [Effort, ...Effort[]]])[] = [
  [/^o\d/, ['low', 'medium', 'high']],
  [/^gpt-5-pro/, ['high']],
  [/^gpt-[\d.]+-pro/, ['medium', 'high', 'xhigh']],
  [/^gpt-5(\.1)?-codex(?!-max)/, ['low', 'medium', 'high']],
  [/^gpt-[\d.]+-codex/, ['low', 'medium', 'high', 'xhigh']],
  [/^gpt-5(?!\.)/, ['minimal', 'low', 'medium', 'high']],
  [/^gpt-5\.1/, ['none', 'low', 'medium', 'high']],
  [/^gpt-/, ['none', 'low', 'medium', 'high', 'xhigh']],
]

const ALL: readonly [Effort, ...Effort[]] = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh']

/**
 * The effort for a request, in the nearest level that the model has; undefined where the request names none.
 * @param limit most tokens of the answer
 * @param own levels of the model, lowest first, where its name does not tell them
 */
export function effortFor(
  model: string,
  reasoning: Reasoning,
  limit: number | undefined,
  own?: readonly Effort[],
): Effort | undefined {
  const base = model.replace(/^ft:/, '')
  const [lowest, ...others] = own ?? LEVELS.find(([name]) => name.test(base))?.[1] ?? ALL
  return lowest && nearestEffort(reasoning, limit, [lowest, ...others])
}
