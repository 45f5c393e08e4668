/** The contents of calls, for keys that let them be kept. */
import type { FragmentPiece, OutputCodec, OutputPiece } from '../guard/adapter.ts'
import type { CallContent, OutputText } from '../observe/content/content.ts'
import { keptOf, MOST_CHARACTERS } from '../observe/content/kept.ts'
import type { ChainStep } from '../stream/chain.ts'
import type { Call } from './pipeline.ts'

/**
 * Stores the question of a call and the answer for its client, or passes them to sinks, where both the configuration
 * and the key allow it.
 * @returns the step that reads the answer as the client gets it; undefined where nothing of it is kept
 */
export function keepContents(call: Call): ChainStep | undefined {
  const { runtime, endpoint, request, admission } = call
  const { key, account } = admission
  if (key.logContent !== true) return undefined
  const { enabled, sample } = runtime.config.log.content
  const keeps = enabled && Math.random() < sample
  const sinks = runtime.config.telemetry.content ? runtime.sinks : undefined
  if (!keeps && !sinks) return undefined
  const codec = endpoint.guard?.outputCodec(request.input)
  const answer = codec && new AnswerText(codec, (error) => call.report(error))
  const input = keptOf(request.input)
  call.contents = () => {
    const { id, path, made } = call
    const { decision } = call.answer
    const texts = answer?.texts ?? []
    const content: CallContent = {
      id,
      account: account.id,
      key: key.id,
      user: request.labels?.user,
      endpoint: path,
      model: made.target?.model.id,
      decided: (decision?.decided() ?? []).filter(({ rule }) => rule !== ''),
      input: input.json,
      output: JSON.stringify(texts),
      cut: input.cut || answer?.cut === true,
    }
    if (keeps) runtime.contents.add(content)
    // This comes before the record of the call, which `trace` makes later.
    sinks?.content(content)
  }
  return answer
}

/** The texts of an answer, joined while its parts pass. Files and sound are left out. */
class AnswerText implements ChainStep {
  /** Whether some text was longer than is kept. */
  cut = false
  readonly #codec: OutputCodec<any>
  readonly #report: (error: unknown) => void
  readonly #texts: (Omit<OutputText, 'text'> & { text: string })[] = []
  /** The key is choice, channel and number of the whole that they are pieces of. */
  readonly #fragments = new Map<string, FragmentPiece<any>[]>()
  #left = MOST_CHARACTERS
  #failed = false
  readonly #take = (piece: OutputPiece<any>): void => this.#takePiece(piece)

  constructor(codec: OutputCodec<any>, report: (error: unknown) => void) {
    this.#codec = codec
    this.#report = report
  }

  push(part: any, emit: (part: any) => void): void {
    this.#try(() => this.#codec.split(part, this.#take, () => {}))
    emit(part)
  }

  get texts(): readonly OutputText[] {
    this.#try(() => {
      for (const fragments of this.#fragments.values()) {
        for (const { size } of fragments) this.#left += size
        this.#take(this.#codec.assemble!(fragments))
      }
      this.#fragments.clear()
    })
    return this.#texts
  }

  /** Ignores errors: an answer goes out also where it cannot be read. */
  #try(read: () => void): void {
    if (this.#failed) return
    try {
      read()
    } catch (error) {
      this.#failed = this.cut = true
      this.#report(error)
    }
  }

  #takePiece(piece: OutputPiece<any>): void {
    if (piece.kind === 'text') this.#say(piece.choice, piece.channel, piece.text, true)
    else if (piece.kind === 'fragment') this.#keepFragment(piece)
    else if (piece.kind === 'whole') {
      const own = piece.texts.filter(({ duplicate }) => !duplicate).map(({ text }) => text)
      if (own.length > 0) this.#say(piece.choice, piece.channel, own.join('\n'), false)
    }
  }

  #keepFragment(piece: FragmentPiece<any>): void {
    if (this.#left <= 0) return void (this.cut = true)
    this.#left -= piece.size
    const place = `${piece.choice} ${piece.channel} ${piece.index}`
    const existing = this.#fragments.get(place)
    if (existing) existing.push(piece)
    else this.#fragments.set(place, [piece])
  }

  /** @param goesOn whether it continues the text of its channel */
  #say(choice: number, channel: OutputText['channel'], text: string, goesOn: boolean): void {
    const shown = text.slice(0, Math.max(0, this.#left))
    if (shown.length < text.length) this.cut = true
    if (shown === '') return
    this.#left -= shown.length
    const existing =
      goesOn && this.#texts.find((one) => one.choice === choice && one.channel === channel)
    if (existing) existing.text += shown
    else this.#texts.push({ choice, channel, text: shown })
  }
}
