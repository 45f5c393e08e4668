/** Transcriptions in their one normal form. */
import { lackOf, lacks, type Capability } from '../../models/capabilities.ts'
import type { Model } from '../../models/catalog.ts'
import { InvalidRequest } from '../../errors/errors.ts'
import type { Endpoint } from '../../pipeline/pipeline.ts'
import type { MediaFile, TranscriptionInput } from '../../plugin.ts'
import { TranscriptAnswer } from './answer.ts'
import { billing } from './billing.ts'
import { guardAdapter } from './guard.ts'
import type { TranscriptPart } from './parts.ts'
import { outboundTranscription, type TranscriptionRequest } from './read.ts'

const NO_FILE: MediaFile = { bytes: new Uint8Array(), mediaType: '' }

/** The transcription endpoint. */
export const transcription: Endpoint<TranscriptionRequest, TranscriptionInput, TranscriptPart> = {
  operation: 'transcribe',
  modality: 'transcription',
  // Models that cannot stream give their first part at the end.
  slowStart: true,
  errorField: null,
  billing,
  guard: guardAdapter,
  check: checkCapabilities,
  withoutContent: (request) => ({ ...request, file: NO_FILE, prompt: undefined }),
  toUpstream: (input, model) => outboundTranscription(input, !lacks(model, 'STREAMING')),

  normalize: ({ request, target }) =>
    new TranscriptAnswer(request.input as TranscriptionRequest, target.model),
}

/** The capability that a format needs. */
const CAPABILITIES: Readonly<Record<string, Capability>> = {
  srt: 'TIMESTAMPS',
  vtt: 'TIMESTAMPS',
  verbose_json: 'TIMESTAMPS',
  diarized_json: 'DIARIZATION',
}

function checkCapabilities(input: TranscriptionRequest, model: Model): void {
  const { response_format: format, include } = input
  const capability = CAPABILITIES[format]
  if (capability && lacks(model, capability)) {
    throw new InvalidRequest(
      'unsupported_value',
      `${model.id} cannot make transcripts in the format ${format}: ${lackOf(capability)}.`,
      { param: 'response_format' },
    )
  }
  if (include?.length && lacks(model, 'LOGPROBS')) {
    throw new InvalidRequest(
      'unsupported_parameter',
      `${model.id} cannot honour include: ${lackOf('LOGPROBS')}.`,
      { param: 'include' },
    )
  }
}
