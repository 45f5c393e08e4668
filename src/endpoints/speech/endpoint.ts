/** `POST /v1/audio/speech`: paid by the character (Unicode code point), which is known before the first sound. */
import { described } from '../../errors/check-schema.ts'
import { either, filledText, number, object, oneOf, shortText } from '../../errors/checks.ts'
import { GatewayError } from '../../errors/errors.ts'
import { costJson } from '../../money/money.ts'
import type { Call, Done, Receipt, Writer } from '../../pipeline/pipeline.ts'
import type { Outgoing } from '../../pipeline/http.ts'
import type { SpeechInput } from '../../plugin.ts'
import type { Policy } from '../../policy/policy.ts'
import type { ChainStep } from '../../stream/chain.ts'
import { receiptOf, withReceipt } from '../shared/billing.ts'
import { readValid } from '../shared/body.ts'
import { itemOf, labelItems, otherItems } from '../shared/guard.ts'
import { toBase64 } from '../shared/media.ts'
import { defineUnitEndpoint } from '../shared/unit.ts'
import { BytesWriter, EventWriter, typedErrorEvent, type EventFormat } from '../shared/write.ts'
import { charactersOf, SpeechAnswer, type SpeechPart } from './answer.ts'

/** A valid request without members that are null. Unknown members are kept. */
interface SpeechRequest extends SpeechInput {
  readonly model: string
  readonly stream_format?: 'audio' | 'sse'
  readonly policy?: Policy
}

const LIMIT_BYTES = 1024 * 1024
const MAX_CHARACTERS = 4096

const CONTENT_TYPES: Readonly<Record<SpeechInput['response_format'], string>> = {
  mp3: 'audio/mpeg',
  opus: 'audio/opus',
  aac: 'audio/aac',
  flac: 'audio/flac',
  wav: 'audio/wav',
  pcm: 'audio/pcm',
}

const input = described(
  (value) => filledText(value) ?? shortText(MAX_CHARACTERS)(value),
  () => ({ type: 'string', minLength: 1, maxLength: MAX_CHARACTERS }),
)

const body = object(
  {
    model: filledText,
    input,
    voice: either('the name of a voice, or an object with its id', {
      string: filledText,
      object: object({ id: filledText }, ['id']),
    }),
    instructions: shortText(MAX_CHARACTERS),
    response_format: oneOf(Object.keys(CONTENT_TYPES)),
    speed: number(0.25, 4),
    stream_format: oneOf(['audio', 'sse']),
  },
  ['model', 'input', 'voice'],
)

const READ_SEPARATELY = new Set(['input', 'voice', 'response_format', 'stream_format'])

export const speech = defineUnitEndpoint<SpeechRequest, SpeechInput, SpeechPart>({
  path: '/v1/audio/speech',
  operation: 'speech',
  modality: 'speech',
  // A WAV file made of samples starts late: its head says how many there are.
  slowStart: true,
  errorField: 'input',
  body,
  toInput: (incoming) =>
    readValid<SpeechRequest>(incoming, LIMIT_BYTES, body, { response_format: 'mp3' }),
  // Sound is always sent as it comes, in events or not.
  streams: () => true,
  // Providers give sound; the gateway makes events of it.
  own: ['stream_format'],
  content: { input: '', instructions: undefined },

  estimate(request) {
    const usage = charactersOf(request)
    return { least: usage, expected: usage, most: usage }
  },

  usage: usageJson,
  answer: ({ outbound }) => new SpeechAnswer(outbound),
  attach: (call) => new ReceiptAtStart(call),

  texts: (request) => [
    itemOf('input', 'speech', request.input),
    ...labelItems('voice', request.voice),
    ...otherItems(request, READ_SEPARATELY, 'speech'),
  ],
  codec: () => ({
    split: (part, take) => take({ kind: 'mark', choice: 0, part }),
    cut: ({ part }) => part,
  }),
  outputRepeatsInput: true,
  write: writeSpeech,
})

/** `usage` of an answer. Models that are paid by the character have no tokens. */
function usageJson({ bill, meter }: Receipt): object {
  const consumed = meter.find(({ source }) => source === 'model')?.usage ?? {}
  const { promptTokens = 0, completionTokens = 0, characters = 0 } = consumed
  return {
    input_tokens: promptTokens,
    output_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    characters,
    ...costJson(bill),
  }
}

/** Charges when the first piece arrives, for good: the cost is in the head of the answer, before the sound. */
class ReceiptAtStart implements ChainStep<SpeechPart, SpeechPart> {
  readonly #call: Call
  #receipt: Promise<Receipt> | undefined

  constructor(call: Call) {
    this.#call = call
  }

  push(part: SpeechPart, emit: (part: SpeechPart) => void): void | Promise<void> {
    if (this.#receipt) return emit(part)
    const charged = receiptOf(this.#call, this.#call.charge())
    this.#receipt = charged
    return charged.then((receipt) => {
      this.#call.headers['x-service-cost'] = receipt.bill.text
      emit({ ...part, receipt })
    })
  }

  async fail(error: unknown): Promise<unknown> {
    return this.#receipt && GatewayError.is(error) ? withReceipt(error, this.#receipt) : error
  }
}

function writeSpeech(call: Call, out: Outgoing, done: Done): Writer<SpeechPart> {
  if ((call.request.input as SpeechRequest).stream_format === 'sse') {
    return new EventWriter(call, out, done, new SpeechEvents())
  }
  const { response_format: format } = call.target.outbound as SpeechInput
  return new BytesWriter(call, out, done, CONTENT_TYPES[format])
}

/** Sound as events. Each can be decoded on its own: all but the last have whole groups of three bytes. */
class SpeechEvents implements EventFormat<SpeechPart> {
  readonly last = ''
  readonly fail = typedErrorEvent
  /** The head has the cost. */
  readonly headWaits = true
  #receipt: Receipt | undefined
  #left: Uint8Array = new Uint8Array(0)

  encode({ bytes, receipt }: SpeechPart): string {
    this.#receipt ??= receipt
    const all = this.#left.length > 0 ? Buffer.concat([this.#left, bytes]) : bytes
    const whole = all.length - (all.length % 3)
    this.#left = all.subarray(whole)
    return whole > 0 ? deltaOf(all.subarray(0, whole)) : ''
  }

  closing(): string {
    const rest = this.#left.length > 0 ? deltaOf(this.#left) : ''
    return rest + eventOf({ type: 'speech.audio.done', usage: usageJson(this.#receipt!) })
  }
}

function deltaOf(bytes: Uint8Array): string {
  return eventOf({ type: 'speech.audio.delta', audio: toBase64(bytes) })
}

function eventOf(event: object): string {
  return `data: ${JSON.stringify(event)}\n\n`
}
