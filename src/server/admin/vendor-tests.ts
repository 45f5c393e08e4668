/** Tests of vendors, search engines, sinks and models. They are an operator's own, and no account is charged. */
import { withOwnKey } from '../../config/managed.ts'
import { readPriceFiles } from '../../config/price-files.ts'
import { isLinkLocal } from '../../errors/addresses.ts'
import {
  ConfigError,
  connectionText,
  InvalidRequest,
  NotPossible,
  TooManyRequests,
  UpstreamFailure,
} from '../../errors/errors.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import { loadProvider, loadSearch, loadSink } from '../../gateway/loader.ts'
import { checkEntry, manageableOf, withOption } from '../../gateway/manageable.ts'
import { hasMoved, sealedNames } from '../../gateway/managed-document.ts'
import { packageVersion } from '../../gateway/version.ts'
import { inTime } from '../../lifetime/scope.ts'
import type { Model } from '../../models/catalog.ts'
import { formatPico, priceUsage, type Pico, type UsageLine } from '../../money/money.ts'
import { quantitiesOf } from '../../observe/record.ts'
import { scrub } from '../../observe/vendor-message.ts'
import type { Host, OfferedModel, Provider, Usage } from '../../plugin.ts'
import { requestId } from '../../state/ids.ts'
import { Egress, type EgressSettings } from '../../upstream/egress.ts'
import { createHost } from '../../upstream/host.ts'
import { note } from './audit.ts'
import { draft, modelTest, type Draft, type OfferAnswer } from './resources/managed.ts'
import {
  bodyOf,
  incomingOf,
  missing,
  needs,
  read,
  type AdminRequest,
  type Answer,
  type Routes,
} from './route.ts'

export const vendorTestRoutes: Routes = {
  '/providers/test': { POST: needs('config', testProvider) },
  '/providers/offers': { POST: needs('config', listOffers) },
  '/engines/test': { POST: needs('config', testEngine) },
  '/sinks/test': { POST: needs('config', testSink) },
  '/models/:id/test': { POST: needs('config', testModel) },
}

const LIMIT_MS = 15_000
const MINUTE_MS = 60_000
const MOST_A_MINUTE = 20
const MOST_MODELS = 5000
const NO_TEST = 'This vendor can be tested by a call only: add a model and test it.'

type Tested = keyof typeof PLACES

/** Where the entries of each kind are in the configuration. */
const PLACES = {
  providers: (request: AdminRequest) => request.runtime.config.providers,
  engines: (request: AdminRequest) => request.runtime.config.search.engines,
  // One without a name in the configuration has that of its plugin, and is found by what it uses, too.
  sinks: ({ runtime: { config, sinks } }: AdminRequest) =>
    Object.fromEntries(
      config.sinks.flatMap((sink, index) => {
        const names = sink.name === undefined ? [sink.use, sinks?.names.get(index)] : [sink.name]
        return names.flatMap((name) => (name === undefined ? [] : [[name, sink] as const]))
      }),
    ),
}

interface Subject {
  readonly name: string
  readonly use: unknown
  readonly options: Readonly<Record<string, unknown>>
  readonly egress?: EgressSettings | undefined
}

async function testProvider(request: AdminRequest): Promise<Answer> {
  const subject = await subjectOf(request, 'providers')
  return trial(request, `provider:${subject.name}`, async (signal) => {
    const models = await withProvider(request, subject, (provider) => modelsOf(provider, signal))
    return models === undefined
      ? { ok: null, message: NO_TEST, models: [] }
      : { ok: true, message: null, models: models.map(({ id }) => id) }
  })
}

/** The vendor's models, each with what a price list says of it and the entries that serve it. */
async function listOffers(request: AdminRequest): Promise<Answer> {
  const { runtime, gateway } = request
  const subject = await subjectOf(request, 'providers')
  const { body } = await trial(request, `provider:${subject.name}`, async (signal) => {
    const models = await withProvider(request, subject, (provider) => modelsOf(provider, signal))
    return { ok: true, models }
  })
  const { ok, models, ...failed } = body.data as { ok: boolean; models?: OfferedModel[] }
  if (!ok) return { body: { data: [], listed: false, ...failed } }
  const { prices } = runtime.config
  const { models: listed } = await readPriceFiles(
    gateway.loaded.directory,
    (path) => path,
    prices.packaged,
  )
  const served = runtime.catalog.at().all()
  const vendor = (await vendorName(subject)) ?? subject.name
  const data = (models ?? []).map((offer): OfferAnswer => {
    const row = listed[`${vendor}/${offer.id}`]
    return {
      id: `${subject.name}/${offer.id}`,
      model: offer.id,
      name: offer.name ?? row?.name ?? null,
      modality: offer.modality ?? row?.modality ?? null,
      context_length: offer.contextLength ?? row?.context_length ?? null,
      pricing: row?.pricing ?? null,
      price_source: row ? { from: row.source ?? null, checked_at: row.checked_at ?? null } : null,
      capabilities: offer.capabilities ?? row?.capabilities ?? null,
      served_as: served
        .filter(({ deployments }) =>
          deployments.some((one) => one.provider === subject.name && one.model === offer.id),
        )
        .map(({ id }) => id),
    }
  })
  return { body: { data, listed: models !== undefined } }
}

