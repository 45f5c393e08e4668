/** What a request for speech may look like (wire contract, 5.8), and what of it goes upstream. */
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
import { readJson } from '../shared/body.ts'

/** A valid request, less members that are null. Members we do not know are there too. */
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
  const given = {
    response_format: 'mp3',
    ...Object.fromEntries(Object.entries(others).filter(([, value]) => value !== null)),
  } as unknown as SpeechRequest
  return policy === undefined ? given : { ...given, policy: readPolicy(policy) }
}

/**
 * Members that are the gateway's own business. `__proto__` is among them because an assignment to it would not make a
 * member.
 */
const KEPT_BACK = new Set(['model', 'policy', 'provider', 'plugins', 'stream_format', '__proto__'])

/** What goes upstream: sound, always; events are made of it here. */
export function outboundSpeech(request: SpeechRequest): SpeechInput {
  const outbound: Record<string, unknown> = {}
  for (const name in request) if (!KEPT_BACK.has(name)) outbound[name] = request[name]
  return outbound as unknown as SpeechInput
}
