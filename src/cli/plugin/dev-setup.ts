/** The gateway of `plugin dev`: its configuration, and its sample calls. */
import { stat } from 'node:fs/promises'
import * as v from 'valibot'
import { AsyncLocalStorage } from 'node:async_hooks'
import type { UserConfig } from '../../config/config.ts'
import type { FoundPlugin, AnyPlugin } from '../../gateway/plugin-code.ts'
import {
  defineProvider,
  type ChatChunk,
  type GuardPlugin,
  type PaymentsPlugin,
  type ProviderPlugin,
  type SearchPlugin,
  type SinkPlugin,
  type CheckProgress,
  type Flow,
  type GuardHost,
  type OutputCheck,
  type TextItem,
  type UpstreamRequest,
} from '../../plugin.ts'
import {
  json,
  readGuardCases,
  readPaymentsCases,
  readSearchCases,
  readSinkCases,
  readTranscripts,
  startUpstream,
  type FakeResponse,
  type FakeUpstream,
  type ReceivedRequest,
  type RecordedResponse,
} from '../../testing.ts'
import { optionsWithAddress } from '../../testing/set-up.ts'
import { WORDS } from '../../testing/search-cases.ts'
import { playPaymentsCases } from '../../testing/payments.ts'
import { readSigner } from '../../testing/plugin-job.ts'
import { playSinkCases } from '../../testing/sink.ts'
import { CommandError } from '../command.ts'
import { UpstreamFailure } from '../../errors/errors.ts'
import { toFlow } from '../../stream/flow.ts'
import { placeIn } from '../../testing/code-frame.ts'
import { describeError } from '../../testing/report.ts'
import { redactSecrets } from '../../testing/secrets.ts'

export interface DevSetup {
  readonly config: UserConfig
  readonly calls: readonly DevCall[]
  /** Plays cases that no call can show; called once it serves. */
  readonly play?: () => Promise<void>
  close(): Promise<void>
}

export interface DevCall {
  readonly name: string
  /** That of chats by default. */
  readonly path?: string
  readonly body: object
}

interface DevSettings {
  readonly found: FoundPlugin
  readonly cases: string
  /** Whether the real vendor is asked, with the options as they are. */
  readonly live: boolean
  readonly options: Readonly<Record<string, unknown>> | undefined
  readonly addressOption: string | undefined
  readonly secret: string
  readonly trace: Omit<TraceOptions, 'instance' | 'withHost'>
  readonly show: (line: string) => void
}

const KEY = 'key-of-plugin-dev'
const FREE = { prompt: '0', completion: '0' }
const ECHO = 'echo/words'
/** A model that repeats its input, a word at a time. */
const echo = defineProvider({
  name: 'echo',
  options: v.object({}),
  setup: () => ({
    chat: async ({ input: { messages } }) => {
      const question = messages.findLast(({ role }) => role === 'user')?.content
      return words(typeof question === 'string' ? question : 'Hello.')
    },
  }),
})
const ECHOING: UserConfig = {
  providers: { echo: { use: echo } },
  models: { [ECHO]: { pricing: FREE, deployments: [{ provider: 'echo', model: 'words' }] } },
}
const nameOf = (text: string) => text.toLowerCase().replaceAll(/[^a-z\d]+/g, '-')

/** Starts the services of the plugin, and describes the gateway. @throws CommandError without cases; ConfigError */
export async function setUpDev(settings: DevSettings): Promise<DevSetup> {
  const upstreams: FakeUpstream[] = []
  const close = async () => void (await Promise.all(upstreams.map((one) => one.close())))
  const optionsFor: OptionsFor = async (answer) => {
    const { options = {}, addressOption, live, found } = settings
    if (live) return options
    const upstream = await startUpstream()
    upstreams.push(upstream)
    upstream.answer(answer)
    const setup = {
      ...(settings.options && { options }),
      ...(addressOption !== undefined && { addressOption }),
    }
    return (await optionsWithAddress(found.plugin, setup, upstream.url, KEY)).given
  }
  try {
    const { config, policy, ...rest } = await setUp(settings, optionsFor)
    return { config: { ...config, ...seedOf(settings.secret, policy) }, ...rest, close }
  } catch (error) {
    await close()
    throw error
  }
}

