/** Speech in its one normal form. */
import { toFlow } from '../../stream/flow.ts'
import type { Endpoint } from '../../pipeline/pipeline.ts'
import type { Speech, SpeechInput } from '../../plugin.ts'
import { Received } from '../shared/billing.ts'
import { toRequestedFormat, type SpeechPart } from './answer.ts'
import { billing, spokenOf, usageOf } from './billing.ts'
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
  withoutContent: (request) => ({ ...request, input: '', instructions: undefined }),

  normalize(call, { bytes, pcmSampleRate, usage }: Speech, signal) {
    const { response_format: format }: SpeechInput = call.outbound
    const spoken = spokenOf(call.outbound)
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
      usage: () => usageOf(spoken, usage),
      received: () => received.amount,
      chargeAtFirstPart: true,
    }
  },
}
