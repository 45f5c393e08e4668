/** What needs an operator: one line for each object, of the worst kind, made from alerts, health and the calls of the last hours. */
import type { DirectoryView } from '../../accounts/directory.ts'
import type { Team } from '../../accounts/stored.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import type { Model } from '../../models/catalog.ts'
import { usdJson } from '../../money/money.ts'
import { FAULTS } from '../../observe/metrics.ts'
import type { LogQuery } from '../../observe/log/query.ts'
import type { KnownCall } from '../../observe/record.ts'
import type { UsageIndex } from '../../observe/usage/usage.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { alertView, type AlertAnswer, type AlertRecord, type Subject } from './resources/alert.ts'
import type { Figure, Harm, Incident, IncidentAct, IncidentPart } from './resources/overview.ts'
import { moment, momentOrNull } from './resources/settings.ts'

/** Harm by kind of an alert; the others are `degraded`. */
const HARMS: Readonly<Record<string, Harm>> = {
  ...of('errors', 'model.down balance.empty cap.100 ledger.down egress.down'),
  ...of('errors', 'price_list.missing managed.invalid'),
  ...of('soon', 'balance.low cap.80 key.expiring price.changed seed.differs payment.unmatched'),
}
const ORDER: readonly Harm[] = ['errors', 'degraded', 'soon']
/** What mends a kind of alert; the others are looked at with the gateways. */
const ACTS: Readonly<Record<string, IncidentAct>> = {
  balance: 'top_up',
  cap: 'raise',
  key: 'extend',
  price_list: 'account',
  egress: 'alerts',
  sink: 'alerts',
  guard: 'guard',
  managed: 'entry',
  payment: 'payment',
  seed: 'account',
  price: 'model',
}
const HOUR_MS = 3_600_000
const QUARTER_MS = 900_000
/** Most calls of each kind that are read from the log. Where there are more, the span of all figures is shorter. */
const MOST_CALLS = 1000
/** Share of failed calls, of at least so many, from which on a model is degraded. */
const SHARE = 0.2
const LEAST_CALLS = 5
/** How guards ended calls whose policy does not let them pass one that cannot look. */
const UNGUARDED = 'error'
/** Attempts that are not a failure of the deployment. */
const NO_FAILURE: ReadonlySet<string> = new Set([
  'ok',
  'cancelled',
  'bad_request',
  'context_length',
  'content_blocked',
  'payload_too_large',
])

/** Most lines of an answer. */
const MOST_LINES = 100

type Draft = Pick<Incident, 'kind' | 'harm' | 'object' | 'cause' | 'since' | 'act' | 'calls'> &
  Partial<Pick<Incident, 'class' | 'parts' | 'last_success'>>

/** @returns the worst lines, and how many there are in all */
export async function incidentsOf(
  gateway: Gateway,
  now: number,
): Promise<{ readonly incidents: readonly Incident[]; readonly incidents_total: number }> {
  const { runtime } = gateway
  const lately = await Lately.read(gateway, now)
  const failing = Map.groupBy(lately.failed, ({ model }) => model)
  const { models, others } = alertsOf(gateway)
  const names = await namesOf(runtime, others)
  const drafts: Draft[] = others.map((alert) => ofAlert(gateway, alert, lately, names))
  for (const model of runtime.catalog.at().all()) {
    const [failed = [], alerts = []] = [failing.get(model.id), models.get(model.id)]
    const draft = await ofModel(gateway, model, { failed, alerts }, lately)
    if (draft) drafts.push(draft)
  }
  const worst = new Map<string, Draft>()
  for (const draft of drafts.toSorted(compare)) {
    const id = idOf(draft)
    if (!worst.has(id)) worst.set(id, draft)
  }
  const lines = [...worst].slice(0, MOST_LINES)
  const empty = lines.flatMap(([, { kind, object }]) =>
    kind.startsWith('balance.') ? object.id : [],
  )
  const totals = await runtime.ledger.balances(empty).catch(() => [])
  const balances = new Map(totals.map(({ balance }, i) => [empty[i], { usd: usdJson(balance) }]))
  const incidents = lines.map(([id, draft]) => ({
    id,
    class: null,
    parts: [],
    last_success: null,
    ...draft,
    object: {
      ...draft.object,
      ...(draft.kind.startsWith('balance.') && balances.get(draft.object.id)),
    },
    page: 'operate/alerts',
  }))
  return { incidents, incidents_total: worst.size }
}

