/** Speech in its one normal form. */
import { toFlow } from '../../stream/flow.ts'
import type { Endpoint } from '../../pipeline/pipeline.ts'
import type { Speech, SpeechInput } from '../../plugin.ts'
import { Received } from '../shared/received.ts'
import { toRequestedFormat, type SpeechPart } from './answer.ts'
import { billing, usageOf } from './billing.ts'
import { guardAdapter } from './guard.ts'
import { outboundSpeech, type SpeechRequest } from './read.ts'

/** The speech endpoint. */
export const speech: Endpoint<SpeechRequest, SpeechPart> = {
  operation: 'speech',
  modality: 'speech',
  // A WAV file made of samples starts late: its head says how many there are.
  slowStart: true,
  errorField: 'input',
  billing,
  guard: guardAdapter,
  check: () => {},
  toUpstream: outboundSpeech,

  normalize(call, { bytes, pcmSampleRate, usage }: Speech, signal) {
    const outbound: SpeechInput = call.outbound
    const { response_format: format } = outbound
    const received = new Received()
    const sound = toFlow(bytes, signal).through<Uint8Array>({
      push(piece, emit) {
        received.add(piece.length)
        emit(piece)
      },
    })
    return {
      parts: toRequestedFormat(sound, pcmSampleRate, format).through({
        push: (piece: Uint8Array, emit: (part: SpeechPart) => void) => emit({ bytes: piece }),
      }),
      usage: () => usageOf(outbound, usage),
      received: () => received.amount,
      chargeAtFirstPart: true,
    }
  },
}