/** The vendor of an entry in the price list: the name of its `use`, where that is one. */
async function vendorName({ use }: Subject): Promise<string | undefined> {
  const plugin = typeof use === 'string' ? await manageableOf('providers', use) : undefined
  return plugin && plugin.name !== plugin.plugin ? plugin.name : undefined
}

async function testEngine(request: AdminRequest): Promise<Answer> {
  const subject = await subjectOf(request, 'engines')
  return trial(request, `engine:${subject.name}`, (signal) =>
    withHost(request, subject, async (createHost, source) => {
      const { engine } = await loadSearch(subject.name, subject, { ...source, createHost })
      try {
        const query = { maxResults: 1, maxCharacters: 500, includeDomains: [], excludeDomains: [] }
        const { results } = await engine.search({ text: () => 'weather', ...query }, signal)
        return { ok: true, message: `${results.length} results` }
      } finally {
        await engine.close?.()
      }
    }),
  )
}

/** Sends one alert of the kind `test`. */
async function testSink(request: AdminRequest): Promise<Answer> {
  const subject = await subjectOf(request, 'sinks')
  const { runtime } = request
  return trial(request, `sink:${subject.name}`, (signal) =>
    withHost(request, subject, async (createHost, source) => {
      const telemetry = { ...runtime.config.telemetry, providers: {}, version: packageVersion() }
      const hostOf = (name: string, options: unknown) => ({
        ...createHost(name, options),
        telemetry,
      })
      const settings = { ...subject, use: String(subject.use), name: subject.name }
      const { sink } = await loadSink(0, settings, { ...source, createHost: hostOf })
      try {
        if (!sink.takes.includes('alert')) {
          return { ok: null, message: 'It takes no alerts: the next call that ends tests it.' }
        }
        const id = requestId()
        const data = { id, kind: 'test', object: '', state: 'raised' as const, message: 'A test.' }
        const at = new Date().toISOString()
        const sent = await sink.send(
          [{ id, event: 'alert', at, gateway: runtime.gatewayId, data }],
          signal,
        )
        const isRefused = (sent?.refused ?? 0) > 0
        return { ok: !isRefused, message: isRefused ? 'The receiver refused the event.' : null }
      } finally {
        await sink.close?.()
      }
    }),
  )
}

// Tests of models: one smallest call

async function testModel(request: AdminRequest): Promise<Answer> {
  const { runtime, id } = request
  const { deployment } = read(modelTest, await bodyOf(request))
  const catalog = runtime.catalog.at()
  const model = catalog.find(id) ?? missing('model', id)
  const deployments = model.deployments.filter(
    (one) => deployment === undefined || one.id === deployment,
  )
  if (deployments.length === 0) missing('deployment', deployment ?? '')
  const own = {
    ...model,
    deployments: deployments.slice(0, deployment === undefined ? undefined : 1),
  }
  if (!['chat', 'embedding', 'rerank', 'moderation'].includes(model.modality)) {
    throw new NotPossible(
      `A model of the kind ${model.modality} is not tested here. Use the playground.`,
    )
  }
  const began = { at: Date.now(), ms: performance.now() }
  let made: Smallest | undefined
  const answer = await trial(request, `model:${model.id}`, async (signal, beganAt) => {
    made = await smallestCall(request, own, signal)
    return {
      ok: true,
      message: null,
      first_part_ms: Math.round(performance.now() - beganAt),
      deployment: made.deployment,
      usage: made.lines.map(({ usage }) => usage),
      cost_usd: formatPico(costOf(made)),
      class: null,
    }
  })
  remember(request, own, began, made)
  return answer
}

interface Smallest {
  readonly lines: readonly UsageLine[]
  /** The deployment that was asked. */
  readonly deployment: string
}

const costOf = ({ lines }: Smallest): Pico =>
  lines.reduce((sum, line) => sum + priceUsage([line]).cost, 0n)

