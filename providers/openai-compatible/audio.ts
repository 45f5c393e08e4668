/** Speech and transcription for vendors with OpenAI's audio API. */
import type { FormField, Host, Provider, SpeechInput, UpstreamResponse } from '../../src/plugin.ts'
import type { AudioPath, AudioQuirks } from './audio-quirks.ts'
import { asSequence, notAnAnswer, parseAnswer, send } from '../shared/http.ts'
import { httpFailure, inbandFailure } from './errors.ts'
import { toTranscription, TranscriptEvents } from './transcript.ts'

/** URL, headers and quirks for requests to a model. */
interface AudioTarget {
  /** The complete URL, with any query. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly quirks: { readonly audio?: AudioQuirks }
}

/** Options of a deployment that matter here. */
interface Options {
  readonly omit?: readonly string[]
}

/**
 * The audio methods of a provider.
 * @param targetOf called for every request
 */
export function createAudio<Own extends Options>(
  host: Host,
  targetOf: (path: AudioPath, model: string, options: Own) => AudioTarget,
): Required<Pick<Provider, 'speech' | 'transcribe'>> {
  return {
    async speech({ input, model, options, signal }) {
      const own = options as Own
      const { url, headers, quirks } = targetOf('speech', model, own)
      const { audio = {} } = quirks
      const { response_format: format } = input
      if (audio.formats?.includes(format) === false) throw unsupportedFormat(host, format)
      const body = audio.toSpeech?.(input) ?? { model, ...pick(input, audio.speechMembers) }
      for (const name of own.omit ?? []) delete body[name]
      const response = await send(
        host,
        {
          url,
          headers: { ...headers, accept: '*/*' },
          body: JSON.stringify(body),
          signal,
          stream: true,
        },
        httpFailure,
      )
      return isText(response) ? soundIn(response, host) : { bytes: response.body }
    },

    async transcribe({ input, model, options, signal }) {
      const own = options as Own
      const { url, headers, quirks } = targetOf('transcriptions', model, own)
      const { audio = {} } = quirks
      const { file, ...rest } = input
      const fields = audio.toFields?.(input) ?? { model, ...pick(rest, audio.transcriptionMembers) }
      for (const name of own.omit ?? []) delete fields[name]
      const { bytes, mediaType, filename = 'audio' } = file
      // The file comes last, as some vendors require.
      const { contentType, body } = host.form([
        ...toFields(fields, audio.bareLists ? '' : '[]'),
        { name: 'file', value: { bytes, mediaType, filename } },
      ])
      const response = await send(
        host,
        {
          url,
          headers: { ...headers, 'content-type': contentType },
          body,
          signal,
          stream: input.stream === true,
        },
        httpFailure,
      )
      return transcriptionIn(response, host)
    },
  }
}

/** Events, an object, or plain text, which some servers always answer with. */
async function transcriptionIn(response: UpstreamResponse, host: Host) {
  const type = response.headers['content-type'] ?? ''
  if (type.includes('event-stream')) {
    return host.sse(response.body).through(new TranscriptEvents(host.fail))
  }
  const text = await response.text()
  if (type.startsWith('text/plain') && !/^\s*\{/.test(text)) return { text: text.trim() }
  return toTranscription(Object(parseAnswer(text, host.fail)), host.fail)
}

/** The known members, or all when none are listed. */
function pick(input: object, known: ReadonlySet<string> | undefined): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(input).filter(([name, value]) => {
      return value !== undefined && (!known || known.has(name))
    }),
  )
}

/** Form fields as OpenAI's SDKs write them: `name[]` per item, `name[member]` per member. */
function toFields(members: Readonly<Record<string, unknown>>, list: '[]' | ''): FormField[] {
  return Object.entries(members).flatMap(([name, value]) => {
    if (Array.isArray(value)) {
      return value.map((item) => ({ name: `${name}${list}`, value: toText(item) }))
    }
    if (typeof value !== 'object' || value === null) return [{ name, value: toText(value) }]
    return Object.entries(value).map(([member, inner]) => ({
      name: `${name}[${member}]`,
      value: toText(inner),
    }))
  })
}

function toText(value: unknown): string {
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

function isText({ headers }: UpstreamResponse): boolean {
  return /^(text\/|application\/json)/.test(headers['content-type'] ?? '')
}

/** The sound in a JSON answer, which some vendors send. */
async function soundIn(response: UpstreamResponse, host: Host) {
  const payload = Object(parseAnswer(await response.text(), host.fail))
  const failed = inbandFailure(host.fail, payload)
  if (failed) throw failed.error
  if (typeof payload.audio_data !== 'string') throw notAnAnswer(host.fail)
  return { bytes: asSequence([Buffer.from(payload.audio_data, 'base64')]) }
}

function unsupportedFormat(host: Host, format: SpeechInput['response_format']): Error {
  return host.fail(
    'bad_request',
    `The model cannot make sound in the format ${format}. Ask for another response_format.`,
    { code: 'unsupported_value', param: 'response_format' },
  )
}