/** The active alerts on models that are served, by model, and all others. */
function alertsOf({ runtime: { alerts, catalog } }: Gateway) {
  const ofModels = alerts.active.filter(({ kind }) => OF_MODELS.has(kind))
  const models = new Map<string, AlertRecord[]>()
  const served = new Set<AlertRecord>()
  if (ofModels.length > 0) {
    for (const { id, deployments } of catalog.at().all()) {
      const own = ofModels.filter(({ kind, object }) =>
        kind === 'deployment.down' ? deployments.some((one) => one.id === object) : object === id,
      )
      if (own.length > 0) models.set(id, own)
      for (const alert of own) served.add(alert)
    }
  }
  return { models, others: alerts.active.filter((alert) => !served.has(alert)) }
}

const idOf = ({ object: { kind, id } }: Draft) => `${kind}:${id}`

function compare(one: Draft, other: Draft): number {
  return (
    ORDER.indexOf(one.harm) - ORDER.indexOf(other.harm) ||
    Number(other.calls?.value ?? 0) - Number(one.calls?.value ?? 0) ||
    Date.parse(one.since) - Date.parse(other.since)
  )
}

function of<Value>(value: Value, names: string): Readonly<Record<string, Value>> {
  return Object.fromEntries(names.split(' ').map((name) => [name, value]))
}

// The calls of the last hours that failed or were refused by a limit, and their figures.

class Lately {
  readonly from: number
  readonly to: number
  /** The newest first. */
  readonly failed: readonly KnownCall[]
  readonly #limited: readonly KnownCall[]
  /** Those that were refused because a guard could not look. */
  readonly #unguarded: readonly KnownCall[]
  /** Calls by model since the same moment; undefined where they are not counted from there. */
  readonly #calls: ReadonlyMap<string, number> | undefined

  private constructor(
    span: { readonly from: number; readonly to: number },
    [failed, limited, unguarded]: readonly (readonly KnownCall[])[],
    calls: ReadonlyMap<string, number> | undefined,
  ) {
    this.from = span.from
    this.to = span.to
    const isIn = ({ at }: KnownCall) => Date.parse(at) >= span.from
    this.failed = failed!.filter(isIn)
    this.#unguarded = unguarded!.filter(isIn)
    this.#limited = limited!.filter(isIn)
    this.#calls = calls
  }

  /** The span begins with a whole hour, because calls are counted by the hour. */
  static async read({ runtime: { requests, usage } }: Gateway, now: number): Promise<Lately> {
    const begin = Math.floor((now - HOUR_MS) / HOUR_MS) * HOUR_MS
    const page = async (query: Partial<LogQuery>) => {
      const read = { filters: {}, from: begin, limit: MOST_CALLS, ...query }
      return await requests?.list(read).catch(() => undefined)
    }
    const pages = [
      await page({ filters: { code: [...FAULTS] }, ends: ['failed', 'rejected'] }),
      await page({ ends: ['limited'] }),
      await page({ filters: { guard: [UNGUARDED] } }),
    ]
    const from = Math.max(begin, ...pages.map((page) => page?.searchedTo ?? 0))
    const calls = pages.map((page) => page?.calls ?? [])
    const isCounted = from === begin && calls[0]!.length > 0
    return new Lately(
      { from, to: now },
      calls,
      isCounted ? await callsByModel(usage, from, now) : undefined,
    )
  }

  figure(
    rows: readonly KnownCall[],
    where: Figure['where'],
    of: number | undefined = undefined,
  ): Figure | null {
    if (rows.length === 0) return null
    const span = { from: new Date(this.from).toISOString(), to: new Date(this.to).toISOString() }
    return {
      value: rows.length,
      ...(of !== undefined && { of: Math.max(of, rows.length) }),
      list: 'requests',
      where: { ...where, ...span },
    }
  }

  callsOf(model: string): number | undefined {
    return this.#calls?.get(model)
  }

  /** Calls that were refused because a guard could not look. */
  unguarded(): Figure | null {
    return this.figure(this.#unguarded, { guard: UNGUARDED })
  }

  /** Calls that a limit refused. @param filter members of a call and their values, as the list of requests takes them */
  limited(limit: string, filter: Readonly<Record<string, string>>): Figure | null {
    const wanted = Object.entries(filter)
    const rows = this.#limited.filter(
      (call) =>
        call.limited_by === limit &&
        wanted.every(([name, value]) => call[`${name}_id` as 'key_id'] === value),
    )
    return this.figure(rows, { ...filter, limited_by: limit })
  }
}

async function callsByModel(
  usage: UsageIndex | undefined,
  from: number,
  to: number,
): Promise<ReadonlyMap<string, number> | undefined> {
  const span = { from, to, rollup: 'hour', group: ['model'], isOneSpan: true } as const
  const query = { ...span, filters: {}, metric: 'calls', top: Infinity } as const
  const answer = await usage?.ask('usage', { queries: [query] }).catch(() => undefined)
  const [sums] = answer?.result ?? []
  if (!sums || 'fits' in sums) return undefined
  return new Map(sums.cells.map(({ group: [model], calls }) => [model!, calls]))
}