type Answer = (request: ReceivedRequest) => FakeResponse
type OptionsFor = (answer: Answer) => Promise<Readonly<Record<string, unknown>>>
type SettingsOf<P> = DevSettings & { readonly plugin: P }

interface Described extends Pick<DevSetup, 'config' | 'calls' | 'play'> {
  readonly policy?: object
}

function setUp(settings: DevSettings, optionsFor: OptionsFor): Promise<Described> {
  const { found } = settings
  switch (found.kind) {
    case 'provider':
      return setUpProvider({ ...settings, plugin: found.plugin }, optionsFor)
    case 'guard':
      return setUpGuard({ ...settings, plugin: found.plugin }, optionsFor)
    case 'search':
      return setUpSearch({ ...settings, plugin: found.plugin }, optionsFor)
    case 'sink':
      return setUpSink({ ...settings, plugin: found.plugin }, optionsFor)
    case 'payments':
      return setUpPayments({ ...settings, plugin: found.plugin }, optionsFor)
  }
}

/** Each case has a model, whose vendor answers as the case says. */
async function setUpProvider(
  { plugin, cases, live, trace }: SettingsOf<ProviderPlugin>,
  optionsFor: OptionsFor,
) {
  const transcripts = await readTranscripts(await existing(cases))
  const { name } = plugin
  const providers: NonNullable<UserConfig['providers']> = {}
  const models: Record<string, any> = {}
  const calls: DevCall[] = []
  for (const { name: on, request, deployment, answer } of transcripts) {
    const provider = live ? name : `${name}-${nameOf(on)}`
    const use = traced(plugin, { ...trace, instance: provider })
    const options = await optionsFor(() => responseOf(answer))
    if (!Object.hasOwn(providers, provider)) providers[provider] = { use, options }
    const model = `${name}/${nameOf(on)}`
    const upstream = String(request.model ?? 'test-model')
    models[model] = {
      pricing: FREE,
      deployments: [{ provider, model: upstream, ...(deployment && { options: deployment }) }],
    }
    calls.push({ name: on, body: { ...request, model } })
  }
  return { config: { providers, models }, calls }
}

/** The service, and every model that the guard asks, answers as the case with the text does. */
async function setUpGuard(
  { plugin, cases, trace }: SettingsOf<GuardPlugin>,
  optionsFor: OptionsFor,
) {
  const texts = await readGuardCases(await existing(cases))
  const aboutText = (question: string) => texts.find(({ text }) => holds(question, text))
  const options = await optionsFor(({ body }) => responseOf(aboutText(body.toString())?.answer))
  const withHost = (host: any) => ({
    ...host,
    async askModel(model: string, request: unknown, context: unknown) {
      const content = aboutText(JSON.stringify(request))?.model
      if (content === undefined) return host.askModel(model, request, context)
      const message = { role: 'assistant', content }
      return { choices: [{ index: 0, message, finish_reason: 'stop' }] }
    },
  })
  const use = traced(plugin, { ...trace, instance: plugin.name, withHost })
  const deny = [...new Set(texts.flatMap(({ rules }) => rules?.deny ?? []))]
  const scope = texts.flatMap(({ rules }) => rules?.scopes ?? [])[0]
  const calls = texts.map(({ text, name }) => ({
    name: name!,
    body: { model: ECHO, messages: [{ role: 'user', content: text }] },
  }))
  return {
    config: {
      ...ECHOING,
      guards: { use: [{ use, options, applies: 'always' as const, billing: 'operator' as const }] },
    },
    policy: { version: 1, ...(deny.length > 0 && { deny }), ...(scope && { scope }) },
    calls,
  }
}

/** The service answers as the case with the same words does, else as the first. */
async function setUpSearch(
  { plugin, cases, trace }: SettingsOf<SearchPlugin>,
  optionsFor: OptionsFor,
) {
  const searchCases = await readSearchCases(await existing(cases))
  const wordsOf = (one: (typeof searchCases)[number]) => one.query?.text ?? WORDS
  const options = await optionsFor(({ path, body }) => {
    const requestText = `${decodeURIComponent(path.replaceAll('+', ' '))} ${body.toString()}`
    const one = searchCases.find((other) => holds(requestText, wordsOf(other))) ?? searchCases[0]!
    return responseOf(one.answer as RecordedResponse)
  })
  const { name } = plugin
  const use = traced(plugin, { ...trace, instance: name })
  const calls = searchCases.map((one) => ({
    name: one.name,
    body: { model: `${ECHO}:online`, messages: [{ role: 'user', content: wordsOf(one) }] },
  }))
  const engine = { use, options, price: '0' }
  return { config: { ...ECHOING, search: { engines: { [name]: engine } } }, calls }
}

