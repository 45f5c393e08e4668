/** `plugin record`: asks a real vendor or service once, and writes the answer as a case that the kit replays. */
import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { STATUS_CODES } from 'node:http'
import { isObject } from '../../errors/checks.ts'
import { UpstreamFailure } from '../../errors/errors.ts'
import { loadProvider } from '../../gateway/loader.ts'
import { findPlugin, type FoundPlugin } from '../../gateway/plugin-code.ts'
import { withDerivedMethods } from '../../guard/check.ts'
import type {
  GuardPlugin,
  Host,
  OpenAIUsage,
  ProviderPlugin,
  SearchPlugin,
  UpstreamResponse,
} from '../../plugin.ts'
import { placeIn } from '../../testing/code-frame.ts'
import { choicesIn } from '../../testing/compare.ts'
import { checkTexts, type GuardCase } from '../../testing/guard-cases.ts'
import { IsolatedHost, TestHost } from '../../testing/hosts.ts'
import { ProviderUnderTest } from '../../testing/provider-under-test.ts'
import { Patience, describeError } from '../../testing/report.ts'
import { toTestRequest } from '../../testing/requests.ts'
import { queryOf } from '../../testing/search-cases.ts'
import { parseHttp, type RecordedResponse } from '../../testing/transcripts.ts'
import { CommandError, type Arguments } from '../command.ts'
import { casesOf, fileOrName, liveOptions } from './test.ts'
import { flowOf } from '../../stream/flow.ts'
import { containsSecret, secretsIn } from '../../testing/secrets.ts'

interface Asking<P> {
  readonly plugin: P
  readonly directory: string
  readonly options: Readonly<Record<string, unknown>>
  readonly request: Readonly<Record<string, unknown>>
  readonly through: <H extends Host>(host: H) => H
}

interface Draft {
  readonly content: object
  readonly error?: unknown
}

const TIMEOUT_MS = 120_000

/** Asks once, and writes `<name>.http` and a draft of `<name>.json`. @throws CommandError; ConfigError */
export async function recordCase({ positionals, text }: Arguments): Promise<void> {
  const file = fileOrName(positionals[0] ?? '')
  const name = text.case ?? ''
  if (!/^[\w-]{1,60}$/.test(name)) {
    throw new CommandError('--case takes a name of letters, digits and hyphens, such as hello.', 2)
  }
  const folder = casesOf(file, text.cases)
  const [http, json] = ['http', 'json'].map((extension) => join(folder, `${name}.${extension}`))
  const there = [http!, json!].find((path) => existsSync(path))
  if (there) throw new CommandError(`${there} exists, and is not overwritten.`)
  const directory = dirname(file)
  const options = (await liveOptions(text.options, true, directory)) ?? {}
  const request = await readRequest(text.request)
  const found = await findPlugin(file, directory)
  const responses: RecordedResponse[] = []
  const asking = { directory, options, request }
  const { error } = await ask(found, { ...asking, through: (host) => recorded(host, responses) })
  const last = responses.at(-1)
  if (!last) throw new CommandError(`No answer came${error ? `: ${reasonOf(error)}` : ''}.`)
  const { http: bytes, removed } = cleaned(last, options)
  // What is expected is what the plugin makes of the answer without secrets.
  const answer = parseHttp(bytes, http!)
  const draft = await ask(found, { ...asking, through: (host) => answering(host, answer) })
  const content = `${JSON.stringify(draft.content, null, 2)}\n`
  if (showsSecret(content, options) || showsSecret(bytes.toString(), options)) {
    throw new CommandError('The answer holds parts of a secret option. Nothing was written.')
  }
  await mkdir(folder, { recursive: true })
  await writeFile(http!, bytes)
  await writeFile(json!, content)
  const notes = removed.map((what) => `  ${what}\n`)
  process.stdout.write(
    `Written: ${http} (${last.status}, ${last.body.length} bytes), ${json}\n` +
      (responses.length > 1 ? `Of ${responses.length} answers it is the last.\n` : '') +
      (notes.length > 0 ? `Replaced by [removed]:\n${notes.join('')}` : 'Nothing was removed.\n') +
      `Look at both before you publish them. Then: sluicegate plugin test ${positionals[0]}\n`,
  )
  if (draft.error === undefined || UpstreamFailure.is(draft.error)) return
  const place = placeIn(draft.error, directory).join('\n')
  const reason = describeError(draft.error)
  throw new CommandError(`The plugin could not read the answer: ${reason}\n${place}`)
}

function reasonOf(error: unknown): string {
  const { cause } = error as Error
  return [error, cause].filter(Boolean).map(describeError).join(', because of ')
}

async function ask(
  { kind, plugin }: FoundPlugin,
  asking: Omit<Asking<never>, 'plugin'>,
): Promise<Draft> {
  if (kind === 'provider') return askProvider({ ...asking, plugin })
  if (kind === 'search') return askSearch({ ...asking, plugin })
  if (kind === 'guard') return askGuard({ ...asking, plugin })
  throw new CommandError('A sink gets no answer that a case could hold.', 2)
}

