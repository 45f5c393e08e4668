/**
 * Transcripts: a request, the response of the vendor, and the expected answer. On disk a transcript is two files:
 * `<name>.json` with the request and the expectation, `<name>.http` with the response as `curl --include` prints it.
 * Without the second file the provider has to answer without a request to a vendor.
 */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import * as v from 'valibot'
import { ConfigError, FAILURE_CLASSES } from '../errors/errors.ts'
import { toConfigIssues } from '../errors/issues.ts'
import type { FailureClass, OpenAIUsage } from '../plugin.ts'

export interface Transcript {
  readonly name: string
  /** A chat request as clients send it. Its `model` is the name at the vendor, by default `test-model`. */
  readonly request: Readonly<Record<string, unknown>>
  readonly deployment?: Readonly<Record<string, unknown>>
  readonly answer?: RecordedResponse
  readonly expect: Expected
}

export interface RecordedResponse {
  readonly status: number
  /** Names are in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
}

/** The expected content of one choice. Absent members have to be absent in the answer. */
export interface ExpectedChoice {
  readonly text?: string
  readonly refusal?: string
  readonly reasoning?: string
  /** Arguments that are an object are compared as JSON, those that are text exactly. */
  readonly tool_calls?: readonly {
    /** The vendor's id of the call, where it gives one. */
    readonly id?: string
    readonly name: string
    readonly arguments: unknown
  }[]
  /** Default: `stop`, or `tool_calls` if there are tool calls; null after a failure. */
  readonly finish_reason?: string | null
}

export interface Expected extends ExpectedChoice {
  /** The choices of an answer with several, instead of the members above. */
  readonly choices?: readonly ExpectedChoice[]
  /** Absent counts have to be 0. When absent, no usage may be reported. */
  readonly usage?: OpenAIUsage
  /** Members that the request body for the vendor has to contain. */
  readonly sent?: Readonly<Record<string, unknown>>
  /** Class of the failure with which the answer ends, after the content above. */
  readonly failure?: FailureClass
  /** Wait in ms that the failure has to report. */
  readonly retry_after_ms?: number
  /** The answer is a list of models, and has these names; nothing else is expected of it. */
  readonly models?: readonly string[]
}

const text = v.string('a text')
const count = v.pipe(v.number('a count'), v.integer(), v.minValue(0))
const counts = v.record(v.string(), count)
const choiceMembers = {
  text: v.optional(text),
  refusal: v.optional(text),
  reasoning: v.optional(text),
  tool_calls: v.optional(
    v.array(v.strictObject({ id: v.optional(text), name: text, arguments: v.unknown() })),
  ),
  finish_reason: v.optional(text),
}
const file = v.strictObject({
  request: v.looseObject({}),
  deployment: v.optional(v.looseObject({})),
  expect: v.strictObject({
    ...choiceMembers,
    choices: v.optional(v.array(v.strictObject(choiceMembers))),
    usage: v.optional(
      v.looseObject({
        prompt_tokens: count,
        completion_tokens: count,
        prompt_tokens_details: v.optional(counts),
        completion_tokens_details: v.optional(counts),
      }),
    ),
    sent: v.optional(v.looseObject({})),
    failure: v.optional(v.picklist(FAILURE_CLASSES)),
    retry_after_ms: v.optional(count),
    models: v.optional(v.array(text)),
  }),
})

/** The transcripts of a folder, sorted by name. @throws ConfigError that names the file and the mistake */
export async function readTranscripts(folder: string): Promise<Transcript[]> {
  const files = new Set(await filesOf(folder))
  const names = [...files].filter((name) => name.endsWith('.json')).map((name) => name.slice(0, -5))
  const lonely = [...files].find(
    (name) => name.endsWith('.http') && !names.includes(name.slice(0, -5)),
  )
  if (lonely) {
    const message = `it has no request; write ${lonely.slice(0, -5)}.json next to it`
    throw new ConfigError(folder, [{ path: lonely, message }])
  }
  if (names.length === 0) {
    const message =
      'the folder has no transcripts; expected pairs such as hello.json and hello.http'
    throw new ConfigError(folder, [{ path: '.', message }])
  }
  return Promise.all(
    names.toSorted().map(async (name) => {
      const transcript = await readExpectation(join(folder, `${name}.json`))
      if (!files.has(`${name}.http`)) return { name, ...transcript }
      const path = join(folder, `${name}.http`)
      return { name, ...transcript, answer: parseHttp(await readFile(path), path) }
    }),
  )
}

/**
 * Reads a response as `curl --include` prints it: status line, headers, an empty line, body. Interim responses and those of
 * proxies are skipped, headers about the connection dropped.
 * @param path the path of the file, for messages
 * @throws ConfigError
 */
export function parseHttp(bytes: Uint8Array, path: string): RecordedResponse {
  const latin = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')
  for (let start = 0; ;) {
    const head = HEAD.exec(latin.slice(start))
    if (!head) {
      const message = 'expected a status line such as "HTTP/1.1 200 OK", headers, an empty line'
      throw new ConfigError(path, [{ path: 'head', message }])
    }
    start += head[0].length
    const status = Number(head[1])
    if (status < 200 || head[2]!.toLowerCase().startsWith('connection established')) continue
    return { status, headers: headersIn(head[3]!), body: bytes.subarray(start) }
  }
}

const HEAD = /^HTTP\/[\d.]+ (\d{3}) ?([^\r\n]*)\r?\n((?:[^\r\n]+\r?\n)*)\r?\n/
const CONNECTION_HEADERS = new Set([
  'connection',
  'content-encoding',
  'content-length',
  'keep-alive',
  'transfer-encoding',
])

function headersIn(lines: string): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const line of lines.split(/\r?\n/)) {
    const colon = line.indexOf(':')
    const name = line.slice(0, Math.max(0, colon)).trim().toLowerCase()
    if (name && !CONNECTION_HEADERS.has(name)) headers[name] = line.slice(colon + 1).trim()
  }
  return headers
}

async function filesOf(folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch {
    throw new ConfigError(folder, [{ path: '.', message: 'the folder does not exist' }])
  }
}

async function readExpectation(path: string) {
  const parsed = parse(await readFile(path, 'utf8'), path)
  const result = v.safeParse(file, parsed)
  if (result.success) return result.output
  throw new ConfigError(path, toConfigIssues(result.issues, { path: [], value: parsed }, file))
}

function parse(json: string, path: string): unknown {
  try {
    return JSON.parse(json)
  } catch (error) {
    throw new ConfigError(path, [{ path: '.', message: (error as Error).message }])
  }
}
