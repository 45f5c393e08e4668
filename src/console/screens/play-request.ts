/** The request of the Playground's fields, and code that sends the same. Pure. */

export type Modality =
  | 'chat'
  | 'image'
  | 'ocr'
  | 'speech'
  | 'transcription'
  | 'embedding'
  | 'rerank'
  | 'moderation'

export interface PlayModel {
  readonly id: string
  readonly modality: Modality
  readonly capabilities: readonly string[] | null
}

export interface Attachment {
  readonly name: string
  readonly type: string
  readonly url: string
  readonly file: Blob
}

export interface Turn {
  readonly role: string
  readonly content: string
  /** The whole message, where it has more than its text. */
  readonly raw?: unknown
  readonly files?: readonly Attachment[]
  readonly refused?: boolean
}

/** All fields of the form; text as it was typed. */
export interface Draft {
  readonly text: string
  readonly system: string
  readonly files: readonly Attachment[]
  readonly temperature: string
  readonly topP: string
  readonly maxTokens: string
  readonly effort: string
  readonly tools: string
  readonly format: string
  readonly schema: string
  readonly policy: string
  readonly online: boolean
  readonly stream: boolean
  readonly count: string
  readonly size: string
  readonly voice: string
  readonly sound: string
  readonly language: string
  readonly documents: string
  /** Further members of the body, JSON. */
  readonly more: string
}

export const EMPTY: Draft = {
  text: '',
  system: '',
  files: [],
  temperature: '',
  topP: '',
  maxTokens: '',
  effort: '',
  tools: '',
  format: '',
  schema: '',
  policy: '',
  online: false,
  stream: true,
  count: '1',
  size: 'auto',
  voice: 'alloy',
  sound: 'mp3',
  language: '',
  documents: '',
  more: '',
}

export interface PlayRequest {
  readonly path: string
  readonly body: Readonly<Record<string, unknown>>
  /** The file of a form; the body's members stand beside it. */
  readonly upload?: Attachment
}

export class DraftError extends Error {
  readonly field: keyof Draft

  constructor(field: keyof Draft, message: string) {
    super(message)
    this.field = field
  }
}

/** @throws DraftError */
export function requestOf(model: PlayModel, draft: Draft, turns: readonly Turn[]): PlayRequest {
  const { body, ...made } = requestOfFields(model, draft, turns)
  if (draft.more.trim() === '') return { ...made, body }
  return { ...made, body: { ...body, ...(json(draft, 'more', 'Further members') as object) } }
}

/** The body of a call as fields: what no field has stands among the further members. */
export function draftOf(input: Readonly<Record<string, unknown>>): {
  readonly draft: Draft
  readonly turns: readonly Turn[]
} {
  const { model: _, stream, messages = [], ...more } = input
  const list = messages as readonly { readonly role: string; readonly content?: unknown }[]
  const last = list.at(-1)
  const isText = last?.role === 'user' && typeof last.content === 'string'
  const name = ['prompt', 'input', 'query'].find((one) => typeof more[one] === 'string') ?? ''
  const text = String((isText ? last.content : more[name]) ?? '')
  const others = Object.entries(more).filter(([member]) => member !== name)
  const rest = others.length === 0 ? '' : JSON.stringify(Object.fromEntries(others), undefined, 2)
  const turns = (isText ? list.slice(0, -1) : list).map((raw) => ({
    role: raw.role,
    content: typeof raw.content === 'string' ? raw.content : JSON.stringify(raw.content ?? raw),
    raw,
  }))
  return { draft: { ...EMPTY, text, stream: stream === true, more: rest }, turns }
}

