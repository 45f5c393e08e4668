/**
 * The admin API: accounts, keys, credits, ledger rows, models, the state of the gateway. Needs the bearer token
 * `admin.token`; without one in the configuration there is no admin API. Members have snake_case names, amounts are
 * JSON numbers in USD, answers are wrapped in `data`, and `next` of a list is where it goes on.
 */
import { H3, HTTPResponse, type H3Event } from 'h3'
import { hash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Account } from '../../accounts/accounts.ts'
import { letContinue } from '../front.ts'
import { NodeIncoming, bodyTimer } from '../node-http.ts'
import { readJson } from '../../endpoints/shared/body.ts'
import { InvalidRequest, NotFound, Unauthenticated } from '../../errors/errors.ts'
import { toKeyChange } from '../../gateway/seed.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import { allowlistOf } from '../../models/allowlist.ts'
import { METRICS_TYPE } from '../../observe/metrics.ts'
import type { Gauge } from '../../observe/prometheus.ts'
import { usdJson } from '../../money/money.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { listChanges, note } from './audit.ts'
import {
  readAccount,
  readAdjustment,
  readCredits,
  readCursor,
  readKey,
  readKeyChange,
  readLimit,
  readTrial,
} from './bodies.ts'
import { adjust, topUp } from './credits.ts'
import { requireJudge, tryPolicy } from './policies.ts'
import { listRequests, showRequest } from './requests.ts'
import {
  accountView,
  keySettings,
  keyView,
  modelView,
  orphanView,
  outboxView,
  rowView,
  statusView,
} from './views.ts'

/** Largest body: twice the longest policy. */
const BODY_LIMIT = 262_144

/** An authorised request, with the `:id` of its path. */
interface Asked {
  readonly gateway: Gateway
  readonly runtime: Runtime
  readonly event: H3Event
  readonly query: URLSearchParams
  readonly id: string
}

/** Status 200 by default. */
interface Answer {
  readonly status?: number
  readonly body: {
    readonly data: object
    readonly next?: string | number | null
    readonly searched_to?: string | null
    readonly unreadable_days?: readonly string[]
    readonly key?: string
  }
}

type Handler = (asked: Asked) => Answer | Promise<Answer>

const ROUTES: Readonly<Record<string, Readonly<Record<string, Handler>>>> = {
  '/accounts': { GET: listAccounts, POST: createAccount },
  '/accounts/:id': { GET: showAccount },
  '/accounts/:id/credits': { POST: addCredits },
  '/accounts/:id/adjust': { POST: adjustBalance },
  '/accounts/:id/ledger': { GET: listRows },
  '/accounts/:id/keys': { POST: createKey },
  '/audit': { GET: async (asked) => ({ body: await listChanges(asked) }) },
  '/keys': { GET: listKeys },
  '/keys/:id': { GET: showKey, PATCH: changeKey },
  '/ledger/verify': { GET: verify },
  '/ledger/orphans': { GET: listOrphans },
  '/ledger/outbox': { GET: ({ gateway }) => ({ body: { data: outboxView(gateway) } }) },
  '/models': { GET: listModels },
  '/policies/evaluate': { POST: evaluatePolicy },
  '/requests': { GET: async (asked) => ({ body: await listRequests(asked) }) },
  '/requests/:id': { GET: async (asked) => ({ body: await showRequest(asked) }) },
  '/status': { GET: ({ gateway }) => ({ body: { data: statusView(gateway) } }) },
}

/**
 * The app that is mounted at `/admin`. It throws GatewayErrors, which the app around it turns into bodies.
 * @param begin called for every request, before its key is checked
 */
export function adminApp(gateway: Gateway, begin: (event: H3Event) => void): H3 {
  const app = new H3()
  app.use((event) => {
    begin(event)
    authorize(gateway, event.req.headers.get('authorization'))
    event.res.headers.set('cache-control', 'no-store')
  })
  for (const [path, methods] of Object.entries(ROUTES)) {
    const handlers = methods.GET ? { ...methods, HEAD: methods.GET } : methods
    app.all(path, async (event) => {
      const handler = handlers[event.req.method]
      if (!handler) throw wrongMethod(event.req.method, Object.keys(handlers).join(', '))
      const { searchParams: query } = event.url
      const id = event.context.params?.id ?? ''
      const answer = await handler({ gateway, runtime: gateway.runtime, event, query, id })
      event.res.status = answer.status ?? 200
      return answer.body
    })
  }
  app.all('/**', () => {
    throw new NotFound('unknown_url', 'The admin API has no such route.')
  })
  return app
}

