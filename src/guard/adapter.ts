/**
 * The guards' view of an endpoint: the texts of its input, how the parts of an answer split into texts, and the form
 * of a refusal. Each endpoint implements {@link GuardAdapter}; the guard stage asks for nothing else.
 */
import type { InvalidRequest } from '../errors/errors.ts'
import type { Channel, TextItem } from '../plugin.ts'
import type { EffectivePolicy } from '../policy/policy.ts'

export interface GuardAdapter<In = any, Part = any> {
  /** Every text of the input, as the client sent it. @param refusals every refusal text the client may have got */
  inputTexts(input: In, refusals: readonly string[]): InputTexts
  /** The outbound request without the text of turns that were refused before; for endpoints with turns. */
  withhold?(outbound: any, turns: readonly RefusedTurn[]): unknown
  /** The error for an input that guards cannot read; undefined for one that they can. Absent where they can read all inputs. */
  unreadable?(input: In): InvalidRequest | undefined
  /** Whether the answer has the same texts as the input and no other: the input is screened in its place. */
  readonly outputRepeatsInput?: boolean
  readonly outputIsSilent?: boolean
  choices(input: In): number
  /** Splits the parts of one answer and joins them again; one object per answer, which may keep state. */
  outputCodec(input: In): OutputCodec<Part>
  /** A refusal as an ordinary answer, in parts that end a choice. Without it there is only the error form. */
  refusalParts?(refusal: Refusal<Part>, input: In, model: string): readonly Part[]
}

export function sidesRead(
  { outputRepeatsInput = false }: GuardAdapter,
  { guard: { input, output } }: EffectivePolicy,
): { readonly input: boolean; readonly output: boolean } {
  return {
    input: input || (outputRepeatsInput && output),
    output: output && !outputRepeatsInput,
  }
}

export interface InputTexts {
  readonly items: readonly TextItem[]
  readonly refusedTurns: readonly RefusedTurn[]
}

/** Channels that only exact rules read: the model's own refusals, pages that it cites, and labels of requests. */
export const EXACT_ONLY: ReadonlySet<Channel> = new Set(['refusal', 'annotation'])

/** A turn that was refused before. If one of its texts violates a rule the turn is withheld, and does not block. */
export interface RefusedTurn {
  readonly items: ReadonlySet<string>
  readonly messages: readonly number[]
}

export interface Refusal<Part> {
  readonly text: string
  readonly choice: number
  readonly sample: Part | undefined
  /** Whether the client has got a first part of this choice, and whether text of it. */
  readonly opened: boolean
  readonly hasText: boolean
}

export interface OutputCodec<Part> {
  /**
   * Splits a part into its pieces, in order. Together they have the content of the part; fields that the endpoint
   * does not know are omitted and reported to `removed`.
   */
  split(
    part: Part,
    take: (piece: OutputPiece<Part>) => void,
    removed: (field: string) => void,
  ): void
  /** The part with only the characters from `start` to `end` of a text. */
  cut(piece: TextPiece<Part>, start: number, end: number): Part
  /** Joins fragments into the whole. Absent where there are none. */
  assemble?(fragments: readonly FragmentPiece<Part>[]): AtomicPiece<Part>
}

export type OutputPiece<Part> =
  | TextPiece<Part>
  | FragmentPiece<Part>
  | AtomicPiece<Part>
  | PassthroughPiece<Part>
  | FinishPiece<Part>

interface AnyPiece<Part> {
  readonly choice: number
  /** The part with just this piece: the split part, where it has nothing else. */
  readonly part: Part
}

/** More text of a channel. Goes out as soon as all guards agree, in whole or in part. */
export interface TextPiece<Part> extends AnyPiece<Part> {
  readonly kind: 'text'
  readonly channel: Channel
  readonly text: string
  /** Whether a violation ends this channel only: the choice continues without it. */
  readonly droppable?: boolean
  /** Whether its part, like the others of its channel, has the text and nothing else: two may be joined. */
  readonly textOnly?: boolean
}

/** A fragment of a whole that goes out once the choice is finished, such as a tool call. */
export interface FragmentPiece<Part> extends AnyPiece<Part> {
  readonly kind: 'fragment'
  readonly channel: Channel
  readonly index: number
  /** Counts towards the largest whole that is retained. */
  readonly size: number
}

/** A piece that goes out whole or not at all, with its texts; each text is screened on its own. */
export interface AtomicPiece<Part> extends AnyPiece<Part> {
  readonly kind: 'whole'
  readonly channel: Channel
  readonly index: number
  readonly texts: readonly AtomicText[]
  /** The remainder without these items, if any. Without this method one violation ends the choice. */
  withoutItems?(items: ReadonlySet<number>): Part | undefined
  readonly unscanned?: string
}

export interface AtomicText {
  readonly text: string
  /** Whether it is another form of an earlier text, or a name: for local guards only. */
  readonly duplicate?: boolean
  /** The index of its item, of several. */
  readonly item?: number
}

/** A piece without text. `opens` a choice, or goes out after the earlier text of its `channel`. */
export interface PassthroughPiece<Part> extends AnyPiece<Part> {
  readonly kind: 'mark'
  readonly opens?: boolean
  readonly channel?: Channel
  readonly keptWhenDropped?: boolean
}

/** Ends a choice; goes out after everything else of it. */
interface FinishPiece<Part> extends AnyPiece<Part> {
  readonly kind: 'finish'
}