/**
 * Sends the events of the cases at once. The receiver of the gateway shows what it gets: the account has less than
 * the alert asks for, which raises one within a minute of its first call.
 */
async function setUpSink(settings: SettingsOf<SinkPlugin>, optionsFor: OptionsFor) {
  const { found, plugin, show, cases, live, trace, options: userOptions, addressOption } = settings
  const options = await optionsFor(({ method, path, body }) => {
    show(`the receiver got ${method} ${path}\n  ${body.toString().slice(0, 2000)}\n`)
    return json({})
  })
  const body = { model: ECHO, messages: [{ role: 'user', content: 'Say hello.' }] }
  const sinks = [{ use: found.file, options }]
  const alerts = { balance: '2000' }
  const sinkCases = live ? [] : await readSinkCases(cases).catch(() => [])
  const sink = traced(plugin, { ...trace, instance: plugin.name })
  const play = () =>
    playSinkCases(sink, sinkCases, {
      ...(userOptions && { options: userOptions }),
      ...(addressOption !== undefined && { addressOption }),
    })
  const calls = [{ name: 'a call, and an alert within a minute', body }]
  return { config: { ...ECHOING, sinks, alerts }, calls, play }
}

/** The provider answers as the cases do: a question for the page of a case, and everything else as the first order. */
async function setUpPayments(settings: SettingsOf<PaymentsPlugin>, optionsFor: OptionsFor) {
  const { plugin, show, cases, live, trace, options: userOptions, addressOption } = settings
  const paymentsCases = await readPaymentsCases(await existing(cases))
  const sign = await readSigner(cases)
  const options = await optionsFor(({ method, path, body }) => {
    show(`the provider got ${method} ${path}\n  ${body.toString().slice(0, 2000)}\n`)
    const page = paymentsCases.find(({ find }) => find !== undefined && holds(path, find))
    return responseOf((page ?? paymentsCases.find(({ order }) => order))?.answer)
  })
  const use = traced(plugin, { ...trace, instance: plugin.name })
  const play = async () => {
    if (live) return
    await playPaymentsCases(use, paymentsCases, sign, {
      ...(userOptions && { options: userOptions }),
      ...(addressOption !== undefined && { addressOption }),
    })
  }
  const server = { publicUrl: 'http://localhost:8787' }
  const calls = [{ name: 'an order', path: '/v1/key/checkout', body: { usd: '25' } }]
  return { config: { ...ECHOING, server, payments: { use, options } }, calls, play }
}

function seedOf(secret: string, policy?: object): UserConfig {
  const key = { id: 'key_dev', name: 'plugin dev', secret, ...(policy && { policy }) }
  const account = { id: 'dev', name: 'plugin dev', credits: '1000', keys: [key as never] }
  return { seed: { accounts: [account] } }
}

async function* words(text: string): AsyncIterable<ChatChunk> {
  const pieces = text.match(/\s*\S+\s*$|\s*\S+/g) ?? []
  for (const content of pieces) yield { choices: [{ index: 0, delta: { content } }] }
  const usage = { prompt_tokens: pieces.length, completion_tokens: pieces.length }
  yield { choices: [{ index: 0, finish_reason: 'stop' }], usage }
}

async function existing(folder: string): Promise<string> {
  if ((await stat(folder).catch(() => undefined))?.isDirectory()) return folder
  throw new CommandError(`There are no cases in ${folder}; write one, or name them with --cases.`)
}

function holds(request: string, text: string): boolean {
  return request.includes(text) || request.includes(JSON.stringify(text).slice(1, -1))
}

function responseOf(answer: RecordedResponse | undefined): FakeResponse {
  if (!answer) return json({ error: { message: 'no case answers this' } }, 500)
  const { status, headers, body } = answer
  return { status, headers, pieces: [body] }
}