function requestOfFields(model: PlayModel, draft: Draft, turns: readonly Turn[]): PlayRequest {
  const shared = {
    model: model.id,
    ...(draft.policy.trim() !== '' && { policy: json(draft, 'policy', 'A policy') }),
  }
  switch (model.modality) {
    case 'chat':
      return chatRequest(model, draft, turns, shared)
    case 'image':
      return imageRequest(draft, shared)
    case 'ocr':
      return { path: '/v1/ocr', body: { ...shared, document: documentOf(draft) } }
    case 'speech': {
      const voice = required(draft, 'voice', 'Name a voice.')
      const input = required(draft, 'text', 'Write what is to be said.')
      return {
        path: '/v1/audio/speech',
        body: { ...shared, input, voice, response_format: draft.sound },
      }
    }
    case 'transcription': {
      const [upload] = draft.files
      if (!upload) throw new DraftError('files', 'Choose a sound file.')
      const language = draft.language.trim()
      const body = { ...shared, ...(language && { language }), response_format: 'json' }
      return { path: '/v1/audio/transcriptions', body, upload }
    }
    case 'embedding':
      return {
        path: '/v1/embeddings',
        body: { ...shared, input: required(draft, 'text', 'Write a text.') },
      }
    case 'rerank': {
      const documents = draft.documents.split('\n').filter((line) => line.trim() !== '')
      if (documents.length === 0) throw new DraftError('documents', 'Write one document a line.')
      const query = required(draft, 'text', 'Write what is looked for.')
      return { path: '/v1/rerank', body: { ...shared, query, documents, return_documents: true } }
    }
    case 'moderation':
      return {
        path: '/v1/moderations',
        body: { ...shared, input: required(draft, 'text', 'Write a text.') },
      }
  }
}

function chatRequest(
  model: PlayModel,
  draft: Draft,
  turns: readonly Turn[],
  shared: object,
): PlayRequest {
  const isEmpty = draft.text.trim() === '' && draft.files.length === 0
  // A resent call may end with a picture or the result of a tool.
  if (isEmpty && !turns.at(-1)?.raw) throw new DraftError('text', 'Write a message.')
  const own = isEmpty ? [] : [{ role: 'user', content: draft.text, files: draft.files }]
  return {
    path: '/v1/chat/completions',
    body: {
      ...shared,
      ...(draft.online && { model: `${model.id}:online` }),
      messages: [
        ...(draft.system.trim() === '' ? [] : [{ role: 'system', content: draft.system }]),
        ...[...turns, ...own].map(messageOf),
      ],
      ...number(draft, 'temperature', 'temperature'),
      ...number(draft, 'topP', 'top_p'),
      ...number(draft, 'maxTokens', 'max_completion_tokens'),
      ...(draft.effort !== '' && { reasoning: { effort: draft.effort } }),
      ...(draft.tools.trim() !== '' && { tools: json(draft, 'tools', 'A list of tools') }),
      ...responseFormat(draft),
      ...(draft.stream && { stream: true, stream_options: { include_usage: true } }),
    },
  }
}

function responseFormat(draft: Draft): object {
  if (draft.format === '') return {}
  if (draft.format === 'json_object') return { response_format: { type: 'json_object' } }
  const schema = json(draft, 'schema', 'A schema')
  return {
    response_format: { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema } },
  }
}

function imageRequest(draft: Draft, shared: object): PlayRequest {
  const body = {
    ...shared,
    prompt: required(draft, 'text', 'Describe the picture.'),
    ...number(draft, 'count', 'n'),
    ...(draft.size.trim() !== '' && { size: draft.size.trim() }),
  }
  if (draft.files.length === 0) return { path: '/v1/images/generations', body }
  const images = draft.files.map(({ url }) => ({ image_url: url }))
  return { path: '/v1/images/edits', body: { ...body, images } }
}

function documentOf({ files }: Draft): object {
  const [file] = files
  if (!file) throw new DraftError('files', 'Choose a PDF or a picture.')
  if (file.type === 'application/pdf') {
    return { type: 'document_url', document_url: file.url, document_name: file.name }
  }
  return { type: 'image_url', image_url: file.url }
}

