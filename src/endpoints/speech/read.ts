/** Requests for speech: validated, and in the form that providers get. */
import {
  either,
  filledText,
  number,
  object,
  oneOf,
  shortText,
  toInvalidRequest,
  type Check,
} from '../../errors/checks.ts'
import type { Incoming } from '../../pipeline/http.ts'
import type { SpeechInput } from '../../plugin.ts'
import { readPolicy, type Policy } from '../../policy/policy.ts'
import { givenMembers, outboundMembers, readJson } from '../shared/body.ts'

/** A valid request without members that are null. Unknown members are kept. */
export interface SpeechRequest extends SpeechInput {
  readonly model: string
  readonly stream_format?: 'audio' | 'sse'
  readonly policy?: Policy
}

const LIMIT_BYTES = 1024 * 1024
const MAX_CHARACTERS = 4096
const FORMATS = ['mp3', 'opus', 'aac', 'flac', 'wav', 'pcm']

const input: Check = (value) => filledText(value) ?? shortText(MAX_CHARACTERS)(value)

const request = object(
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
export async function readSpeech(incoming: Incoming): Promise<SpeechRequest> {
  const body = await readJson(incoming, LIMIT_BYTES)
  const found = request(body)
  if (found) throw toInvalidRequest(found)
  const { policy, ...others } = body as Record<string, unknown>
  const given = { response_format: 'mp3', ...givenMembers(others) } as SpeechRequest
  return policy === undefined ? given : { ...given, policy: readPolicy(policy) }
}

/** The request for providers: always sound; the gateway makes events of it. */
export function outboundSpeech(request: SpeechRequest): SpeechInput {
  return outboundMembers(request, ['stream_format']) as SpeechInput
}