async function askProvider(asking: Asking<ProviderPlugin>): Promise<Draft> {
  const { plugin, directory, options, request: document, through } = asking
  const { deployment, ...request } = document as { deployment?: Record<string, unknown> }
  const host = new IsolatedHost(undefined)
  const settings = { use: plugin, options }
  let body: unknown
  const watched = (inner: Host): Host => ({
    ...inner,
    request(one) {
      body = one.body
      return inner.request(one)
    },
  })
  const loaded = await loadProvider('provider', settings, {
    directory,
    secrets: new Set(),
    createHost: (name) => watched(through(host.hostOf(name))),
  })
  const attempt = { addressOption: undefined, options }
  const provider = new ProviderUnderTest(loaded, attempt, host, new Patience(TIMEOUT_MS))
  try {
    const transcript = { name: 'record', request, expect: {}, ...(deployment && { deployment }) }
    const outcome = await provider.outcome(await toTestRequest(loaded.plugin, transcript))
    const { completion, usage, error } = outcome
    const [first, ...others] = choicesIn(completion).map(saidIn)
    const expect = {
      ...(others.length > 0 ? { choices: [first, ...others] } : first),
      ...(usage && { usage: countsIn(usage) }),
      ...failureIn(error),
      ...sentIn(body, options),
    }
    const content = { request, ...(deployment && { deployment }), expect }
    return { content, error }
  } finally {
    await provider.close()
  }
}

async function askSearch({ plugin, options, request: query, through }: Asking<SearchPlugin>) {
  const host = new IsolatedHost(undefined)
  const client = new AbortController()
  try {
    const engine = await setUp(plugin, options, through(host.hostOf(plugin.name)))
    try {
      const { results, vendorCost } = await engine.search(queryOf(query), client.signal)
      return { content: { query, expect: { results, ...(vendorCost && { vendorCost }) } } }
    } catch (error) {
      return { content: { query, expect: failureIn(error) }, error }
    } finally {
      await engine.close?.()
    }
  } finally {
    await host.close()
  }
}

async function askGuard({ plugin, options, request, through }: Asking<GuardPlugin>) {
  const host = new TestHost(undefined, undefined)
  const one = { expect: 'pass', ...request } as unknown as GuardCase
  try {
    const made = await setUp(plugin, options, through(host.hostOf(plugin.name)))
    const guard = withDerivedMethods(made)
    const fixture = { seed: 0, timeoutMs: TIMEOUT_MS, plugin, guard, host, cases: [] }
    try {
      const [block] = await checkTexts(fixture as never, one, [one.text])
      const spans = block?.spans?.map(({ start, end }) => ({ start, end }))
      const draft = { ...request, expect: block?.rule ?? 'pass', ...(spans && { spans }) }
      return { content: { texts: [draft] } }
    } catch (error) {
      return { content: { texts: [one] }, error }
    } finally {
      await made.close?.()
    }
  } finally {
    await host.close()
  }
}

/** @throws CommandError for invalid options; what `setup` throws */
async function setUp<M>(
  { options: schema, setup }: { options: any; setup(options: any, host: any): M | Promise<M> },
  options: object,
  host: unknown,
): Promise<M> {
  const valid = await schema['~standard'].validate(options)
  if (!valid.issues) return setup(valid.value, host)
  const [{ message, path = [] }] = valid.issues
  const where = path.map((one: any) => one.key ?? one).join('.')
  throw new CommandError(`--options${where && `, ${where}`}: ${message}.`, 2)
}

function saidIn(choice: ReturnType<typeof choicesIn>[number]): object {
  const { finish_reason: end, tool_calls: calls } = choice
  const natural = calls.length > 0 ? 'tool_calls' : 'stop'
  const texts = Object.entries(choice).filter(
    ([name, value]) => name !== 'finish_reason' && name !== 'tool_calls' && value !== '',
  )
  return {
    ...Object.fromEntries(texts),
    ...(calls.length > 0 && { tool_calls: calls }),
    ...(end !== natural && end !== null && { finish_reason: end }),
  }
}

function countsIn(usage: OpenAIUsage): object {
  const kept = Object.entries(usage).flatMap(([name, value]) => {
    if (name === 'total_tokens' || value === null || value === 0) return []
    return [[name, isObject(value) ? countsIn(value) : value]]
  })
  return Object.fromEntries(kept)
}

function failureIn(error: unknown): object {
  if (!UpstreamFailure.is(error)) return {}
  const { failure, retryAfterMs } = error
  return { failure, ...(retryAfterMs !== undefined && { retry_after_ms: retryAfterMs }) }
}

/** The JSON body that the vendor got, unless it holds a secret of the options. */
function sentIn(body: unknown, options: object): { sent?: object } {
  if (typeof body !== 'string' || showsSecret(body, options)) return {}
  try {
    const sent: unknown = JSON.parse(body)
    return isObject(sent) ? { sent } : {}
  } catch {
    return {}
  }
}

async function readRequest(file: string | undefined): Promise<Record<string, unknown>> {
  if (file === undefined) {
    throw new CommandError('--request names a file with what to ask, as JSON.', 2)
  }
  try {
    const request: unknown = JSON.parse(await readFile(file, 'utf8'))
    if (isObject(request)) return request
  } catch {
    // Reported below.
  }
  throw new CommandError(`${basename(file)} is not a file with a JSON object.`, 2)
}

// Records the answers of a real vendor or service, without secrets and names of accounts, as files of a case.

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

function recorded<H extends Host>(host: H, responses: RecordedResponse[]): H {
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

function answering<H extends Host>(host: H, { status, headers, body }: RecordedResponse): H {
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
function cleaned({ status, headers, body }: RecordedResponse, options: unknown): CleanRecording {
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
function showsSecret(text: string, options: unknown): boolean {
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