/**
 * Metrics as Prometheus text, for the readers that `admin.metrics` admits.
 * @throws NotFound when metrics are disabled, Unauthenticated without the admin token
 */
export function metricsOf(gateway: Gateway, authorization: string | null): HTTPResponse {
  const { config, metrics } = gateway.runtime
  if (config.admin.metrics === false) throw new NotFound('unknown_url', 'There is no such route.')
  if (config.admin.metrics === 'admin') authorize(gateway, authorization)
  return new HTTPResponse(metrics.text(gaugesOf(gateway)), {
    headers: { 'content-type': METRICS_TYPE, 'cache-control': 'no-store' },
  })
}

async function listAccounts(asked: Asked): Promise<Answer> {
  const { items, next } = page(asked, await asked.runtime.accounts.listAccounts())
  const data = await Promise.all(items.map((account) => accountView(asked.runtime, account)))
  return { body: { data, next } }
}

async function createAccount(asked: Asked): Promise<Answer> {
  const account = await asked.runtime.accounts.createAccount(readAccount(await bodyOf(asked)))
  const { id, name } = account
  await note(asked.runtime, {
    action: 'account.create',
    object: `account:${id}`,
    after: { id, name },
  })
  return { status: 201, body: { data: await accountView(asked.runtime, account) } }
}

async function showAccount({ runtime, id }: Asked): Promise<Answer> {
  return { body: { data: await accountView(runtime, await accountOf(runtime, id)) } }
}

async function addCredits(asked: Asked): Promise<Answer> {
  const body = readCredits(await bodyOf(asked))
  const { id } = await accountOf(asked.runtime, asked.id)
  return topUp(asked.runtime, id, body)
}

async function adjustBalance(asked: Asked): Promise<Answer> {
  const body = readAdjustment(await bodyOf(asked))
  const { id } = await accountOf(asked.runtime, asked.id)
  return adjust(asked.runtime, id, body)
}

async function listRows({ runtime, id, query }: Asked): Promise<Answer> {
  const limit = readLimit(query.get('limit'))
  const before = readCursor(query.get('before'))
  await accountOf(runtime, id)
  const data = []
  for await (const row of runtime.ledger.usage(id, before)) {
    // One row more than requested tells that the list goes on.
    if (data.length === limit) return { body: { data, next: data.at(-1)!.seq } }
    data.push(rowView(row))
  }
  return { body: { data, next: null } }
}

async function createKey(asked: Asked): Promise<Answer> {
  const { id, name, sha256, start, ...settings } = readKey(await bodyOf(asked))
  const wanted = { ...settingsOf(asked.runtime, settings), id, name, sha256, start }
  requireJudge(asked.runtime, wanted.policy)
  const { key, secret } = await asked.runtime.accounts.createKey(asked.id, wanted)
  await note(asked.runtime, {
    action: 'key.create',
    object: `key:${key.id}`,
    after: keySettings(key),
  })
  const data = await keyView(asked.runtime, key)
  return { status: 201, body: sha256 === undefined ? { data, key: secret } : { data } }
}

async function listKeys(asked: Asked): Promise<Answer> {
  const { runtime } = asked
  const { items, next } = page(asked, await runtime.accounts.listKeys(await filterOf(asked)))
  return { body: { data: await Promise.all(items.map((key) => keyView(runtime, key))), next } }
}

async function showKey({ runtime, id }: Asked): Promise<Answer> {
  const key = (await runtime.accounts.key(id)) ?? missing('key', id)
  return { body: { data: await keyView(runtime, key) } }
}

async function changeKey(asked: Asked): Promise<Answer> {
  const change = settingsOf(asked.runtime, readKeyChange(await bodyOf(asked)))
  requireJudge(asked.runtime, change.policy)
  let before = {}
  const key = await asked.runtime.accounts.changeKey(asked.id, change, (replaced) => {
    before = keySettings(replaced)
  })
  const after = keySettings(key)
  await note(asked.runtime, { action: 'key.update', object: `key:${key.id}`, before, after })
  return { body: { data: await keyView(asked.runtime, key) } }
}

