/**
 * Guards decide whether texts may go to a model, and whether its answers may go to the client. Offsets and lengths of texts
 * are in UTF-16 code units, as in JavaScript strings.
 */
import { API_VERSION, type Closable, type Host, type Plugin, type Schema } from './base.ts'
import type { Category } from './categories.ts'
import type { ChatInput, ChatCompletion } from './chat.ts'

/**
 * A rule of a policy: banned patterns or scopes, all of them or the one at an index, a denied category, attempts to
 * manipulate the model, or a rule of the guard's own, `x:<plugin>/<id>`.
 */
export type RuleRef =
  | 'bannedPatterns'
  | `bannedPatterns[${number}]`
  | 'scope'
  | `scope:${number}`
  | `deny:${Category}`
  | 'tampering'
  | `x:${string}`

/** A range of a text. */
export interface Span {
  readonly start: number
  /** Exclusive. */
  readonly end: number
  /** Description of the match, such as `email`; for the operator. */
  readonly label?: string
}

/**
 * Judgement of a guard on a text. `abstain` means that it did not judge: `unscannable`, a text or file that it cannot read, is
 * treated by the policy's `onError`; `not-applicable`, a text that its rules do not concern, passes.
 */
export type Verdict =
  | { readonly action: 'pass' }
  | {
      readonly action: 'block'
      readonly rule: RuleRef
      /** 0 to 1, for the operator only: the guard applies its own threshold. */
      readonly score?: number
      /** Ranges of the violation. */
      readonly spans?: readonly Span[]
      /** Reason for the operator. The client never sees it. */
      readonly reason?: string
    }
  | { readonly action: 'abstain'; readonly why: 'unscannable' | 'not-applicable' }

/** Whether a text goes to a model or comes from it. */
export type Side = 'input' | 'output'

/** Origin of rules: the key's policy, or the policy in the request. */
export type Origin = 'key' | 'request'

/** The kind of place in a request or an answer that a text comes from. */
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

/** A part of an item that is not text. */
export interface Media {
  readonly kind: 'image' | 'audio' | 'file'
  readonly mediaType?: string
  /** A data URL or an https address. */
  readonly url?: string
}

/** One text with its place. Items are judged one by one and never joined. */
export interface TextItem {
  /** Unique within the call, such as `messages[3]`. */
  readonly id: string
  readonly side: 'input' | 'output'
  readonly channel: Channel
  readonly role?: 'system' | 'user' | 'assistant' | 'tool'
  /** Whether it belongs to the last user turn or to the answer, not to the history. */
  readonly current: boolean
  readonly text: string
  /** Images, audio and files in the same place. */
  readonly media?: readonly Media[]
  /** Context of a segment of an answer: the text just before it, and the user's last turn. */
  readonly context?: { readonly before: string; readonly userTurn: string }
}

/** One text of an answer that grows while it is streamed. */
export interface TextStream {
  readonly channel: Channel
  readonly choice: number
  /** Index of the tool call or reasoning block; 0 for other channels. */
  readonly index: number
}

/** The rules of one origin that this guard enforces. Lists may be empty. */
export interface ActiveRules {
  /** Subjects that answers must keep to, in the operator's words. */
  readonly scopes: readonly string[]
  readonly deny: readonly Category[]
  /** RE2 expressions. */
  readonly bannedPatterns: readonly string[]
}

/** A guard's view of the conversation that a text belongs to. */
export interface ConversationView {
  /** The last user turn. For a long one the beginning and the end, together at most 2,000 characters. */
  readonly userTurn: string
}

