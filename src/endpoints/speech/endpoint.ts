/** Speech in its one normal form. */
import type { Endpoint } from '../../pipeline/pipeline.ts'
import type { SpeechInput } from '../../plugin.ts'
import { SpeechAnswer, type SpeechPart } from './answer.ts'
import { billing } from './billing.ts'
import { guardAdapter } from './guard.ts'
import { outboundSpeech, type SpeechRequest } from './read.ts'

/** The speech endpoint. */
export const speech: Endpoint<SpeechRequest, SpeechInput, SpeechPart> = {
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

  normalize: ({ target }) => new SpeechAnswer(target.outbound as SpeechInput),
}
