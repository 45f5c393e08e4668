/** Transcriptions in their one normal form. */
import type { Model } from '../../models/catalog.ts'
import { InvalidRequest } from '../../errors/errors.ts'
import { flowOf, toFlow } from '../../stream/flow.ts'
import type { Endpoint } from '../../pipeline/pipeline.ts'
import type { Transcription, TranscriptionEvent } from '../../plugin.ts'
import { NormalizeTranscript } from './answer.ts'
import { billing } from './billing.ts'
import { guardAdapter } from './guard.ts'
import type { TranscriptPart } from './parts.ts'
import { outboundTranscription, type TranscriptionRequest } from './read.ts'

/** The transcription endpoint. */
export const transcription: Endpoint<TranscriptionRequest, TranscriptPart> = {
  operation: 'transcribe',
  modality: 'transcription',
  // Models that cannot stream give their first part at the end.
  slowStart: true,
  errorField: null,
  billing,
  guard: guardAdapter,
  check: checkCapabilities,
  toUpstream: (input, model) => outboundTranscription(input, model.capabilities.has('STREAMING')),

  normalize({ request, model }, answer: Transcription | AsyncIterable<TranscriptionEvent>, signal) {
    const transcript = new NormalizeTranscript(request.input)
    const events =
      Symbol.asyncIterator in answer
        ? toFlow(answer, signal)
        : flowOf<TranscriptionEvent>({ type: 'done', ...answer })
    return {
      parts: events.through(transcript),
      usage: () => transcript.usage(model),
      received: () => transcript.received.amount,
    }
  },
}

/** The capability that a format needs. */
const CAPABILITIES: Readonly<Record<string, string>> = {
  srt: 'TIMESTAMPS',
  vtt: 'TIMESTAMPS',
  verbose_json: 'TIMESTAMPS',
  diarized_json: 'DIARIZATION',
}

function checkCapabilities(input: TranscriptionRequest, { id, capabilities }: Model): void {
  const { response_format: format, include } = input
  const capability = CAPABILITIES[format]
  if (capability && !capabilities.has(capability)) {
    throw new InvalidRequest(
      'unsupported_value',
      `${id} cannot make transcripts in the format ${format}: it lacks the capability ${capability}.`,
      { param: 'response_format' },
    )
  }
  if (include?.length && !capabilities.has('LOGPROBS')) {
    throw new InvalidRequest(
      'unsupported_parameter',
      `${id} cannot honour include: it lacks the capability LOGPROBS.`,
      { param: 'include' },
    )
  }
}