// A model: its last two calls failed and none has succeeded since, or many of the last calls failed.

const OF_MODELS: ReadonlySet<string> = new Set([
  'model.down',
  'deployment.down',
  'errors.high',
  'fallback.many',
])

interface Evidence {
  readonly failed: readonly KnownCall[]
  readonly alerts: readonly AlertRecord[]
}

async function ofModel(
  gateway: Gateway,
  model: Model,
  { failed, alerts: own }: Evidence,
  lately: Lately,
): Promise<Draft | undefined> {
  if (failed.length === 0 && own.length === 0) return undefined
  const { routing } = gateway.runtime
  const reports = model.deployments.map((one) => routing.healthOf(one).report())
  const succeeded = Math.max(0, ...reports.map(({ succeededAt = 0 }) => succeededAt))
  const harm = own.some(({ kind }) => kind === 'model.down')
    ? 'errors'
    : await harmOf(gateway, model.id, failed, succeeded, lately)
  if (!harm && own.length === 0) return undefined
  const parts = partsOf(gateway, model, failed)
  const [first] = parts.toSorted((one, other) => other.calls - one.calls)
  const since = Math.min(
    ...own.map(({ raisedAt }) => raisedAt),
    ...(harm ? failedSince(failed, succeeded) : []),
  )
  const isNone = harm === 'errors' && parts.length > 1
  const worst = own.find(({ kind }) => kind !== 'deployment.down')
  return {
    kind: harm === 'errors' ? 'model.down' : (worst?.kind ?? 'errors.high'),
    harm: harm ?? 'degraded',
    object: { kind: 'model', id: model.id, name: model.id },
    cause: isNone ? 'no deployment answers' : (first?.cause ?? worst?.message ?? null),
    class: first?.class ?? null,
    since: moment(since),
    last_success: momentOrNull(succeeded || undefined),
    calls: lately.figure(failed, { model: model.id, code: [...FAULTS] }, lately.callsOf(model.id)),
    parts,
    act: first?.act ?? 'test',
  }
}

/** When the failed calls since the last success began. */
function failedSince(failed: readonly KnownCall[], succeeded: number): number[] {
  return failed.map(({ at }) => Date.parse(at)).filter((at) => at > succeeded)
}

async function harmOf(
  { runtime: { requests } }: Gateway,
  model: string,
  failed: readonly KnownCall[],
  succeeded: number,
  lately: Lately,
): Promise<Harm | undefined> {
  const [last, before] = failedSince(failed, succeeded)
  if (last === undefined) return undefined
  if (before !== undefined) {
    // A success of an earlier process is known to the log alone.
    const query = {
      filters: { model: [model] },
      ends: ['completed' as const],
      from: before,
      limit: 1,
    }
    const well = succeeded > 0 ? undefined : await requests?.list(query).catch(() => undefined)
    if (!well || well.calls.length === 0) return 'errors'
  }
  const calls = lately.callsOf(model) ?? 0
  const isMany = calls >= LEAST_CALLS && failed.length >= SHARE * calls
  return isMany && last > lately.to - QUARTER_MS ? 'degraded' : undefined
}

function partsOf(
  { runtime, loaded }: Gateway,
  model: Model,
  failed: readonly KnownCall[],
): IncidentPart[] {
  return model.deployments.flatMap((deployment) => {
    const attempts = failed.flatMap((call) =>
      (call.attempts ?? [])
        .filter((one) => 'deployment' in one)
        .filter((one) => one.deployment === deployment.id && !NO_FAILURE.has(one.result))
        .slice(-1),
    )
    const { state, lastFailure, lastMessage } = runtime.routing.healthOf(deployment).report()
    if (attempts.length === 0 && state === 'healthy' && lastFailure === undefined) return []
    const [last] = attempts
    const failure = last?.result ?? lastFailure ?? null
    const words = last?.message ?? lastMessage
    const isManaged = loaded.origins.of(['providers', deployment.provider]).from === 'managed'
    return {
      deployment: deployment.id,
      cause: [last?.status, words].filter((word) => word !== undefined).join(' ') || null,
      class: failure,
      calls: attempts.length,
      act: actOf(failure, isManaged),
    }
  })
}

function actOf(failure: string | null, isManaged: boolean): IncidentAct {
  if (failure === 'upstream_auth' || failure === 'upstream_balance')
    return isManaged ? 'new_key' : 'show_where'
  if (failure === 'upstream_rate' || failure === 'overloaded') return 'cool_down'
  return failure === 'not_found' ? 'model' : 'test'
}

// Everything else that has alerts.

