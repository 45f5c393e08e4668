/** The interface of all kinds of judge models. */
import type { ActiveRules, ChatInput, ChatCompletion, RuleRef } from '../../../src/plugin.ts'

/** A text and its speaker. */
export interface Utterance {
  readonly from: string
  readonly text: string
}

/** Texts that are judged in one question. */
export interface JudgeInput {
  readonly side: 'input' | 'output'
  /** The texts in order. A text may continue the one before. */
  readonly texts: readonly Utterance[]
  /** URLs or data URLs. */
  readonly images: readonly string[]
  /** Earlier messages, shown as context but not judged. */
  readonly before: readonly Utterance[]
  /** The user's message, when the texts are an answer. */
  readonly question: string
}

/** A rule that a text breaks. */
export interface RuleMatch {
  readonly rule: RuleRef
  /** The score, 0 to 1. */
  readonly score: number
}

/** Access to the model in the catalog. */
export interface ModelClient {
  /** Catalog id. */
  readonly model: string
  ask(request: ChatInput): Promise<ChatCompletion>
  readonly signal: AbortSignal
}

/** One kind of judge model. */
export interface JudgeModel {
  /** Kind and version of the question. A new version invalidates cached answers. */
  readonly id: string
  /** All rules that it can judge. */
  readonly enforces: readonly RuleRef[]
  readonly readsImages: boolean
  /** How many questions it asks about one input; absent for one. */
  readonly questions?: number
  /** Whether these rules include any that it can judge. */
  appliesTo(rules: ActiveRules): boolean
  /**
   * Rules that the input breaks, highest score first.
   * @throws InvalidAnswer for an unusable answer; the caller may ask again
   */
  judge(input: JudgeInput, rules: ActiveRules, model: ModelClient): Promise<readonly RuleMatch[]>
}

/** The model's answer cannot be used. The message tells why and contains nothing of the answer. */
export class InvalidAnswer extends Error {
  override readonly name = 'InvalidAnswer'
}

/** The model's answer, trimmed. @throws InvalidAnswer when it is empty */
export function textOf({ choices }: ChatCompletion): string {
  const { message } = choices[0] ?? {}
  const text = typeof message?.content === 'string' ? message.content.trim() : ''
  if (text === '') throw new InvalidAnswer('the model said nothing')
  return text
}

/** Joins texts. A blank line separates different speakers. */
export function joined(texts: readonly Utterance[]): string {
  let whole = ''
  texts.forEach(({ from, text }, i) => {
    whole += (i > 0 && texts[i - 1]!.from !== from ? '\n\n' : '') + text
  })
  return whole
}