/** The settings of a key as they are stored: with the ids of models. */
function settingsOf({ catalog }: Runtime, settings: Parameters<typeof toKeyChange>[0]) {
  const { models, ...change } = toKeyChange(settings)
  return { ...change, models: models && allowlistOf(catalog, models) }
}

async function verify(asked: Asked): Promise<Answer> {
  const found = await asked.runtime.ledger.verify(await filterOf(asked))
  const discrepancies = found.map(({ account, what, stored, recomputed }) => ({
    account_id: account,
    what,
    stored: usdJson(stored),
    recomputed: usdJson(recomputed),
  }))
  if (asked.query.get('prices') !== 'true') {
    return { body: { data: { ok: found.length === 0, discrepancies } } }
  }
  const prices = await pricesChecked(asked)
  const ok = found.length === 0 && prices.wrong.length === 0
  return { body: { data: { ok, discrepancies, prices } } }
}

/** Every row priced again. `recomputed` is null where another tier would have applied. */
async function pricesChecked(asked: Asked) {
  const { accounts, ledger, prices } = asked.runtime
  const account = await filterOf(asked)
  const all = account === undefined ? await accounts.listAccounts() : [{ id: account }]
  const ids = all.map(({ id }) => id)
  const { wrong, ...counts } = await prices.check(ledger, ids)
  return {
    ...counts,
    wrong: wrong.map(({ account: id, request, stored, recomputed }) => ({
      account_id: id,
      request_id: request,
      stored: usdJson(stored),
      recomputed: recomputed === undefined ? null : usdJson(recomputed),
    })),
  }
}

/** The page of the orphans that `?limit=` and `?after=<request id>` select. */
async function listOrphans(asked: Asked): Promise<Answer> {
  const limit = readLimit(asked.query.get('limit'))
  const after = asked.query.get('after')
  let found = after === null
  const data = []
  for await (const orphan of asked.runtime.ledger.orphans(await filterOf(asked))) {
    if (found && data.length === limit) return { body: { data, next: data.at(-1)!.request_id } }
    if (found) data.push(orphanView(orphan))
    found ||= orphan.request === after
  }
  if (!found) throw notInList()
  return { body: { data, next: null } }
}

async function evaluatePolicy(asked: Asked): Promise<Answer> {
  const trial = readTrial(await bodyOf(asked))
  return { body: { data: await tryPolicy(asked.runtime, incomingOf(asked), trial) } }
}

function listModels({ runtime: { catalog, routing } }: Asked): Answer {
  return {
    body: {
      data: catalog
        .at()
        .all()
        .map((model) => modelView(model, routing)),
      next: null,
    },
  }
}

/** @throws NotFound without an admin token in the configuration, Unauthenticated with a wrong one in the request */
function authorize(gateway: Gateway, authorization: string | null): void {
  const { token } = gateway.runtime.config.admin
  if (token === undefined) throw new NotFound('unknown_url', 'There is no such route.')
  const given = /^bearer +(\S+) *$/i.exec(authorization ?? '')?.[1]
  if (given === undefined) {
    throw new Unauthenticated('Send the admin token as "Authorization: Bearer <token>".')
  }
  // The comparison needs equal lengths; digests have them, and tokens of any length take the same time.
  if (!timingSafeEqual(hash('sha256', given, 'buffer'), hash('sha256', token, 'buffer'))) {
    throw new Unauthenticated('The admin token is wrong.')
  }
}

function wrongMethod(method: string, allow: string): InvalidRequest {
  const message = `This route does not take ${method}. Allowed: ${allow}.`
  return new InvalidRequest('method_not_allowed', message, { headers: { allow } })
}

function bodyOf(asked: Asked): Promise<object> {
  return readJson(incomingOf(asked), BODY_LIMIT)
}

function incomingOf({ event, runtime }: Asked): NodeIncoming {
  const { req, res } = event.runtime!.node!
  const request = req as IncomingMessage
  const { bodyTimeout, limits } = runtime.config.server
  return new NodeIncoming(request, {
    limits,
    onStart: () => letContinue(request, res as ServerResponse),
    startTimeout: bodyTimer(bodyTimeout * 1000),
  })
}

