/** Requests for speech: validated, and in the form that providers get. */
import { described } from '../../errors/check-schema.ts'
import { either, filledText, number, object, oneOf, shortText } from '../../errors/checks.ts'
import type { Incoming } from '../../pipeline/pipeline.ts'
import type { SpeechInput } from '../../plugin.ts'
import type { Policy } from '../../policy/policy.ts'
import { outboundMembers, readValid } from '../shared/body.ts'

/** A valid request without members that are null. Unknown members are kept. */
export interface SpeechRequest extends SpeechInput {
  readonly model: string
  readonly stream_format?: 'audio' | 'sse'
  readonly policy?: Policy
}

const LIMIT_BYTES = 1024 * 1024
const MAX_CHARACTERS = 4096
const FORMATS = ['mp3', 'opus', 'aac', 'flac', 'wav', 'pcm']

const input = described(
  (value) => filledText(value) ?? shortText(MAX_CHARACTERS)(value),
  () => ({ type: 'string', minLength: 1, maxLength: MAX_CHARACTERS }),
)

/** The members of a body. */
export const speechBody = object(
  {
    model: filledText,
    input,
    voice: either('the name of a voice, or an object with its id', {
      string: filledText,
      object: object({ id: filledText }, ['id']),
    }),
    instructions: shortText(MAX_CHARACTERS),
    response_format: oneOf(FORMATS),
    speed: number(0.25, 4),
    stream_format: oneOf(['audio', 'sse']),
  },
  ['model', 'input', 'voice'],
)

/** @throws InvalidRequest */
export function readSpeech(incoming: Incoming): Promise<SpeechRequest> {
  return readValid<SpeechRequest>(incoming, LIMIT_BYTES, speechBody, { response_format: 'mp3' })
}

/** The request for providers: always sound; the gateway makes events of it. */
export function outboundSpeech(request: SpeechRequest): SpeechInput {
  return outboundMembers(request, ['stream_format']) as SpeechInput
}
