/** Routes without a model: the gateway gives their answers itself. */
import { hash } from 'node:crypto'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip, zstdCompress } from 'node:zlib'
import type { Check } from '../../errors/checks.ts'
import { toErrorBody } from '../../errors/errors.ts'
import type { Call, Stage, WireFormat } from '../../pipeline/pipeline.ts'
import { feedOf } from '../../stream/flow.ts'
import { WholeWriter, type WholeBody } from '../shared/write.ts'
import type { Incoming } from '../../pipeline/http.ts'

export interface GetRoute {
  /** The form of its body, which makes it a POST route. The answer reads it. */
  readonly body?: Check
  /** The path, with `{name}` at its end where the rest, slashes included, is an argument. */
  readonly path: string
  readonly authenticated: boolean
  /** What caches may do with the answer, from the headers of the request. */
  readonly cacheControl: string | ((incoming: Incoming) => string)
  /** The request headers, in lower case, by which answers differ. */
  readonly vary?: string
  /** The JSON text of the answer, or a document that is the same for every client. */
  answer(call: Call): Answer | Promise<Answer>
}

type Answer = string | PublicDocument

export function formatOf({
  path,
  body,
  cacheControl,
  vary,
}: GetRoute): WireFormat<never, WholeBody> {
  return {
    path,
    ...(body && { body }),
    read: () => Promise.reject(new Error(`the answer of ${path} reads its body`)),
    write(call, out, done) {
      call.headers['cache-control'] =
        typeof cacheControl === 'string' ? cacheControl : cacheControl(call.incoming)
      if (vary !== undefined) call.headers['vary'] = vary
      return new WholeWriter<WholeBody>(call, out, done, ([body]) => body!)
    },
    writeError: (error) => {
      const { status, headers } = error
      return { status, headers, body: toErrorBody(error) }
    },
  }
}

export function answerOf(route: GetRoute): Stage {
  return {
    name: 'answer',
    async before(call) {
      const answer = await route.answer(call)
      const isDocument = answer instanceof PublicDocument
      const body = isDocument
        ? await documentBody(answer, call.incoming, route.vary)
        : { text: answer }
      call.source = feedOf([body])
    },
  }
}

// Documents that are the same for every client, such as the list of models: cached, compressed, sent only where they are new.

/** Smaller documents gain no packet by compression. */
const WORTHWHILE_BYTES = 1400
/** 21 ms for the list of 5,000 models; a higher quality saves nothing. */
const BROTLI_QUALITY = 5

const asBrotli = promisify(brotliCompress)
const CODINGS = {
  br: (bytes: Buffer) =>
    asBrotli(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY } }),
  zstd: promisify(zstdCompress) as (bytes: Buffer) => Promise<Buffer>,
  gzip: promisify(gzip) as (bytes: Buffer) => Promise<Buffer>,
}
type Coding = keyof typeof CODINGS

/** A JSON text with its tag. Each compressed form is made when it is first asked for, and kept. */
export class PublicDocument {
  /** A weak tag, because compressed forms have it too. */
  readonly etag: string
  readonly #bytes: Buffer
  readonly #compressed = new Map<Coding, Promise<Buffer>>()

  constructor(json: string) {
    this.#bytes = Buffer.from(json)
    this.etag = `W/"${hash('sha256', json).slice(0, 32)}"`
  }

  /** The smallest form that a client accepts. @param accepted the header `Accept-Encoding` */
  async for(accepted = ''): Promise<{ readonly bytes: Buffer; readonly coding?: Coding }> {
    const coding = this.#bytes.length < WORTHWHILE_BYTES ? undefined : bestCoding(accepted)
    if (coding === undefined) return { bytes: this.#bytes }
    let made = this.#compressed.get(coding)
    if (!made) {
      made = CODINGS[coding](this.#bytes)
      this.#compressed.set(coding, made)
      // It is tried again at the next request.
      made.catch(() => this.#compressed.delete(coding))
    }
    return { bytes: await made, coding }
  }
}

async function documentBody(
  document: PublicDocument,
  incoming: Incoming,
  vary: string | undefined,
): Promise<WholeBody> {
  const { etag } = document
  const headers = { etag, vary: vary ? `${vary}, accept-encoding` : 'accept-encoding' }
  if (hasIt(incoming.header('if-none-match'), etag)) return { status: 304, headers, text: '' }
  const { bytes, coding } = await document.for(incoming.header('accept-encoding'))
  return { text: bytes, headers: coding ? { ...headers, 'content-encoding': coding } : headers }
}

/** The coding that makes the smallest document, of those with the highest weight in `Accept-Encoding`. */
function bestCoding(accepted: string): Coding | undefined {
  const weights = new Map(
    accepted.split(',').map((item) => {
      const [name = '', ...parameters] = item.split(';').map((word) => word.trim().toLowerCase())
      const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2)
      return [name, weight === undefined ? 1 : Number(weight) || 0] as const
    }),
  )
  const weightOf = (coding: Coding) => weights.get(coding) ?? weights.get('*') ?? 0
  const [best] = (Object.keys(CODINGS) as Coding[]).toSorted((a, b) => weightOf(b) - weightOf(a))
  return weightOf(best!) > 0 ? best : undefined
}

/** @param tags the header `If-None-Match` */
function hasIt(tags: string | undefined, etag: string): boolean {
  if (tags === undefined) return false
  const opaque = (tag: string) => tag.trim().replace(/^W\//, '')
  return tags.trim() === '*' || tags.split(',').some((tag) => opaque(tag) === opaque(etag))
}
