import {
  boolean,
  either,
  filledText,
  inside,
  integer,
  list,
  missing,
  number,
  object,
  oneOf,
  problem,
  text,
  toInvalidRequest,
  variant,
  wrong,
  wrongType,
  described,
} from '../../errors/checks.ts'
import type { BodyLimits } from '../../config/config.ts'
import { InvalidRequest } from '../../errors/errors.ts'
import {
  extensionOf,
  fileTooLarge,
  exceedsBytes,
  mediaTypeOf,
  parseBase64,
  parseDataUrl,
} from '../shared/media.ts'
import type { Incoming } from '../../pipeline/http.ts'
import type { MediaFile, TranscriptionInput } from '../../plugin.ts'
import { readPolicy, type Policy } from '../../policy/policy.ts'
import { givenMembers, readAnyPolicy, readJson } from '../shared/body.ts'
import { isMultipart, readMultipart, toJsonTypes, type FieldTypes } from '../shared/multipart.ts'

type TranscriptFormat = 'json' | 'text' | 'srt' | 'verbose_json' | 'vtt' | 'diarized_json'

/** A valid request without members that are null. Unknown members are kept. */
export interface TranscriptionRequest extends Omit<Known, 'response_format'> {
  readonly model: string
  readonly response_format: TranscriptFormat
  readonly policy?: Policy
  readonly [member: string]: unknown
}

type Known = {
  [K in keyof TranscriptionInput as string extends K ? never : K]: TranscriptionInput[K]
} & {
  readonly include?: readonly 'logprobs'[]
}

/** Size of a body by that of its file: base64 takes a third more, and other members need room. */
const BODY_PER_FILE = 1.44
const LANGUAGE = /^[a-z]{2,3}(-[a-z0-9]{2,8})*$/i
const MAX_SPEAKERS = 4

const language = described(
  (value) => {
    const expected = 'a language code such as "en"'
    if (typeof value !== 'string') return wrongType(value, expected)
    return LANGUAGE.test(value) ? undefined : wrong('invalid_value', value, expected)
  },
  () => ({ type: 'string' }),
)

const chunking = either('"auto", or an object with a type', {
  string: oneOf(['auto']),
  object: variant('type', {
    server_vad: object({
      prefix_padding_ms: integer(0),
      silence_duration_ms: integer(0),
      threshold: number(0, 1),
    }),
  }),
})

export const transcriptionBody = object(
  {
    model: filledText,
    language,
    languages: list(language),
    keywords: list(text),
    prompt: text,
    response_format: oneOf(['json', 'text', 'srt', 'verbose_json', 'vtt', 'diarized_json']),
    temperature: number(0, 1),
    include: list(oneOf(['logprobs'])),
    timestamp_granularities: list(oneOf(['word', 'segment'])),
    chunking_strategy: chunking,
    known_speaker_names: list(text, 0, MAX_SPEAKERS),
    known_speaker_references: list(text, 0, MAX_SPEAKERS),
    stream: boolean,
  },
  ['model'],
)

const FORM_TYPES: FieldTypes = {
  temperature: 'number',
  stream: 'boolean',
  languages: 'list',
  keywords: 'list',
  include: 'list',
  timestamp_granularities: 'list',
  known_speaker_names: 'list',
  known_speaker_references: 'list',
  chunking_strategy: 'json',
}
const CHUNKING_TYPES: FieldTypes = {
  prefix_padding_ms: 'number',
  silence_duration_ms: 'number',
  threshold: 'number',
}
/** Optional texts for which a form may have the text `null`. */
const NULLABLE = ['language', 'response_format']

/** Reads a form, or JSON with a data URL. @throws InvalidRequest */
export async function readTranscription(
  incoming: Incoming,
  limits: BodyLimits,
): Promise<TranscriptionRequest> {
  const limitBytes = Math.ceil(limits.audio * BODY_PER_FILE)
  if (!isMultipart(incoming)) {
    const accepted = 'multipart/form-data or application/json'
    const body = await readJson(incoming, limitBytes, accepted)
    return ofJson(body as Record<string, unknown>, limits)
  }
  const { fields, files } = await readMultipart(incoming, {
    files: (field) => FILE_FIELD.test(field),
    fileLimitBytes: limits.audio,
    bodyLimitBytes: limitBytes,
    json: limits,
    jsonFields: ['chunking_strategy'],
  })
  const members = toJsonTypes(fields, FORM_TYPES)
  for (const name of NULLABLE) if (members[name] === 'null') delete members[name]
  if (typeof members.chunking_strategy === 'object' && members.chunking_strategy !== null) {
    members.chunking_strategy = toJsonTypes(
      members.chunking_strategy as Record<string, unknown>,
      CHUNKING_TYPES,
    )
  }
  return validated(members, readAnyPolicy, () => {
    if (files.length > 1) {
      const mistake = problem('invalid_value', 'one file', String(files.length))
      throw toInvalidRequest({ ...mistake, path: 'file' })
    }
    return sound(files[0]?.file, 'file', limits)
  })
}