/** The call that a text belongs to. Pass the same object to {@link GuardHost}. */
export interface GuardContext {
  readonly requestId: string
  readonly accountId: string
  readonly keyId: string
  /** The operation, such as `chat`. */
  readonly operation: string
  /** The model's id in the catalog. */
  readonly model: string
  /** Which policy `rules` comes from. A guard is asked once for each origin that has rules for it. */
  readonly origin: Origin
  readonly rules: ActiveRules
  /** Catalog id of the model that should judge, where the key's policy names one. */
  readonly judgeModel?: string
  readonly conversation: ConversationView
  /** It is aborted when the verdict is no longer needed: the time is up, or the client has left. Pass it to every request. */
  readonly signal: AbortSignal
  /** End of the time limit, ms since epoch. */
  readonly deadline: number
}

/** Judgement of a guard on a text that is not complete yet. */
export interface CheckProgress {
  /** Text before this offset may be released. Never decreases, and never exceeds the length of the text so far. */
  readonly safeOffset: number
  /** It is set as soon as the guard blocks. Nothing is pushed afterwards. */
  readonly verdict?: Verdict
}

/** The check of one {@link TextStream}. A local guard returns no promises. */
export interface OutputCheck {
  /** Takes the next piece of the text. Called again only after the last answer. */
  push(text: string): CheckProgress | Promise<CheckProgress>
  /** The text is complete. A guard that agrees to all of it answers with its length. */
  end(): CheckProgress | Promise<CheckProgress>
}

/** A finding of {@link Guard.check} in a text. */
export interface Finding {
  /** Start of the range; the whole text when absent. */
  readonly start?: number
  /** Exclusive end; the end of the text when absent. */
  readonly end?: number
  /** The violated rule; by default the one rule that the guard enforces. A guard that enforces several has to name it. */
  readonly rule?: RuleRef
  /** 0 to 1, for the operator only. */
  readonly score?: number
  /** Reason for the operator. The client never sees it. */
  readonly reason?: string
}

/**
 * A set-up guard. An error that it throws counts as a failure of the guard, and the policy's `onError` decides whether the text
 * passes; a guard that could not judge never counts as one that agreed.
 */
export interface Guard extends Closable {
  /** The rules it can enforce. It is asked when a policy has one of them, or when the configuration has `applies: 'always'`. */
  readonly enforces: readonly RuleRef[]
  /**
   * Local guards run first and do no I/O. Their `checkOutput` and `streamOutput` return no promises; a promise is a fault.
   * Remote guards may return promises everywhere.
   */
  readonly execution: 'local' | 'remote'
  /** Whether the guard can judge complete output only, so that the answer is held back until it is complete. */
  readonly needsFullText?: boolean
  /**
   * The catalog id of the model that this guard asks about a call. The gateway sets money aside for it, see `questions`.
   * @param judgeModel see {@link GuardContext}
   * @returns undefined where it asks none
   */
  asks?(judgeModel: string | undefined): string | undefined
  /**
   * How many questions it asks that model about one text of so many characters: about an input, or about a segment of an answer,
   * which has 1,200 at most. Without it the gateway sets money aside for one. A question that is repeated because its answer
   * was of no use does not count.
   */
  questions?(characters: number): number
  /**
   * Finds violations in a text. The gateway derives from it the check of requests and that of answers, where the guard has no
   * method of its own for them.
   * @returns nothing for a text that passes; of several findings the leftmost, or all
   */
  check?(
    text: string,
    context: GuardContext & { readonly item: TextItem },
  ): Finding | readonly Finding[] | undefined | Promise<Finding | readonly Finding[] | undefined>
  /**
   * The most characters that a finding of `check` may have, and that it looks at on either side of one: 1 to 2,000. With it a
   * local guard judges answers exactly as they grow, in windows, and all text is released that lies a little further back.
   * Without it, and from remote guards, answers are judged by segments.
   */
  readonly reach?: number
  /**
   * Judges the texts of a request, also its history.
   * @returns one verdict per item, in the same order
   * @throws an error with the name `TooLarge` for more text than the guard takes: then the text is at fault, not the guard
   */
  checkInput?(
    items: readonly TextItem[],
    context: GuardContext,
  ): readonly Verdict[] | Promise<readonly Verdict[]>
  /** Judges a complete text of an answer, or one segment of it. Used where there is no `streamOutput`. */
  checkOutput?(item: TextItem, context: GuardContext): Verdict | Promise<Verdict>
  /**
   * Finds what is replaced before a text leaves the gateway, where the configuration has `mask` for this guard.
   * @returns ranges, ascending and without overlaps; the label of one names its kind, such as `EMAIL`
   * @throws an error where it cannot look: then nothing of the request leaves
   */
  locate?(text: string, context: GuardContext): readonly Span[] | Promise<readonly Span[]>
  /** Starts the check of one text of an answer while it is streamed. Called once per text. */
  streamOutput?(stream: TextStream, context: GuardContext): OutputCheck
}

