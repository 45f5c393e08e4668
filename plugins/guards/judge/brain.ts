/** What every kind of judge is asked, and what it answers. */
import type { ActiveRules, ChatInput, ChatCompletion, RuleRef } from '../../../src/plugin.ts'

/** One text, and who said it. */
export interface Said {
  readonly from: string
  readonly text: string
}

/** What is to be judged together, small enough for one question. */
export interface Material {
  readonly side: 'input' | 'output'
  /** In order; one may go on where the last one ends. */
  readonly texts: readonly Said[]
  /** Addresses or data URLs. */
  readonly images: readonly string[]
  /** What was said before, to understand the texts by; not judged. */
  readonly before: readonly Said[]
  /** What the user asked, where the texts are an answer. */
  readonly question: string
}

/** A rule that a text breaks. */
export interface Hit {
  readonly rule: RuleRef
  /** 0 to 1 */
  readonly score: number
}

/** A model that can be asked. */
export interface Asked {
  /** Catalog id. */
  readonly model: string
  ask(request: ChatInput): Promise<ChatCompletion>
  readonly signal: AbortSignal
}

/** One kind of judge. */
export interface Brain {
  /** Kind and version of its question: what an older version said counts no longer. */
  readonly id: string
  /** All it can answer for. */
  readonly answers: readonly RuleRef[]
  readonly readsImages: boolean
  /** Whether there is anything to ask under these rules. */
  judges(rules: ActiveRules): boolean
  /**
   * Rules that are broken, the surest first.
   * @throws InvalidAnswer for an answer that is none: whoever asks may ask once more
   */
  judge(material: Material, rules: ActiveRules, model: Asked): Promise<readonly Hit[]>
}

/** The model answered, and it is no answer. Says what is wrong with it and nothing of what is in it. */
export class InvalidAnswer extends Error {
  override readonly name = 'InvalidAnswer'
}

/**
 * More than is judged of one request. The middle is never skipped, so nothing of it is judged. By its name the gateway
 * knows that it is the text that is at fault.
 */
export class TooLarge extends Error {
  override readonly name = 'TooLarge'
}

/** What the model said, without white space around it. @throws InvalidAnswer when it said nothing */
export function textOf({ choices }: ChatCompletion): string {
  const { message } = choices[0] ?? {}
  const text = typeof message?.content === 'string' ? message.content.trim() : ''
  if (text === '') throw new InvalidAnswer('the model said nothing')
  return text
}

/** The texts of a material as one; those of different speakers apart. */
export function joined(texts: readonly Said[]): string {
  let whole = ''
  texts.forEach(({ from, text }, i) => {
    whole += (i > 0 && texts[i - 1]!.from !== from ? '\n\n' : '') + text
  })
  return whole
}
