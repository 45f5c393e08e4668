/** Guards look at texts and say whether they may pass. Offsets are UTF-16 code units (JavaScript string indices). */
import { API_VERSION, type Host, type Output, type Schema } from './base.ts'
import type { ChatInput, ChatCompletion } from './chat.ts'

export const CATEGORIES = [
  'code',
  'math',
  'roleplay',
  'medical',
  'legal',
  'financial-advice',
  'personal-data',
] as const
export type Category = (typeof CATEGORIES)[number]

/** What a guard may answer for. Rules of its own are `x:<plugin>/<id>`. */
export type RuleRef =
  | 'bannedPatterns'
  | `bannedPatterns[${number}]`
  | 'scope'
  | `scope:${number}`
  | `deny:${Category}`
  | 'tampering'
  | `x:${string}`

export interface Span {
  readonly start: number
  /** Exclusive. */
  readonly end: number
  readonly label?: string
}

export type Verdict =
  | { readonly action: 'pass' }
  | {
      readonly action: 'block'
      readonly rule: RuleRef
      /** 0 to 1, for information only: the guard applies its own threshold. */
      readonly score?: number
      readonly spans?: readonly Span[]
      /** For the operator's record, never for the client. */
      readonly reason?: string
    }
  | { readonly action: 'abstain'; readonly why: 'unscannable' | 'not-applicable' }

/** Whether a text goes to a model or comes from it. */
export type Side = 'input' | 'output'

/** Whose rules a guard answers for: those of the key, or those that the request brought. */
export type Origin = 'key' | 'request'

/** Where a text stands. */
export type Channel =
  | 'content'
  | 'refusal'
  | 'reasoning'
  | 'tool_call'
  | 'tool_schema'
  | 'search'
  | 'annotation'
  | 'prompt'
  | 'speech'
  | 'document'
  | 'transcript'

/** Something in a unit that is not text. */
export interface Media {
  readonly kind: 'image' | 'audio' | 'file'
  readonly mediaType?: string
  /** A data URL or an address. */
  readonly url?: string
}

/** One text with an address. Units are looked at one by one and never joined. */
export interface TextItem {
  /** Unique within its call, such as `messages[3]`. */
  readonly id: string
  readonly side: 'input' | 'output'
  readonly channel: Channel
  readonly role?: 'system' | 'user' | 'assistant' | 'tool'
  /** Part of the turn that is to be answered, or of the answer. */
  readonly current: boolean
  readonly text: string
  readonly media?: readonly Media[]
  /** Segments of an answer: what was said just before, and what was asked. */
  readonly context?: { readonly before: string; readonly userTurn: string }
}

/** One stretch of an answer that is looked at as it grows. */
export interface TextStream {
  readonly channel: Channel
  readonly choice: number
  /** Which tool call or reasoning block. */
  readonly index: number
}

/** The rules of one origin that this guard answers and that are in force. */
export interface ActiveRules {
  readonly scopes: readonly string[]
  readonly deny: readonly Category[]
  readonly bannedPatterns: readonly string[]
}

export interface ConversationView {
  /** The current user turn, at most 2,000 characters: head and tail. */
  readonly userTurn: string
}

export interface GuardContext {
  readonly requestId: string
  readonly accountId: string
  readonly keyId: string
  /** The operation, such as `chat`. */
  readonly operation: string
  /** Catalog id. */
  readonly model: string
  readonly origin: Origin
  readonly rules: ActiveRules
  /** The model that the key's policy wants to judge, where it names one. Catalog id. */
  readonly judgeModel?: string
  readonly conversation: ConversationView
  readonly signal: AbortSignal
  /** ms since epoch */
  readonly deadline: number
}

export interface CheckProgress {
  /** Lane offset up to which the guard agrees; never decreases, never beyond what was pushed. */
  readonly safeOffset: number
  readonly verdict?: Verdict
}

/** Follows one lane. */
export interface OutputCheck {
  push(text: string): CheckProgress | Promise<CheckProgress>
  end(): CheckProgress | Promise<CheckProgress>
}

export interface Guard {
  readonly enforces: readonly RuleRef[]
  /** Local guards run first, do no I/O, and answer at once: of what they say about an answer nothing is a promise. */
  readonly execution: 'local' | 'remote'
  /** Can judge complete output only: the answer is buffered. */
  readonly needsFullText?: boolean
  /**
   * One verdict per unit, in their order.
   * @throws an error named `TooLarge` for more than the guard takes: the text is at fault then, and not the guard
   */
  checkInput?(
    units: readonly TextItem[],
    context: GuardContext,
  ): readonly Verdict[] | Promise<readonly Verdict[]>
  /** A complete text, or one segment of it. */
  checkOutput?(unit: TextItem, context: GuardContext): Verdict | Promise<Verdict>
  /** One object per lane. */
  streamOutput?(lane: TextStream, context: GuardContext): OutputCheck
  close?(): void | Promise<void>
}

/**
 * The reading of a text under which a pattern matched: as written; with look-alikes, accents and case folded; with gaps
 * between letters removed; with digits read as letters; with base64, hexadecimal digits or escapes decoded; reversed or in
 * ROT13.
 */
export type PatternView = 'raw' | 'folded' | 'squeezed' | 'leet' | 'decoded' | 'derived'

/** Where patterns matched. */
export interface PatternMatch extends Span {
  /** Position in the list that was compiled. */
  readonly pattern: number
  readonly view: PatternView
}

/** What is known after a piece of a text. */
export interface ScanProgress {
  /** Offset up to which nothing can be part of a match any more; never decreases. */
  readonly safeOffset: number
  /** The first match. Nothing is pushed after it. */
  readonly match?: PatternMatch
}

/** Follows one text, however it is cut. Synchronous. */
export interface TextScan {
  push(text: string): ScanProgress
  end(): ScanProgress
}

/** Patterns, compiled. Linear time, evasions undone, no match leaks for any cut of the text. */
export interface PatternMatcher {
  /** The first match in a whole text. */
  find(text: string): PatternMatch | undefined
  scan(): TextScan
}

/** What the gateway offers a guard on top of a {@link Host}. */
export interface GuardHost extends Host {
  /** Asks a model through the gateway's own routing: no policy, no guards, no limits of the key; metered as guard usage. */
  askModel(model: string, request: ChatInput, context: GuardContext): Promise<ChatCompletion>
  /** RE2 expressions, case-insensitive. @throws Error that says which pattern is wrong, and why */
  compilePatterns(patterns: readonly string[]): PatternMatcher
  /**
   * Gives other calls their turn during long work on an input: `const due = host.yieldIfDue(context); if (due) await due`,
   * every few hundred microseconds. A promise only when the time slice is used up; it rejects when the answer is no longer
   * wanted.
   */
  yieldIfDue(context: GuardContext): void | Promise<void>
  /** Values of one account never reach another. */
  readonly cache: {
    get(context: GuardContext, key: string): unknown
    set(context: GuardContext, key: string, value: unknown, ttlSeconds: number): void
  }
}

export interface GuardPlugin<S extends Schema = Schema<any>> {
  readonly kind: 'guard'
  readonly api: number
  readonly name: string
  /** Validates `guards.use[].options`. */
  readonly options: S
  setup(options: Output<S>, host: GuardHost): Guard | Promise<Guard>
}

/** Brands a guard plugin. */
export function defineGuard<S extends Schema>(
  plugin: Omit<GuardPlugin<S>, 'kind' | 'api'>,
): GuardPlugin<S> {
  return { kind: 'guard', api: API_VERSION, ...plugin }
}
