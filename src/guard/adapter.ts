/**
 * What guards have to know of an endpoint: the texts of its input, how the parts of an answer split into texts, and the
 * form of a refusal. Each endpoint implements {@link GuardAdapter}; the guard stage asks for nothing else.
 */
import type { InvalidRequest } from '../errors/errors.ts'
import type { Channel, TextItem } from '../plugin.ts'
import type { EffectivePolicy } from '../policy/policy.ts'

/** An endpoint as guards see it. */
export interface GuardAdapter<In = any, Part = any> {
  /**
   * Every text of the input, as the client sent it.
   * @param refusals every form of the refusal text that the client may have got before
   */
  inputTexts(input: In, refusals: readonly string[]): InputTexts
  /** The outbound request without the text of turns that were refused before; for endpoints with turns. */
  withhold?(outbound: any, turns: readonly RefusedTurn[]): unknown
  /** The error for an input that guards cannot read; undefined for one that they can. Absent where they can read all inputs. */
  unreadable?(input: In): InvalidRequest | undefined
  /** The answer says what the input says and nothing else: the input is screened in its place. */
  readonly outputRepeatsInput?: boolean
  /** The answer has no text that guards read. */
  readonly outputIsSilent?: boolean
  /** How many answers are asked for. */
  choices(input: In): number
  /** Splits the parts of one answer and puts them together again; one object per answer, which may keep state. */
  outputCodec(input: In): OutputCodec<Part>
  /** A refusal as an ordinary answer, in parts that end a choice. Without it there is only the error form. */
  refusalParts?(refusal: Refusal<Part>, input: In, model: string): readonly Part[]
}

/** Which sides the guards of a policy read. */
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
  /** Complete earlier turns that were answered with the refusal text. */
  readonly refusedTurns: readonly RefusedTurn[]
}

/** Channels that only exact rules read: the model's own refusals, pages that it cites, and labels of requests. */
export const EXACT_ONLY: ReadonlySet<Channel> = new Set(['refusal', 'annotation'])

/** Characters of the last turn of an input, as far as judges read it; 1 for one that is media only. */
export function charactersIn({ items }: InputTexts): number {
  let [characters, media] = [0, 0]
  for (const item of items) {
    if (!item.current || EXACT_ONLY.has(item.channel)) continue
    characters += item.text.length
    media += item.media?.length ?? 0
  }
  return characters === 0 && media > 0 ? 1 : characters
}

/** A turn that was refused before. If one of its texts violates a rule the turn is withheld, and does not block. */
export interface RefusedTurn {
  /** Ids of its texts. */
  readonly items: ReadonlySet<string>
  /** Positions of its messages, counted from the end. */
  readonly messages: readonly number[]
}

/** A refusal that is to be written. */
export interface Refusal<Part> {
  readonly text: string
  readonly choice: number
  /** A part of the answer that it replaces; absent where the input was refused. */
  readonly sample: Part | undefined
  /** Whether the client has got a first part of this choice, and whether text of it. */
  readonly opened: boolean
  readonly hasText: boolean
}

/** Splits the parts of one answer into pieces. */
export interface OutputCodec<Part> {
  /**
   * Splits a part into its pieces, in order. Together they say what the part says; fields that the endpoint does not know
   * are left out and reported to `removed`.
   */
  split(
    part: Part,
    take: (piece: OutputPiece<Part>) => void,
    removed: (field: string) => void,
  ): void
  /** The part that says only the characters from `start` to `end` of a text. */
  cut(piece: TextPiece<Part>, start: number, end: number): Part
  /** Joins fragments into what they say as a whole. Absent where there are none. */
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
  /** The part that says just this piece: the part that was split, where it says nothing else. */
  readonly part: Part
}

/** More of the text of a channel. Goes out as soon as all guards agree, in whole or in part. */
export interface TextPiece<Part> extends AnyPiece<Part> {
  readonly kind: 'text'
  readonly channel: Channel
  readonly text: string
  /** A violation ends this channel only: the choice goes on without it. */
  readonly droppable?: boolean
  /** Its part says the text and nothing else, and so do the others of its channel: two may be said as one. */
  readonly textOnly?: boolean
}

/** Part of something that goes out whole, once the choice is finished, such as a tool call. */
export interface FragmentPiece<Part> extends AnyPiece<Part> {
  readonly kind: 'fragment'
  readonly channel: Channel
  /** Which of the things of this channel. */
  readonly index: number
  /** Counts towards the largest that is held. */
  readonly size: number
}

/** Something that goes out whole or not at all, with the texts it says; each text is screened on its own. */
export interface AtomicPiece<Part> extends AnyPiece<Part> {
  readonly kind: 'whole'
  readonly channel: Channel
  /** Which of the things of this channel. */
  readonly index: number
  readonly texts: readonly AtomicText[]
  /** What is left of it without these items, if anything is. Without this method one violation ends the choice. */
  withoutItems?(items: ReadonlySet<number>): Part | undefined
  /** Media in it that no guard of texts can read. */
  readonly unscanned?: string
}

export interface AtomicText {
  readonly text: string
  /** Another form of a text that is there already, or a name: for local guards only. */
  readonly duplicate?: boolean
  /** Of several items, the one that says it. */
  readonly item?: number
}

/** Holds no text. `opens` a choice, or goes out after the text of its `channel` that came before. */
export interface PassthroughPiece<Part> extends AnyPiece<Part> {
  readonly kind: 'mark'
  readonly opens?: boolean
  readonly channel?: Channel
  /** It goes out even where its channel is left out. */
  readonly keptWhenDropped?: boolean
}

/** Ends a choice; goes out after everything else of it. */
interface FinishPiece<Part> extends AnyPiece<Part> {
  readonly kind: 'finish'
}
