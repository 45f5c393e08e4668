/** Records the answers of a real vendor or service, without secrets and names of accounts, as files of a case. */
import { STATUS_CODES } from 'node:http'
import type { Host, UpstreamResponse } from '../plugin.ts'
import { flowOf } from '../stream/flow.ts'
import { containsSecret, secretsIn } from './secrets.ts'
import type { RecordedResponse } from './transcripts.ts'

interface CleanRecording {
  /** The response as `curl --include` prints it. */
  readonly http: Buffer
  /** Descriptions of the replaced texts, for the author: kinds and places, not the values. */
  readonly removed: readonly string[]
}

const REMOVED = '[removed]'
const PRIVATE_HEADER =
  /cookie|authorization|organi[sz]ation|account|project|tenant|secret|email|(?:^|-)user(?:-|$)|(?:^|-)key$|(?:access|auth|session|security)-token/
const TEXT = /^(?:text\/|application\/(?:[\w.-]*\+)?(?:json|x-ndjson|jsonl|x-jsonl|xml)|$)/
/** Names of vendors for an account, in bodies. Each keeps its first group. */
const PRIVATE_TEXTS: readonly (readonly [what: string, pattern: RegExp])[] = [
  [
    'a member with the name of an account',
    /("(?:account|account_?id|organi[sz]ation|organi[sz]ation_?id|org_?id|project|project_?id|tenant_?id|user|user_?id|user_?name|email)"\s*:\s*")(?!\[removed\])[^"]+/gi,
  ],
  ['the name of an account', /\b(?:org|acct|proj|user)[-_][A-Za-z\d]{6,}/g],
  ['an address of mail', /[\w.+-]+@[\w-]+(?:\.[\w-]+)+/g],
  ['a key', /\b(?:sk|pk|key)-[\w-]{12,}|\bBearer [\w.~+/-]{8,}=*/g],
]
/** A text this long without a space is no word and no name of a model. */
const SECRET_LOOK = /^(?!https?:)[^\s/]{20,}$/

export function recorded<H extends Host>(host: H, responses: RecordedResponse[]): H {
  return {
    ...host,
    async request(request) {
      const response = await host.request(request)
      const { status, headers } = response
      const pieces: Uint8Array[] = []
      responses.push({
        status,
        headers,
        get body() {
          return Buffer.concat(pieces)
        },
      })
      return keeping(response, pieces)
    },
  }
}

export function answering<H extends Host>(host: H, { status, headers, body }: RecordedResponse): H {
  return {
    ...host,
    async request() {
      const text = async () => Buffer.from(body).toString()
      return { status, headers, body: flowOf(body), text }
    },
  }
}

function keeping(response: UpstreamResponse, pieces: Uint8Array[]): UpstreamResponse {
  const { status, headers } = response
  return {
    status,
    headers,
    get body() {
      return response.body.through<Uint8Array>({
        push(bytes, emit) {
          pieces.push(Uint8Array.from(bytes))
          emit(bytes)
        },
      })
    },
    async text(limit) {
      const text = await response.text(limit)
      pieces.push(Buffer.from(text))
      return text
    },
  }
}

/**
 * A response as a file, without the secrets of options, names of accounts and cookies.
 * @throws Error for a body that is no text and holds a secret
 */
export function cleaned(
  { status, headers, body }: RecordedResponse,
  options: unknown,
): CleanRecording {
  const removed = new Set<string>()
  const secrets = secretTexts(options)
  const clean = (text: string, where: string): string => {
    let kept = text
    for (const secret of secrets) {
      for (const form of [secret, encodeURIComponent(secret)]) {
        if (!kept.includes(form)) continue
        removed.add(`the value of an option, in ${where}`)
        kept = kept.replaceAll(form, REMOVED)
      }
    }
    for (const [what, pattern] of PRIVATE_TEXTS) {
      kept = kept.replaceAll(pattern, (_, begin: unknown) => {
        removed.add(`${what}, in ${where}`)
        return `${typeof begin === 'string' ? begin : ''}${REMOVED}`
      })
    }
    return kept
  }
  const lines = Object.entries(headers).map(([name, value]) => {
    if (!PRIVATE_HEADER.test(name)) return `${name}: ${clean(value, `the header ${name}`)}`
    removed.add(`the header ${name}`)
    return `${name}: ${REMOVED}`
  })
  const head = [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`.trim(), ...lines].join('\n')
  const isText = TEXT.test((headers['content-type'] ?? '').split(';')[0]!.trim().toLowerCase())
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.length)
  if (!isText && secrets.some((secret) => bytes.includes(secret))) {
    throw new Error('the answer is no text, and holds the value of an option: nothing was written')
  }
  const cleanBody = isText ? Buffer.from(clean(bytes.toString(), 'the body')) : bytes
  return { http: Buffer.concat([Buffer.from(`${head}\n\n`), cleanBody]), removed: [...removed] }
}

/** Whether a text shows what {@link cleaned} removes of options, or enough of it to identify it. */
export function showsSecret(text: string, options: unknown): boolean {
  return containsSecret(text, secretTexts(options))
}

function secretTexts(options: unknown): string[] {
  return [...new Set([...secretsIn(options), ...likeSecrets(options)])]
}

function likeSecrets(options: unknown): string[] {
  if (typeof options === 'string') return SECRET_LOOK.test(options) ? [options] : []
  if (typeof options !== 'object' || options === null) return []
  return Object.values(options).flatMap(likeSecrets)
}
