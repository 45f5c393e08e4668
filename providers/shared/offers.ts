/** The lists in which vendors name their models: asking for them, page by page, and reading their rows. */
import type { Host, OfferedModel, UpstreamResponse } from '../../src/plugin.ts'
import { send, tryParse, type HttpFailure } from './http.ts'

/** Largest answer that is read. */
const MAX_BYTES = 4 * 1024 * 1024
/** Models of one vendor that are read. */
const MAX_MODELS = 5000
/** Pages of a list that are asked for. */
export const MAX_PAGES = 20
/** Questions about single models at once. */
const AT_ONCE = 8

type Row = Readonly<Record<string, any>>

/** Where a list of models is, and how to read it. */
interface ListRequest {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly httpFailure: HttpFailure
  readonly signal: AbortSignal
}

/**
 * One page of a list.
 * @throws the failure of the vendor; `upstream_error` for what is no JSON, and for more than 4 MiB
 */
export async function listPage(host: Host, request: ListRequest): Promise<Row> {
  const { url, headers, signal, httpFailure } = request
  const { 'content-type': _, ...own } = headers
  const pageRequest = { url, method: 'GET', headers: own, signal }
  const response = await send(host, pageRequest, httpFailure)
  return pageOf(host, response)
}

/** An answer as an object. @throws `upstream_error` for what is no JSON, and for more than 4 MiB */
export async function pageOf(host: Host, response: UpstreamResponse): Promise<Row> {
  const page: unknown = tryParse(await response.text(MAX_BYTES))
  if (typeof page === 'object' && page !== null) return page
  throw notAList(host)
}

/** The failure for an answer that is no list of models. */
export function notAList(host: Host): Error {
  const cause = new Error('the answer is not a list of models in JSON')
  return host.fail('upstream_error', 'The model provider sent no list of models.', { cause })
}

/** The models of all pages. @param next the address of the page after this one */
export async function listPages(
  host: Host,
  request: ListRequest,
  read: (page: Row) => readonly (OfferedModel | undefined)[],
  next: (page: Row) => string | undefined,
): Promise<readonly OfferedModel[]> {
  const models: OfferedModel[] = []
  let url: string | undefined = request.url
  for (let page = 0; url !== undefined && page < MAX_PAGES && models.length < MAX_MODELS; page++) {
    const content: Row = await listPage(host, { ...request, url })
    for (const model of read(content)) if (model) models.push(model)
    url = next(content)
  }
  return models.slice(0, MAX_MODELS)
}

/** The rows of a list in OpenAI's form, or of a bare one. @throws `upstream_error` where there are none */
export function rowsOf(host: Host, page: Row): readonly Row[] {
  const rows = Array.isArray(page) ? page : (page.data ?? page.models)
  if (!Array.isArray(rows)) throw notAList(host)
  return rows.filter((row) => typeof row === 'object' && row !== null)
}

/** Names of members with the tokens that a model reads. Servers and resellers add one of them. */
const WINDOWS = [
  'context_length',
  'context_window',
  'max_context_length',
  'max_model_len',
  'max_input_tokens',
  'inputTokenLimit',
]

/** A row with `id`, as OpenAI, its imitators and Anthropic have it; undefined for one without a name. */
export function offerOf(row: Row): OfferedModel | undefined {
  const { id, name, display_name: title = name, created } = row
  if (typeof id !== 'string' || !isName(id)) return undefined
  const window = WINDOWS.map((member) => row[member]).find(isCount)
  return {
    id,
    ...(typeof title === 'string' && title !== id && { name: title }),
    ...(window !== undefined && { contextLength: window }),
    ...(isCount(created) && { createdAt: created }),
  }
}

/** Whether a text can be the name of a model in a call. */
export function isName(text: unknown): text is string {
  return typeof text === 'string' && /^\S{1,200}$/.test(text)
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0
}

/** `Provider.models` of a service with `GET /models` in OpenAI's form. */
export function openAIModels(
  host: Host,
  { url, headers, httpFailure }: Omit<ListRequest, 'signal'>,
): (signal: AbortSignal) => Promise<readonly OfferedModel[]> {
  return (signal) =>
    listPages(
      host,
      { url, headers, httpFailure, signal },
      (page) => rowsOf(host, page).map(offerOf),
      () => undefined,
    )
}

// Ollama: what it has pulled, and what each of these models can do.

/** The capabilities of a model, by Ollama's words for them. */
const OLLAMA_WORDS = { tools: 'TOOLS', vision: 'VISION', thinking: 'REASONING' } as const

/** `Provider.models` of an Ollama. @param base the address of its API in OpenAI's form */
export function ollamaModels(
  host: Host,
  base: string,
  { headers, httpFailure }: Pick<ListRequest, 'headers' | 'httpFailure'>,
): (signal: AbortSignal) => Promise<readonly OfferedModel[]> {
  const root = base.replace(/\/v1\/*$/, '')
  /** The rows by name and digest, which stands for one content. */
  let cached = new Map<string, Row>()
  const details = async (name: string, signal: AbortSignal): Promise<Row> => {
    const body = JSON.stringify({ model: name })
    const showRequest = { url: `${root}/api/show`, headers, body, signal }
    return pageOf(host, await send(host, showRequest, httpFailure))
  }
  return async (signal) => {
    const request = { url: `${root}/api/tags`, headers, httpFailure, signal }
    const tags = rowsOf(host, await listPage(host, request))
      .filter(({ name }) => isName(name))
      .slice(0, MAX_MODELS)
    const rows = new Map<string, Row>()
    for (let at = 0; at < tags.length; at += AT_ONCE) {
      await Promise.all(
        tags.slice(at, at + AT_ONCE).map(async ({ name, digest }) => {
          const key = `${name} ${digest}`
          const before = digest === undefined ? undefined : cached.get(key)
          const row = before ?? (await details(name, signal).catch(() => undefined))
          if (row) rows.set(key, row)
        }),
      )
      signal.throwIfAborted()
    }
    cached = rows
    return tags.map(({ name, digest }) => shown(name, rows.get(`${name} ${digest}`) ?? {}))
  }
}

/** Older servers tell nothing of what a model can do. */
function shown(name: string, { capabilities, model_info: details = {} }: Row): OfferedModel {
  const words: readonly string[] = Array.isArray(capabilities) ? capabilities : []
  const [, window] =
    Object.entries(Object(details)).find(([member]) => member.endsWith('.context_length')) ?? []
  const able = Object.entries(OLLAMA_WORDS).filter(([word]) => words.includes(word))
  const isEmbedding = words.includes('embedding') && !words.includes('completion')
  return {
    id: name.replace(/:latest$/, ''),
    ...(words.length > 0 && { modality: isEmbedding ? 'embedding' : 'chat' }),
    ...(isCount(window) && { contextLength: window }),
    ...(words.length > 0 &&
      !isEmbedding && { capabilities: ['STREAMING', ...able.map(([, one]) => one)] }),
  }
}