/** Writes a test of a model into the request log, as a call that no account has made. */
function remember(
  { runtime }: AdminRequest,
  { id: model, deployments }: Model,
  began: { readonly at: number; readonly ms: number },
  made: Smallest | undefined,
): void {
  const total_ms = Math.round(performance.now() - began.ms)
  runtime.metrics.operatorCalled(made ? 'ok' : 'failed')
  if (made) runtime.metrics.guard.spent('operator', costOf(made))
  const usage = made?.lines[0]?.usage
  runtime.requests?.add({
    id: requestId(),
    at: new Date(began.at).toISOString(),
    method: 'POST',
    endpoint: '/admin/models/:id/test',
    origin: 'test',
    model,
    deployment: made?.deployment ?? deployments[0]!.id,
    status: made ? 200 : 502,
    outcome: made ? 'completed' : 'failed',
    times: { total_ms },
    usage: quantitiesOf(usage, undefined),
    ...(made && { cost_usd: formatPico(costOf(made)) }),
    gateway: runtime.gatewayId,
  })
}

async function smallestCall(
  request: AdminRequest,
  model: Model,
  signal: AbortSignal,
): Promise<Smallest> {
  const { runtime } = request
  const [first] = model.deployments
  if (model.modality === 'chat') {
    const lines: UsageLine[] = []
    const account = { id: 'operator', name: 'operator', disabled: false, revision: 0, createdAt: 0 }
    const incoming = incomingOf(request)
    // `route` tries the deployments of this model alone, also one that calls avoid.
    const catalog = { get: () => model }
    await runtime.internalChat(
      { id: requestId(), path: '/admin', incoming, runtime, catalog, account },
      {
        model: model.id,
        request: { messages: [{ role: 'user', content: 'Say hello.' }], max_completion_tokens: 64 },
        signal,
        book: (line) => void lines.push(line),
      },
    )
    return { lines, deployment: first!.id }
  }
  const provider = runtime.providers.get(first!.provider)!
  const common = {
    model: first!.model,
    options: first!.options,
    requestId: requestId(),
    signal,
    log: runtime.log,
  }
  const asks: Readonly<Record<string, () => Promise<{ readonly usage?: Usage }>>> = {
    embedding: () =>
      provider.embed!({ ...common, input: { input: ['hello'], encoding_format: 'float' } }),
    rerank: () => provider.rerank!({ ...common, input: { query: 'hello', documents: ['hello'] } }),
    moderation: () => provider.moderate!({ ...common, input: { input: ['hello'] } }),
  }
  const { usage = { promptTokens: 1, estimated: true } } = await asks[model.modality]!()
  return { lines: [{ source: 'model', usage, prices: model.prices }], deployment: first!.id }
}

// What is tested, and how

/** An entry in force, a draft, or a draft over a managed entry, whose secrets it has while its address is the same. */
async function subjectOf(request: AdminRequest, section: Tested): Promise<Subject> {
  const wanted = read(draft, await bodyOf(request))
  const entries = PLACES[section](request)
  const name = wanted.name ?? wanted.use!
  const inForce = Object.hasOwn(entries, name) ? entries[name] : undefined
  if (wanted.use === undefined && wanted.options === undefined) {
    return { ...(inForce ?? missing(section.replace(/s$/, ''), name)), name }
  }
  const value = await draftOver(request, section, name, wanted)
  const issues = await checkEntry(section, name, value, async () => [])
  if (issues.length > 0) {
    const [{ path, message }] = issues as [(typeof issues)[number]]
    throw new InvalidRequest('invalid_value', `Invalid '${path}': ${message}.`, { param: path })
  }
  const whole = section === 'providers' ? withOwnKey(name, value, 'the draft') : value
  return { ...(whole as Subject), name }
}

async function draftOver(
  { gateway: { managed } }: AdminRequest,
  section: Tested,
  name: string,
  { use, options = {} }: Draft,
): Promise<Readonly<Record<string, unknown>>> {
  const sections = managed.sections[section]
  const stored = Object.hasOwn(sections, name) ? sections[name]!.value : undefined
  if (!stored) return { use, options }
  const opened = managed.opened(`${section}/${name}`, stored)
  const value = { use: use ?? opened.use, options: { ...(opened.options as object), ...options } }
  const { fields = [] } = (await manageableOf(section, value.use)) ?? {}
  const isMoved = hasMoved(value, opened, fields)
  let own: Readonly<Record<string, unknown>> = value.options
  for (const option of sealedNames(stored)) {
    const value = (options as Readonly<Record<string, unknown>>)[option]
    if (typeof value === 'string') continue
    const kept = (opened.options as Readonly<Record<string, unknown>>)[option]
    own = withOption(own, option, isMoved ? undefined : kept)
  }
  return { ...value, options: own }
}