const FILE_FIELD = /^file(\[\d*\])?$/

const URL_NAMES = ['file', 'audio', 'audio_url', 'file_url']

function ofJson(body: Record<string, unknown>, limits: BodyLimits): TranscriptionRequest {
  const { input_audio: inline, ...others } = body
  const name = URL_NAMES.find((one) => (others[one] ?? undefined) !== undefined)
  const url = name === undefined ? undefined : others[name]
  for (const one of URL_NAMES) delete others[one]
  // The size is checked before everything else, as in forms.
  if (name !== undefined && exceedsBytes(url, limits.audio)) throw fileTooLarge(name, limits.audio)
  return validated(others, readPolicy, () => {
    if (name !== undefined) return fileAt(name, url, limits)
    if ((inline ?? undefined) !== undefined) return inlineFile(inline, limits)
    return sound(undefined, 'file', limits)
  })
}

function fileAt(name: string, url: unknown, limits: BodyLimits): MediaFile {
  const mistake = text(url)
  if (mistake) throw toInvalidRequest({ ...mistake, path: name })
  return sound(parseDataUrl(url as string, name), name, limits)
}

const inlineAudio = object({ data: filledText, format: filledText }, ['data', 'format'])

function inlineFile(inline: unknown, limits: BodyLimits): MediaFile {
  const mistake = inlineAudio(inline)
  if (mistake) throw toInvalidRequest(inside('input_audio', mistake))
  const { data, format } = inline as { data: string; format: string }
  const bytes = parseBase64(data, 'input_audio.data')
  const mediaType = mediaTypeOf(bytes) ?? `audio/${format.toLowerCase()}`
  return sound({ bytes, mediaType }, 'input_audio.data', limits)
}

/** @param fileOf called when everything else is valid */
function validated(
  body: object,
  policyOf: (policy: unknown) => Policy,
  fileOf: () => MediaFile,
): TranscriptionRequest {
  const mistake = transcriptionBody(body)
  if (mistake) throw toInvalidRequest(mistake)
  const { policy, ...others } = body as Record<string, unknown>
  const members = givenMembers(others) as Partial<TranscriptionRequest>
  const { response_format = 'json', known_speaker_references: references } = members
  if (members.stream && !STREAMED.has(response_format)) {
    throw new InvalidRequest(
      'unsupported_value',
      `Only json, text and diarized_json can be streamed, not ${response_format}.`,
      { param: 'response_format' },
    )
  }
  const sounds = (references ?? []) as readonly string[]
  sounds.forEach((url, index) => parseDataUrl(url, `known_speaker_references[${index}]`))
  return {
    ...members,
    model: members.model!,
    response_format,
    file: fileOf(),
    ...(policy !== undefined && { policy: policyOf(policy) }),
  }
}

const STREAMED: ReadonlySet<string> = new Set(['json', 'text', 'diarized_json'])

/** Media types that may hold sound. They are sent to vendors, so anything else is refused. */
const TYPES = /^(audio|video)\/[a-z0-9][\w.+-]{0,63}$/i

/** @throws InvalidRequest when the file is missing, empty, too large or no sound */
function sound(file: MediaFile | undefined, param: string, { audio }: BodyLimits): MediaFile {
  if (!file) throw toInvalidRequest(missing(param, (value) => wrongType(value, 'a sound file')))
  if (file.bytes.length > audio) throw fileTooLarge(param, audio)
  if (file.bytes.length > 0 && TYPES.test(file.mediaType)) return named(file)
  const actual = file.bytes.length === 0 ? 'an empty file' : 'something else'
  throw new InvalidRequest(
    'invalid_audio',
    `Invalid '${param}': expected sound (flac, mp3, mp4, mpeg, mpga, m4a, ogg, wav or webm), found ${actual}.`,
    { param },
  )
}

/** Gives a neutral name with the right extension: vendors go by it, and names of clients may be wrong or private. */
function named({ bytes, mediaType, filename }: MediaFile): MediaFile {
  const ending = extensionOf(mediaType) || (/\.[a-z0-9]{2,5}$/i.exec(filename ?? '')?.[0] ?? '')
  return { bytes, mediaType, filename: `audio${ending}` }
}