// Shows an author the calls, requests and answers of a plugin: a wrapper of the plugin.

export interface TracedCall {
  readonly title: string
  readonly lines: readonly string[]
  readonly end: string
}

interface TraceOptions {
  readonly instance: string
  readonly folder: string
  readonly secrets: readonly string[]
  readonly stack: boolean
  readonly show: (call: TracedCall) => void
  readonly withHost?: (host: any) => any
}

const MAX_CHARACTERS = 500
const MAX_LINES = 40
/** Members that answer no question. */
const UNTRACED = new Set(['close', 'takes', 'asks', 'questions', 'logIn', 'models'])

const current = new AsyncLocalStorage<Trace>()

function traced<P extends AnyPlugin>(plugin: P, options: TraceOptions): P {
  return {
    ...plugin,
    async setup(valid: any, host: any) {
      const made = await plugin.setup(valid, tracedHost(options.withHost?.(host) ?? host) as never)
      return tracedMethods(made, (name) => new Trace(name, options))
    },
  }
}

class Trace {
  readonly #method: string
  readonly #options: TraceOptions
  readonly #lines: string[] = []
  readonly #begun = performance.now()
  #omitted = 0
  #ended = false
  #works = ''
  #exchange = ''
  #events = 0

  constructor(method: string, options: TraceOptions) {
    this.#method = method
    this.#options = options
  }

  /** The meaning of an answer without a value. */
  get nothing(): string {
    return this.#method === 'send' ? 'nothing: all has arrived' : 'nothing: it passes'
  }

  note(what: string, value: unknown): void {
    if (this.#lines.length < MAX_LINES) this.#lines.push(`${what.padEnd(5)} ${this.#shown(value)}`)
    else this.#omitted++
  }

  sent({ method = 'POST', url, body }: UpstreamRequest): void {
    const { pathname } = new URL(url)
    this.#exchange = `${method} ${pathname}`
    const text = typeof body === 'string' ? body : body ? 'bytes' : ''
    this.note('sent', `${method} ${url} ${text}`)
  }

  came(status: number, type = 'no content-type'): void {
    this.#exchange += ` ${status}`
    this.note('came', `${status} ${type}`)
  }

  event(value: unknown): void {
    this.#events++
    this.#works = `event ${this.#events}: ${this.#shown(value)}`
    this.note('event', value)
  }

  ended(): void {
    this.#end('ended')
  }

  givenUp(): void {
    this.#end('given up')
  }

  failed(error: unknown): void {
    if (UpstreamFailure.is(error)) {
      const { retryAfterMs: wait } = error
      const again = wait === undefined ? '' : `, to be asked again in ${wait / 1000} s`
      return this.#end(`failed: ${describeError(error)}${again}`)
    }
    const { folder, stack, instance } = this.#options
    const where = [this.#exchange, this.#works].filter(Boolean)
    const lines = [
      `plugin ${instance}, ${this.#method}: ${describeError(error)}`,
      ...placeIn(error, folder, stack),
      ...where.map((text) => `    ${text}`),
    ]
    this.#end(lines.join('\n'))
  }

  #end(how: string): void {
    if (this.#ended) return
    this.#ended = true
    const omitted = this.#omitted > 0 ? [`      ${this.#omitted} more`] : []
    const took = `${Math.round(performance.now() - this.#begun)} ms`
    const { instance, secrets, show } = this.#options
    show({
      title: `${instance}, ${this.#method}`,
      lines: [...this.#lines, ...omitted],
      end: redactSecrets(how.includes('\n') ? how : `${how}, ${took}`, secrets),
    })
  }

  #shown(value: unknown): string {
    const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value))
    const hidden = redactSecrets(text.slice(0, 2 * MAX_CHARACTERS), this.#options.secrets)
    return hidden.length > MAX_CHARACTERS ? `${hidden.slice(0, MAX_CHARACTERS)}…` : hidden
  }
}

function tracedMethods<T extends object>(made: T, begin: (name: string) => Trace): T {
  return new Proxy(made, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name)
      if (typeof member !== 'function') return member
      if (typeof name !== 'string' || UNTRACED.has(name)) return member.bind(target)
      return (...args: unknown[]) =>
        tracedCall(begin(name), () => Reflect.apply(member, target, args), args)
    },
  })
}