/** The models that a vendor names; undefined where it cannot be asked. */
async function modelsOf(
  provider: Provider,
  signal: AbortSignal,
): Promise<readonly OfferedModel[] | undefined> {
  if (provider.models) return (await provider.models(signal)).slice(0, MOST_MODELS)
  if (!provider.logIn) return undefined
  await provider.logIn(signal)
  return []
}

function withProvider<Result>(
  request: AdminRequest,
  subject: Subject,
  use: (provider: Provider) => Promise<Result>,
): Promise<Result> {
  return withHost(request, subject, async (createHost, source) => {
    const { provider } = await loadProvider(subject.name, subject, { ...source, createHost })
    try {
      return await use(provider)
    } finally {
      await provider.close?.()
    }
  })
}

type Source = Pick<Parameters<typeof loadProvider>[2], 'directory'>

/** Runs a test with a host of its own, which is closed afterwards. */
async function withHost<Result>(
  { gateway: { loaded }, runtime }: AdminRequest,
  { name, egress }: Subject,
  use: (createHost: (name: string, options: unknown) => Host, source: Source) => Promise<Result>,
): Promise<Result> {
  const route = new Egress(loaded.config.egress, loaded.network).route(egress, isLinkLocal)
  const owner = {}
  const mask = (secrets: readonly string[]) => runtime.mask.use(secrets, owner)
  const limits = { timeoutMs: LIMIT_MS, firstPartTimeoutMs: LIMIT_MS, idleTimeoutMs: LIMIT_MS }
  const made = createHost(name, { ...limits, connections: 4 }, runtime.log, { mask, route })
  try {
    return await use(() => made.host, { directory: loaded.directory })
  } finally {
    await made.close().finally(() => mask([]))
  }
}

/** Tests of one gateway: when the last ones began, steady ms, and whether one is under way. */
const testsOf = new WeakMap<Gateway, { recent: number[]; isTesting: boolean }>()

/** Runs one test at a time, and answers with what came of it. */
async function trial(
  request: AdminRequest,
  object: string,
  test: (signal: AbortSignal, beganAt: number) => Promise<object>,
): Promise<Answer> {
  const beganAt = performance.now()
  const tests = testsOf.get(request.gateway) ?? { recent: [], isTesting: false }
  testsOf.set(request.gateway, tests)
  const recent = tests.recent.filter((at) => at > beganAt - MINUTE_MS)
  if (tests.isTesting || recent.length >= MOST_A_MINUTE) {
    const waitMs = tests.isTesting ? 1000 : recent[0]! + MINUTE_MS - beganAt
    throw new TooManyRequests('rate_limited', 'Tests run one at a time, and 20 a minute.', waitMs)
  }
  tests.recent = [...recent, beganAt]
  tests.isTesting = true
  const limit = new AbortController()
  try {
    const late = () => new Error(`there was no answer within ${LIMIT_MS / 1000} seconds`)
    const result = await inTime(test(limit.signal, beganAt), LIMIT_MS, late)
    return {
      body: { data: { ms: Math.round(performance.now() - beganAt), cause: null, ...result } },
    }
  } catch (error) {
    return {
      body: { data: { ms: Math.round(performance.now() - beganAt), ...failed(error, request) } },
    }
  } finally {
    limit.abort()
    tests.isTesting = false
    await note(request, { action: 'test', object, after: { tested: true } })
  }
}

/** A failure in the vendor's own words, without secrets, and why no connection came about. */
function failed(error: unknown, { runtime: { mask } }: AdminRequest): object {
  const clean = (text: string) => scrub(text, (raw) => mask.clean(raw))
  if (error instanceof ConfigError) {
    return {
      ok: false,
      message: clean(error.issues.map(({ message }) => message).join('; ')),
      cause: null,
    }
  }
  const { cause } = error as { readonly cause?: unknown }
  const failure = UpstreamFailure.is(error) ? error : UpstreamFailure.is(cause) ? cause : undefined
  const words = failure?.originalMessage ?? (error instanceof Error ? error.message : String(error))
  const connection = failure?.connection
  return {
    ok: false,
    message: clean(words),
    cause: connection ? mask.clean(connectionText(connection)) : null,
    class: failure?.failure ?? null,
    models: [],
  }
}
