/** `POST /v1/audio/transcriptions`: all of its wire knowledge (wire contract, 5.9). */
import type { Model } from '../../models/catalog.ts'
import { InvalidRequest } from '../../errors/errors.ts'
import { flowOf, toFlow } from '../../stream/flow.ts'
import { costJson, type Bill } from '../../money/money.ts'
import type { Call, Endpoint } from '../../pipeline/pipeline.ts'
import type { Transcription, TranscriptionEvent } from '../../plugin.ts'
import { typedErrorEvent, writeEvents, writeJson, writeText } from '../shared/write.ts'
import { ReceiptAtEnd } from '../shared/billing.ts'
import { eventOf, jsonOf, textOf } from './formats.ts'
import { guarding } from './guard.ts'
import { estimateOf, isDone, TranscriptIntake, type TranscriptPart } from './answer.ts'
import { outboundTranscription, readTranscription, type TranscriptionRequest } from './request.ts'

export const transcription: Endpoint<TranscriptionRequest, TranscriptPart> = {
  operation: 'transcribe',
  path: '/v1/audio/transcriptions',
  modality: 'transcription',
  // Of models that cannot stream.
  slowStart: true,
  errorField: null,
  guard: guarding,

  read: readTranscription,
  modelOf: (input) => input.model,
  sessionOf: () => undefined,
  policyOf: (input) => input.policy,
  streams: (input) => input.stream === true,
  check: checkCapabilities,
  estimate: ({ file, prompt }) => estimateOf(file, prompt),
  toUpstream: (input, model) => outboundTranscription(input, model.capabilities.has('STREAMING')),
  // What was said was said; there is no answer to be shorter.
  instruct: (outbound) => outbound,

  normalize(call, answer: Transcription | AsyncIterable<TranscriptionEvent>) {
    const intake = new TranscriptIntake(call.input)
    const events =
      Symbol.asyncIterator in answer
        ? toFlow(answer)
        : flowOf<TranscriptionEvent>({ type: 'done', ...answer })
    return { parts: events.through(intake), usage: () => intake.usage(call.model) }
  },

  billed: (call, charge) => new ReceiptAtEnd({ call, charge, isEnd: isDone, usageOf }),

  async write(call, reply, out) {
    const request: TranscriptionRequest = call.input
    if (request.stream) {
      const format = { encode: eventOf, last: '', fail: typedErrorEvent }
      return writeEvents(call, reply, out, format)
    }
    for await (const part of reply.parts) {
      if (part.type !== 'done') continue
      if (TEXTS.has(request.response_format)) await writeText(call, out, textOf(part, request))
      else await writeJson(call, out, JSON.stringify(jsonOf(part, request)))
    }
  },
}

const TEXTS: ReadonlySet<string> = new Set(['text', 'srt', 'vtt'])

/** What a format needs of a model. */
const NEEDS: Readonly<Record<string, string>> = {
  srt: 'TIMESTAMPS',
  vtt: 'TIMESTAMPS',
  verbose_json: 'TIMESTAMPS',
  diarized_json: 'DIARIZATION',
}

function checkCapabilities(input: TranscriptionRequest, { id, capabilities }: Model): void {
  const { response_format: format, include } = input
  const need = NEEDS[format]
  if (need && !capabilities.has(need)) {
    throw new InvalidRequest(
      'unsupported_value',
      `${id} cannot make transcripts in the format ${format}: it lacks the capability ${need}.`,
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

/** The quantities of a call in the form of the wire (wire contract, 5.9.2): time, or tokens for models that are paid by them. */
function usageOf({ meter, model }: Call, bill?: Bill): object {
  const consumed = meter.find(({ source }) => source === 'model')?.usage ?? {}
  const { promptTokens = 0, audioInputTokens = 0, completionTokens = 0, seconds = 0 } = consumed
  const cost = bill && costJson(bill)
  if (!['prompt', 'audio', 'completion'].some((name) => name in model.prices)) {
    return { type: 'duration', seconds, ...cost }
  }
  return {
    type: 'tokens',
    input_tokens: promptTokens,
    input_token_details: {
      text_tokens: Math.max(0, promptTokens - audioInputTokens),
      audio_tokens: audioInputTokens,
    },
    output_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    ...('second' in model.prices && { seconds }),
    ...cost,
  }
}