/** The page of a list that `?limit=` and `?after=<id>` select. */
function page<Item extends { readonly id: string }>({ query }: Asked, all: readonly Item[]) {
  const after = query.get('after')
  const start = after === null ? 0 : all.findIndex(({ id }) => id === after) + 1
  if (after !== null && start === 0) throw notInList()
  const end = start + readLimit(query.get('limit'))
  return { items: all.slice(start, end), next: end < all.length ? all[end - 1]!.id : null }
}

function notInList(): InvalidRequest {
  const message = `Invalid 'after': nothing in this list has that id.`
  return new InvalidRequest('invalid_value', message, { param: 'after' })
}

/** The account that `?account=` filters by. @throws NotFound */
async function filterOf({ runtime, query }: Asked): Promise<string | undefined> {
  const id = query.get('account')
  return id === null ? undefined : (await accountOf(runtime, id)).id
}

async function accountOf({ accounts }: Runtime, id: string): Promise<Account> {
  return (await accounts.account(id)) ?? missing('account', id)
}

function missing(what: string, id: string): never {
  const shown = JSON.stringify(id.length > 100 ? `${id.slice(0, 100)}…` : id)
  throw new NotFound('not_found', `There is no ${what} ${shown}.`)
}

function gaugesOf({ runtime, bodies, startedAt, stopping }: Gateway): Gauge[] {
  const { catalog, routing, ledger } = runtime
  const { ok, outbox, oldestMs } = ledger.health()
  const deployments = catalog.all().flatMap((model) => model.deployments)
  const up = deployments.map((one) => [one.id, routing.healthOf(one).isOpen() ? 1 : 0] as const)
  return [
    {
      name: 'sluicegate_stopping',
      help: 'Whether the gateway is about to end.',
      value: stopping ? 1 : 0,
    },
    { name: 'sluicegate_ledger_up', help: 'Whether the ledger can book.', value: ok ? 1 : 0 },
    {
      name: 'sluicegate_event_loop_lag_seconds',
      help: 'Longest time within a minute that all calls waited for code that kept the process busy.',
      value: runtime.loop.lagSeconds,
    },
    {
      name: 'sluicegate_body_bytes',
      help: 'Memory set aside for request bodies.',
      value: bodies.heldBytes,
    },
    { name: 'sluicegate_outbox_entries', help: 'Settlements not yet confirmed.', value: outbox },
    {
      name: 'sluicegate_outbox_age_seconds',
      help: 'Age of the oldest of them.',
      value: oldestMs / 1000,
    },
    {
      name: 'sluicegate_settlements_conflicting_total',
      help: 'Charges that were booked before with another cost.',
      type: 'counter',
      value: ledger.conflicts,
    },
    {
      name: 'sluicegate_ledger_discrepancies',
      help: 'Sums that did not equal their rows when the ledger was last verified.',
      value: ledger.discrepancies,
    },
    {
      name: 'sluicegate_ledger_rolled_back_rows',
      help: 'Newest rows of the ledger that were missing at the start.',
      value: ledger.rolledBackRows,
    },
    ...logGauges(runtime),
    {
      name: 'sluicegate_start_time_seconds',
      help: 'When the gateway was started, since epoch.',
      value: startedAt / 1000,
    },
    {
      name: 'sluicegate_deployment_up',
      help: 'Whether a deployment is asked: 0 while it rests.',
      value: { label: 'deployment', of: new Map(up) },
    },
  ]
}

function logGauges({ requests }: Runtime): Gauge[] {
  if (!requests) return []
  const { rows, bytes, dropped } = requests.counts
  return [
    {
      name: 'sluicegate_log_rows_total',
      help: 'Calls that were stored in the request log.',
      type: 'counter',
      value: rows,
    },
    {
      name: 'sluicegate_log_dropped_total',
      help: 'Calls that are missing in the request log.',
      type: 'counter',
      value: { label: 'reason', of: dropped },
    },
    { name: 'sluicegate_log_bytes', help: 'Size of the request log.', value: bytes },
  ]
}