/** A message with pictures, PDFs and sound as the parts that chat has for them. */
function messageOf({ role, content, files = [], raw }: Turn): unknown {
  if (raw !== undefined) return raw
  if (files.length === 0) return { role, content }
  const parts = files.map(({ name, type, url }) => {
    if (type.startsWith('image/')) return { type: 'image_url', image_url: { url } }
    if (type.startsWith('audio/')) {
      const format = /mpeg|mp3/.test(type) ? 'mp3' : 'wav'
      return { type: 'input_audio', input_audio: { data: url.split(',')[1], format } }
    }
    return { type: 'file', file: { filename: name, file_data: url } }
  })
  return { role, content: [...(content === '' ? [] : [{ type: 'text', text: content }]), ...parts] }
}

function required(draft: Draft, field: 'text' | 'voice', message: string): string {
  if (draft[field].trim() === '') throw new DraftError(field, message)
  return draft[field]
}

function number(
  draft: Draft,
  field: 'temperature' | 'topP' | 'maxTokens' | 'count',
  name: string,
): object {
  const text = draft[field].trim()
  if (text === '') return {}
  const value = Number(text)
  if (!Number.isFinite(value)) throw new DraftError(field, 'This is not a number.')
  return { [name]: value }
}

function json(draft: Draft, field: 'tools' | 'schema' | 'policy' | 'more', what: string): unknown {
  try {
    return JSON.parse(draft[field])
  } catch (error) {
    throw new DraftError(field, `${what} is JSON: ${(error as Error).message}`)
  }
}

/** Paths with a method in OpenAI's SDK, and the method where it is not the path's words and `create`. */
const SDK: Readonly<Record<string, string | null>> = {
  '/v1/chat/completions': null,
  '/v1/images/generations': 'images.generate',
  '/v1/audio/speech': null,
  '/v1/embeddings': null,
  '/v1/moderations': null,
}
const EXTRA = ['policy']

/** The same request for a terminal. @param isWhole whether long data are not cut */
export function curlOf(
  { path, body, upload }: PlayRequest,
  origin: string,
  isWhole = false,
): string {
  const head = `curl ${origin}${path} \\\n  -H "Authorization: Bearer $API_KEY"`
  if (upload) {
    const fields = Object.entries(body).map(
      ([name, value]) => `-F ${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
    )
    return [head, `-F file=@${upload.name}`, ...fields].join(' \\\n  ')
  }
  const text = JSON.stringify(isWhole ? body : shortened(body), undefined, 2).replaceAll(
    "'",
    `'\\''`,
  )
  return `${head} \\\n  -H "Content-Type: application/json" \\\n  -d '${text}'`
}

/** The same request with OpenAI's SDK for Python; undefined where it has no method for it. */
export function sdkOf({ path, body }: PlayRequest, origin: string): string | undefined {
  if (!(path in SDK)) return undefined
  const method = SDK[path] ?? `${path.slice('/v1/'.length).replaceAll('/', '.')}.create`
  const all = Object.entries(shortened(body) as object)
  const extra = all.filter(([name]) => EXTRA.includes(name))
  const lines = all
    .filter(([name]) => !EXTRA.includes(name))
    .map(([name, value]) => `    ${name}=${python(value)},`)
  if (extra.length > 0) lines.push(`    extra_body=${python(Object.fromEntries(extra))},`)
  return [
    'import os',
    'from openai import OpenAI',
    '',
    `client = OpenAI(base_url="${origin}/v1", api_key=os.environ["API_KEY"])`,
    `answer = client.${method}(`,
    ...lines,
    ')',
  ].join('\n')
}

export function shortened(value: unknown): unknown {
  if (typeof value === 'string') return value.length > 4000 ? `${value.slice(0, 60)}…` : value
  if (Array.isArray(value)) return value.map(shortened)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, shortened(one)]))
}

function python(value: unknown): string {
  if (value === null || value === undefined) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (Array.isArray(value)) return `[${value.map(python).join(', ')}]`
  if (typeof value !== 'object') return JSON.stringify(value)
  const members = Object.entries(value).map(
    ([name, one]) => `${JSON.stringify(name)}: ${python(one)}`,
  )
  return `{${members.join(', ')}}`
}