/**
 * The reading of a text under which a pattern matched. `raw` is as written. `folded` has look-alikes, accents and case
 * folded, `squeezed` no gaps between letters, and `leet` digits read as letters. `decoded` is base64, hexadecimal digits or
 * escapes, and `derived` is reversed or in ROT13.
 */
export type PatternView = 'raw' | 'folded' | 'squeezed' | 'leet' | 'decoded' | 'derived'

/** A match of a pattern. */
export interface PatternMatch extends Span {
  /** Index of the pattern in the list that was compiled. */
  readonly pattern: number
  readonly view: PatternView
}

/** The state of a {@link TextScan}. */
export interface ScanProgress {
  /** Text before this offset cannot be part of a match, whatever follows. Never decreases. */
  readonly safeOffset: number
  /** The first match. Push nothing after it. */
  readonly match?: PatternMatch
}

/** Searches a text that arrives in pieces. The result is the same wherever the text is cut. */
export interface TextScan {
  push(text: string): ScanProgress
  /** The text is complete. */
  end(): ScanProgress
}

/** Compiled patterns. Every search takes linear time and also finds disguised matches; see {@link PatternView}. */
export interface PatternMatcher {
  /** The first match in a complete text. */
  find(text: string): PatternMatch | undefined
  /** Starts a search in a growing text. */
  scan(): TextScan
}

/** The gateway's functions for a guard, in addition to {@link Host}. */
export interface GuardHost extends Host {
  /**
   * Asks a model of the catalog, without policy, guards and limits of the key. The account of the call pays for it as guard
   * usage, unless the operator does.
   * @param context the context, as the guard received it
   * @throws an error when the model fails, when the budget of the call for guards is used up, or when a free account would
   * have to pay
   */
  askModel(model: string, request: ChatInput, context: GuardContext): Promise<ChatCompletion>
  /** Compiles RE2 expressions, which match regardless of case. @throws Error that names the pattern and its fault */
  compilePatterns(patterns: readonly string[]): PatternMatcher
  /**
   * Gives other calls their turn during long work on an input: `const due = host.yieldIfDue(context); if (due) await due`,
   * every few hundred microseconds. A promise only when the time slice is used up; it rejects when the answer is no longer
   * needed.
   */
  yieldIfDue(context: GuardContext): void | Promise<void>
  /** A bounded cache in memory. Entries belong to the account of the context; other accounts do not see them. */
  readonly cache: {
    /** It is undefined when there is no entry. */
    get(context: GuardContext, key: string): unknown
    /** It is kept for at most a day. */
    set(context: GuardContext, key: string, value: unknown, ttlSeconds: number): void
  }
}

/** A guard plugin. */
export type GuardPlugin<S extends Schema = Schema<any>> = Plugin<'guard', S, Guard, GuardHost>

/** Marks a plain object as a guard plugin. Example: `plugins/guards/patterns.ts`. */
export function defineGuard<S extends Schema>(
  plugin: Omit<GuardPlugin<S>, 'kind' | 'api'>,
): GuardPlugin<S> {
  return { kind: 'guard', api: API_VERSION, ...plugin }
}