/** Calls, and shows the result: at once, later, or part by part. */
function tracedCall(trace: Trace, run: () => unknown, args: readonly unknown[]): unknown {
  const [first] = args as [{ input?: unknown; signal?: AbortSignal }]
  const item = (args[1] as { item?: TextItem } | undefined)?.item
  if (item) trace.note('of', `the ${item.side}, ${item.id}`)
  trace.note('got', questionIn(first))
  const second = args[1] as AbortSignal | { signal?: AbortSignal } | undefined
  const signal = first?.signal ?? (second instanceof AbortSignal ? second : second?.signal)
  try {
    const answer = current.run(trace, run)
    if (answer instanceof Promise || isCheck(answer)) {
      signal?.addEventListener('abort', () => trace.givenUp(), { once: true })
    }
    if (!(answer instanceof Promise)) return tracedAnswer(trace, answer)
    return answer.then(
      (value) => tracedAnswer(trace, value),
      (error: unknown) => {
        trace.failed(error)
        throw error
      },
    )
  } catch (error) {
    trace.failed(error)
    throw error
  }
}

/** The input of a request, the text of items, of a question or of a webhook, or the name of its kind. */
function questionIn(first: any): unknown {
  if (first?.input) return first.input
  if (first?.body instanceof Uint8Array) return Buffer.from(first.body).toString()
  if (typeof first?.text === 'function') return first.text(MAX_CHARACTERS)
  return Array.isArray(first) ? first.map((one) => one?.text ?? one) : first
}

function tracedAnswer(trace: Trace, answer: unknown): unknown {
  if (isSequence(answer)) {
    return toFlow(answer).through({
      push(part, emit) {
        trace.note('gave', part)
        emit(part)
      },
      end: () => trace.ended(),
      fail(error) {
        trace.failed(error)
        return error
      },
    })
  }
  if (isCheck(answer)) return tracedCheck(trace, answer)
  trace.note('gave', answer ?? trace.nothing)
  trace.ended()
  return answer
}

/** The check of a text that grows: its pieces are shown together. */
function tracedCheck(trace: Trace, check: OutputCheck): OutputCheck {
  const ask = (what: string, text: string, run: () => ReturnType<OutputCheck['end']>) => {
    trace.note(what, text)
    const seen = (progress: CheckProgress) => {
      trace.note('gave', progress)
      if (what === 'end' || progress?.verdict) trace.ended()
      return progress
    }
    try {
      const answer = current.run(trace, run)
      if (!(answer instanceof Promise)) return seen(answer as CheckProgress)
      return answer.then(seen, (error: unknown) => {
        trace.failed(error)
        throw error
      })
    } catch (error) {
      trace.failed(error)
      throw error
    }
  }
  return {
    push: (text) => ask('push', text, () => check.push(text)),
    end: () => ask('end', '', () => check.end()),
  }
}

function isCheck(answer: unknown): answer is OutputCheck {
  const { push, end } = (answer ?? {}) as Partial<OutputCheck>
  return typeof push === 'function' && typeof end === 'function'
}

/** The host, whose requests and answers are part of the call that makes them. */
function tracedHost(host: GuardHost): GuardHost {
  const observed = (flow: Flow<any>): Flow<any> => {
    const trace = current.getStore()
    if (!trace) return flow
    return flow.through({
      push(part, emit) {
        trace.event(part)
        emit(part)
      },
    })
  }
  return {
    ...host,
    async request(request) {
      const trace = current.getStore()
      trace?.sent(request)
      const response = await host.request(request)
      trace?.came(response.status, response.headers['content-type'])
      return response
    },
    async readJson(response, options) {
      const value: unknown = await host.readJson(response, options)
      current.getStore()?.event(value)
      return value
    },
    sse: (body) => observed(host.sse(body)),
    lines: (body: AsyncIterable<Uint8Array>, options?: any) => observed(host.lines(body, options)),
    async askModel(model, request, context) {
      const trace = current.getStore()
      trace?.note('asks', { model, ...request })
      const answer = await host.askModel(model, request, context)
      trace?.event(answer)
      return answer
    },
  }
}

function isSequence(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value
}