/** A ledger that is in doubt refuses calls; other differences do not. */
function harmOfAlert({ ledger }: Runtime, kind: string): Harm {
  if (kind === 'ledger.differs' && ledger.health().doubt !== undefined) return 'errors'
  return HARMS[kind] ?? 'degraded'
}

interface Names extends Pick<DirectoryView, 'accounts' | 'keys'> {
  readonly teams: ReadonlyMap<string, Team | undefined>
}

/** Names of accounts and keys, and of the teams that alerts are about; ids alone while they cannot be read. */
async function namesOf({ accounts }: Runtime, alerts: readonly AlertRecord[]): Promise<Names> {
  const ids = new Set(alerts.flatMap(({ object }) => /^team (\S+)/.exec(object)?.[1] ?? []))
  try {
    const teams = [...ids].map(async (id) => [id, await accounts.team(id)] as const)
    return { ...(await accounts.directory.view()), teams: new Map(await Promise.all(teams)) }
  } catch {
    return { accounts: new Map(), keys: new Map(), teams: new Map() }
  }
}

function ofAlert({ runtime }: Gateway, alert: AlertRecord, lately: Lately, names: Names): Draft {
  const { kind, object, raisedAt } = alert
  const [family = ''] = kind.split('.')
  const { subject, cause } = subjectOf(alert, names)
  const base = {
    kind,
    harm: harmOfAlert(runtime, kind),
    since: moment(raisedAt),
    act: ACTS[family] ?? ('gateways' as const),
    calls: null,
    object: subject,
    cause,
  }
  if (kind === 'balance.empty')
    return {
      ...base,
      cause: 'calls are refused',
      calls: lately.limited('balance', { account: object }),
    }
  if (kind === 'cap.100') {
    const [owner = '', id = '', ...cap] = object.split(' ')
    return { ...base, calls: lately.limited(`${owner}.cap.${cap.join(' ')}`, { [owner]: id }) }
  }
  if (kind === 'guard.open') {
    const calls = lately.unguarded()
    return { ...base, harm: calls ? 'errors' : 'degraded', calls }
  }
  return base
}

/** Kinds of alerts on a model. */
const ON_MODELS: ReadonlySet<string> = new Set([
  'model.down',
  'errors.high',
  'fallback.many',
  'price.changed',
])
/** Names of what there is only one of. */
const SINGLE: Readonly<Record<string, string>> = {
  ledger: 'Ledger',
  outbox: 'Ledger',
  log: 'Request log',
  store: 'Redis',
  managed: 'Configuration',
}

/** What an alert is about, by name, and its message without the id of that. */
function subjectOf(
  { kind, object, message }: Pick<AlertRecord, 'kind' | 'object' | 'message'>,
  { accounts, keys, teams }: Names,
): { readonly subject: Subject; readonly cause: string } {
  const [family = ''] = kind.split('.')
  const named = (of: string, id: string) => {
    const row: { readonly name: string; readonly account?: string } | undefined =
      of === 'account' ? accounts.get(id) : of === 'key' ? keys.get(id) : teams.get(id)
    const { name = id, account } = row ?? {}
    return { kind: of, id, name, ...(account !== undefined && { account }) }
  }
  if (family === 'balance' || family === 'price_list')
    return {
      subject: named('account', object),
      cause: message.replace(` of account ${object}`, ''),
    }
  if (family === 'cap') {
    const [owner = '', id = ''] = object.split(' ')
    return { subject: named(owner, id), cause: message.replace(/^\S+ \S+ /, '') }
  }
  if (family === 'key')
    return { subject: named('key', object), cause: message.replace(`the key ${object} `, '') }
  if (ON_MODELS.has(kind))
    return { subject: { kind: 'model', id: object, name: object }, cause: message }
  if (family === 'payment')
    return { subject: { kind: family, id: object, name: object }, cause: message }
  const name = object === '' ? (SINGLE[family] ?? family) : object
  return {
    subject: { kind: KINDS[family] ?? family, id: `${family}:${object}`, name },
    cause: message,
  }
}

/** Alerts as the API shows them: with the name of what they are about. */
export async function alertViews(runtime: Runtime, alerts: readonly AlertRecord[]) {
  const names = await namesOf(runtime, alerts)
  return alerts.map((alert): AlertAnswer => ({ ...alertView(alert), ...subjectOf(alert, names) }))
}

/** The active alerts on an account, its teams and its keys. */
export async function accountAlerts(runtime: Runtime, account: string) {
  const all = await alertViews(runtime, runtime.alerts.active)
  return all.filter(({ subject }) =>
    subject.kind === 'account' ? subject.id === account : subject.account === account,
  )
}

/** Kinds of objects by family of an alert, where they are called otherwise. */
const KINDS: Readonly<Record<string, string>> = { egress: 'proxy', managed: 'entry' }
