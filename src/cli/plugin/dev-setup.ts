/** The gateway of `plugin dev`: its configuration, and its sample calls. */
import { stat } from 'node:fs/promises'
import * as v from 'valibot'
import type { UserConfig } from '../../config/config.ts'
import type { FoundPlugin } from '../../gateway/plugin-code.ts'
import {
  defineProvider,
  type ChatChunk,
  type GuardPlugin,
  type ProviderPlugin,
  type SearchPlugin,
  type SinkPlugin,
} from '../../plugin.ts'
import {
  json,
  readGuardCases,
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
import { playSinkCases } from '../../testing/sink.ts'
import { traced, type TraceOptions } from '../../testing/traced.ts'
import { CommandError } from '../command.ts'

export interface DevSetup {
  readonly config: UserConfig
  readonly calls: readonly DevCall[]
  /** Plays cases that no call can show; called once it serves. */
  readonly play?: () => Promise<void>
  close(): Promise<void>
}

export interface DevCall {
  readonly name: string
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
    const asked = `${decodeURIComponent(path.replaceAll('+', ' '))} ${body.toString()}`
    const one = searchCases.find((other) => holds(asked, wordsOf(other))) ?? searchCases[0]!
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
  const { found, plugin, show, cases, live, trace, options: given, addressOption } = settings
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
      ...(given && { options: given }),
      ...(addressOption !== undefined && { addressOption }),
    })
  const calls = [{ name: 'a call, and an alert within a minute', body }]
  return { config: { ...ECHOING, sinks, alerts }, calls, play }
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
