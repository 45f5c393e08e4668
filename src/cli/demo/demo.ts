/** `serve --demo`: a gateway with a month of invented calls, in a folder that goes with the process. */
import { createConsola } from 'consola'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { mkdir } from 'node:fs/promises'
import { Accounts } from '../../accounts/accounts.ts'
import type { NewKey } from '../../accounts/stored.ts'
import {
  loadConfig,
  type LoadedConfig,
  type LoadOptions,
  type Config,
} from '../../config/config.ts'
import type { DemoState, Gateway } from '../../gateway/gateway.ts'
import { closeState, openState } from '../../gateway/open-state.ts'
import type { SeedReport } from '../../gateway/seed.ts'
import {
  formatPico,
  parsePico,
  type Pico,
  NO_COST,
  priceUsage,
  type Bill,
  type UsageLine,
} from '../../money/money.ts'
import { compilePrices, tierOf, type Prices, versionOf } from '../../money/prices.ts'
import { readPolicy } from '../../policy/policy.ts'
import type { RowItem, Ledger, Outcome } from '../../state/ledger/ledger.ts'
import { PriceRecords } from '../../state/prices.ts'
import { addressOf } from '../address.ts'
import { CommandError, type Arguments } from '../command.ts'
import { createFile } from '../../state/sqlite/file.ts'
import { agentOf, costDetails, quantitiesOf, type KnownCall } from '../../observe/record.ts'
import type { Usage } from '../../plugin.ts'
import { requestId } from '../../state/ids.ts'

/** A demo: accounts, keys, and a month of calls that is written while the gateway serves. */
export interface Demo extends DemoState {
  readonly loaded: LoadedConfig
  readonly options: LoadOptions
  /** The report of the start. @param showKey also its first key */
  report(showKey: boolean): SeedReport
  /**
   * Writes the month, and asks a model every two seconds.
   * @param url the URL of the gateway.
   * @returns a function that ends both, and resolves when nothing is written any more
   */
  begin(gateway: Gateway, url: string): () => Promise<void>
  release(): void
}

const FILE = fileURLToPath(
  new URL(`../../../config/demo${extname(import.meta.url)}`, import.meta.url),
)
const ASK_MS = 2000
const SEED = 1
const SIGNALS = ['SIGINT', 'SIGTERM'] as const

/** Makes the folder, with accounts and keys. @throws CommandError for options of other state, or an invalid seed */
export async function openDemo(args: Arguments): Promise<Demo> {
  const { text, on } = args
  const others = ['data', 'config'].filter((name) => text[name] !== undefined || on.has(name))
  if (others.length > 0) {
    throw new CommandError(
      `--demo has a folder and a configuration of its own: leave out --${others.join(', --')}.`,
      2,
    )
  }
  const seed = Number(text.demo ?? SEED)
  if (!Number.isSafeInteger(seed)) {
    throw new CommandError(
      `--demo=<seed> takes a whole number, not ${JSON.stringify(text.demo)}.`,
      2,
    )
  }
  const address = addressOf(args)
  const folder = mkdtempSync(join(tmpdir(), 'sluicegate-demo-'))
  const release = () => rmSync(folder, { recursive: true, force: true })
  // Also where the process ends without an end.
  process.once('exit', release)
  const options = { file: FILE, cwd: folder, data: folder, address }
  const loaded = await loadConfig(options)
  if (loaded.config.state.driver !== 'file') {
    throw new CommandError(
      '--demo keeps its state in a folder of its own: remove SLUICEGATE__STATE.',
      2,
    )
  }
  // A signal before it serves ends the process at once, and the folder with it.
  const end = () => process.exit(1)
  for (const signal of SIGNALS) process.once(signal, end)
  const { secret, month } = await prepare(loaded, randomFrom(seed), Date.now())
  for (const signal of SIGNALS) process.off(signal, end)
  const account = ACCOUNTS[0]!.id
  let isFilling = true
  return {
    loaded,
    options,
    release,
    get isFilling() {
      return isFilling
    },
    report: (showKey) => ({ accounts: [], keys: [], ...(showKey && { secret, account }) }),
    begin(gateway, url) {
      const ended = new AbortController()
      const filled = fillMonth(gateway, month, ended.signal).finally(() => (isFilling = false))
      const failed = (error: Error) =>
        gateway.runtime.log.error(`The calls of the demo could not be written: ${error.message}`)
      const written = filled.catch(failed)
      const stopAsking = keepAsking(url, secret)
      return () => {
        ended.abort()
        stopAsking()
        return written
      }
    },
  }
}

/** Writes accounts, keys and the first bookings. @returns the secret of the first key, and the rest to write */
async function prepare(
  loaded: LoadedConfig,
  random: Random,
  now: number,
): Promise<{ readonly secret: string; readonly month: Month }> {
  const { config } = loaded
  const log = createConsola({ level: 1, stdout: process.stderr })
  const state = await openState(loaded, log)
  try {
    const begin = now - DAYS * DAY_MS
    const calls = [...callsOf(config.models, random, now)]
    const spent = new Map<string, Pico>()
    for (const { item, bill } of calls) {
      spent.set(item.key!, (spent.get(item.key!) ?? 0n) + bill.cost)
    }
    const { defaults } = config
    const accounts = new Accounts({ ...state, defaults: () => defaults, now: () => begin })
    let secret = ''
    for (const account of ACCOUNTS) {
      await accounts.createAccount({ id: account.id, name: account.name })
      for (const key of account.keys) {
        const created = await accounts.createKey(account.id, settingsOf(key, spent, now))
        secret ||= created.secret
      }
    }
    const prices = new PriceRecords(state.records, log)
    const priced = Object.values(config.models).map(({ pricing }) => compilePrices(pricing))
    await prices.keep(priced.map((one) => ({ prices: one })))
    await makeDays(config.log.path, now)
    const all = ACCOUNTS.flatMap((account) => bookingsOf(account, spent, begin)).toSorted(
      (a, b) => a.at - b.at,
    )
    const { first = [], later: bookings = [] } = Object.groupBy(all, ({ at }) =>
      at === begin ? 'first' : 'later',
    )
    // A client that calls at once finds money.
    await importRows(state.ledger, first)
    return { secret, month: { bookings, calls } }
  } finally {
    await closeState(state)
  }
}

function bookingsOf(
  { id, left, keys }: DemoAccount,
  spent: ReadonlyMap<string, Pico>,
  begin: number,
): RowItem[] {
  if (left === undefined) return []
  const sum = keys.reduce((total, key) => total + (spent.get(key.id) ?? 0n), parsePico(left))
  const [second, third] = [(sum * 3n) / 10n, (sum * 2n) / 10n]
  return [sum - second - third, second, third].map((amount, index) => ({
    kind: 'top-up',
    account: id,
    request: `invoice-${id}-${index + 1}`,
    at: begin + index * 9 * DAY_MS,
    cost: -amount,
    note: `Invoice ${index + 1}`,
  }))
}

function settingsOf(key: DemoKey, spent: ReadonlyMap<string, Pico>, now: number): NewKey {
  const { id, name, policy, cap, disabled, endedDaysAgo } = key
  const used = spent.get(id) ?? 0n
  const percent = cap === undefined ? undefined : BigInt(Math.round(cap * 100))
  return {
    id,
    name,
    ...(policy && { policy: readPolicy(policy) }),
    ...(percent && {
      spendCap: { usd: formatPico((used * percent) / 100n), scope: 'lifetime' as const },
    }),
    ...(disabled && { disabled }),
    ...(endedDaysAgo !== undefined && !disabled && { expiresAt: now - endedDaysAgo * DAY_MS }),
  }
}

function keepAsking(url: string, secret: string): () => void {
  const ended = new AbortController()
  const ask = async () => {
    const messages = [{ role: 'user', content: 'Good day to you.' }]
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'demo/atlas-small', messages, stream: true }),
      signal: ended.signal,
    })
    await response.text()
  }
  // A call that fails is no loss: another one follows.
  const timer = setInterval(() => void ask().catch(() => {}), ASK_MS)
  return () => {
    clearInterval(timer)
    ended.abort()
  }
}

/** mulberry32: a generator of 32 bits that needs only its seed. */
function randomFrom(seed: number): Random {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

// Writes a month of calls into a gateway that serves.

/** Calls that are written at once: clients are answered in between. */
const BATCH = 1000
const ONE_ROW = { filters: {}, limit: 1 }

interface Month {
  readonly bookings: readonly RowItem[]
  readonly calls: readonly DemoCall[]
}

/** Makes the files of the days: the request log takes rows only for days with a file. @param folder the folder of the log */
async function makeDays(folder: string | undefined, now: number): Promise<void> {
  if (folder === undefined) return
  await mkdir(folder, { recursive: true, mode: 0o700 })
  for (let day = 0; day <= DAYS; day++) {
    createFile(join(folder, `${new Date(now - day * DAY_MS).toISOString().slice(0, 10)}.db`))
  }
}

/** Writes the month into ledger and logs, oldest first. @param ended ends it early. @throws Error if one is refused */
async function fillMonth(
  { runtime: { ledger, requests, usage } }: Gateway,
  { bookings, calls }: Month,
  ended: AbortSignal,
): Promise<void> {
  let booked = 0
  for (let at = 0; at < calls.length && !ended.aborted; at += BATCH) {
    const batch = calls.slice(at, at + BATCH)
    const until = batch.at(-1)!.item.at
    const due = bookings.slice(booked).filter((one) => one.at <= until)
    booked += due.length
    await importRows(ledger, [...due, ...batch.map(({ item }) => item)])
    for (const { record } of batch) requests?.add(record)
    for (const { id } of ACCOUNTS) usage?.settled(id)
    // Answers come after everything before them is stored: no queue grows.
    await Promise.all([requests?.list(ONE_ROW), usage?.ask('lastUsed', [])])
  }
}

/** @throws Error when a row is refused */
async function importRows(ledger: Ledger, rows: readonly RowItem[]): Promise<void> {
  const { refused } = await ledger.import(rows)
  if (refused !== undefined) throw new Error(refused)
}

// The calls of thirty days, made up from a seed: their times, usage, and outcomes.

/** Numbers from 0 to 1, the same ones for the same seed. */
type Random = () => number

interface DemoCall {
  readonly item: RowItem
  readonly record: KnownCall
  readonly bill: Bill
}

const CALLS = 40_000
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const DAYS = 30
/** The parts of the calls that fail, and that a guard blocks. */
const FAILED = 0.02
const BLOCKED = 0.03
/** The start of the only outage, before now, and its length. */
const DOWN_MS = 3 * DAY_MS + 5 * HOUR_MS
const DOWN_FOR_MS = 40 * 60_000

const OFFICE = [
  1, 1, 1, 1, 1, 2, 4, 9, 16, 20, 21, 19, 14, 18, 20, 19, 17, 13, 8, 6, 5, 4, 3, 2,
] as const
const FAULTS = [
  { status: 502, code: 'upstream_error', result: 'upstream_error' },
  { status: 504, code: 'upstream_timeout', result: 'timeout' },
  { status: 503, code: 'provider_overloaded', result: 'overloaded' },
] as const

/** All calls, oldest first. @param now ms since epoch: the end of the days */
function* callsOf(models: Config['models'], random: Random, now: number): Iterable<DemoCall> {
  const prices = new Map(
    Object.entries(models).map(([id, { pricing }]) => [id, compilePrices(pricing)]),
  )
  const keys = ACCOUNTS.flatMap((account) => account.keys.map((key) => ({ account, key })))
  const moments = Array.from({ length: CALLS }, () => {
    const { account, key } = pick(keys, ({ key: { weight } }) => weight, random)
    return { at: momentOf(key, random, now), account, key }
  }).toSorted((a, b) => a.at - b.at)
  for (const { at, account, key } of moments) {
    const model = pick(Object.entries(key.models), ([, weight]) => weight, random)[0]
    yield callOf({ at, account, key, model, prices: prices.get(model)!, random, now })
  }
}

function momentOf({ rhythm, endedDaysAgo = 0 }: DemoKey, random: Random, now: number): number {
  const end = now - endedDaysAgo * DAY_MS
  for (;;) {
    const at = Math.floor(now - DAYS * DAY_MS + random() * (end - now + DAYS * DAY_MS))
    if (rhythm === 'even') return at
    const date = new Date(at)
    const isWeekend = date.getUTCDay() % 6 === 0
    if (random() * 21 < OFFICE[date.getUTCHours()]! * (isWeekend ? 0.25 : 1)) return at
  }
}

interface Asked {
  readonly at: number
  readonly account: DemoAccount
  readonly key: DemoKey
  readonly model: string
  readonly prices: Prices
  readonly random: Random
  readonly now: number
}

function callOf({ at, account, key, model, prices, random, now }: Asked): DemoCall {
  const fault = random() < FAILED ? FAULTS[Math.floor(random() * FAULTS.length)]! : undefined
  const blocked = !fault && key.policy !== undefined && random() < BLOCKED
  const outcome: Outcome = fault ? 'failed' : blocked ? 'refused' : 'completed'
  const { path, usage, msPerUnit } = useOf(model, random)
  const name = model.slice(model.indexOf('/') + 1)
  const isDown = at >= now - DOWN_MS && at < now - DOWN_MS + DOWN_FOR_MS
  const [first, second] = random() < 0.7 ? ['demo-east', 'demo-west'] : ['demo-west', 'demo-east']
  const movedOn = isDown && first === 'demo-east'
  const deployment = `${movedOn ? second : first}/${name}`
  const firstMs = Math.round(120 + spread(random) * 300 + (movedOn ? 2000 : 0))
  const ms = firstMs + Math.round(msPerUnit * (0.7 + random()))
  const lines: UsageLine[] = fault ? [] : [{ source: 'model', usage, prices }]
  const bill = fault || blocked ? NO_COST : priceUsage(lines)
  const attempts = [
    ...(movedOn ? [{ deployment: `${first}/${name}`, ms: 2000, result: 'timeout' }] : []),
    { deployment, ms: ms - (movedOn ? 2000 : 0), result: fault?.result ?? 'ok' },
  ]
  const request = requestId(at)
  const item = rowOf({ account, key, request, at, path, model, deployment, outcome, lines, bill })
  return {
    bill,
    item,
    record: {
      id: request,
      at: new Date(at).toISOString(),
      method: 'POST',
      endpoint: path,
      status: fault?.status ?? 200,
      code: fault?.code,
      outcome,
      stream: path === CHAT ? random() < 0.8 : undefined,
      times: { admit_ms: 1, first_ms: path === CHAT ? firstMs : undefined, total_ms: ms },
      account_id: account.id,
      key_id: key.id,
      model,
      deployment,
      usage: quantitiesOf(fault ? undefined : usage, undefined),
      cost_usd: bill.text,
      cost_details: costDetails(bill),
      ...(key.policy && decisionOf(key.policy, blocked, random)),
      agent: agentOf(key.agent),
      attempts: attempts.length > 1 || fault ? attempts : undefined,
    },
  }
}

interface Booked extends Pick<Asked, 'at' | 'account' | 'key' | 'model'> {
  readonly request: string
  readonly path: string
  readonly deployment: string
  readonly outcome: Outcome
  readonly lines: readonly UsageLine[]
  readonly bill: Bill
}

function rowOf({ account, key, request, at, path, lines, bill, ...rest }: Booked): RowItem {
  const { model, deployment, outcome } = rest
  return {
    kind: 'usage',
    account: account.id,
    key: key.id,
    request,
    day: new Date(at).toISOString().slice(0, 10).replaceAll('-', ''),
    at,
    cost: bill.cost,
    usage: {
      at,
      endpoint: path,
      model,
      deployment,
      outcome,
      lines: lines.map(({ source, usage, prices }) => ({
        source,
        usage,
        prices: versionOf(prices),
        tier: tierOf(prices, usage.promptTokens ?? 0),
      })),
      ...(bill === NO_COST && { charged: 'nothing' }),
    },
  }
}

function decisionOf(
  { deny = [], bannedPatterns = [] }: DemoPolicy,
  blocked: boolean,
  random: Random,
): Pick<KnownCall, 'guard' | 'decided'> {
  const mode = 'block'
  if (!blocked) {
    const decided = [{ mode, side: 'all', rule: '', outcome: 'passed' }]
    return { guard: { outcome: 'passed', rules: [] }, decided }
  }
  const rules = [...deny.map((one) => `deny:${one}`), ...bannedPatterns.map(() => 'bannedPatterns')]
  const rule = rules[Math.floor(random() ** 2 * rules.length)]!
  const side = random() < 0.7 ? 'input' : 'output'
  const place = rule === 'bannedPatterns' ? `${rule}[0]` : rule
  const decided = [{ mode, side, rule, outcome: 'blocked' }]
  return { guard: { outcome: 'blocked', rules: [place] }, decided }
}

const CHAT = '/v1/chat/completions'

function useOf(model: string, random: Random): { path: string; usage: Usage; msPerUnit: number } {
  switch (model) {
    case 'demo/compass': {
      const promptTokens = Math.round(200 + spread(random) * 1500)
      return { path: '/v1/embeddings', usage: { promptTokens }, msPerUnit: 40 }
    }
    case 'demo/easel':
      return { path: '/v1/images/generations', usage: { images: 1 }, msPerUnit: 9000 }
    case 'demo/echo-voice': {
      const characters = Math.round(80 + spread(random) * 900)
      return { path: '/v1/audio/speech', usage: { characters }, msPerUnit: 1200 }
    }
    case 'demo/logbook': {
      const seconds = Math.round(60 + spread(random) * 1800)
      return { path: '/v1/audio/transcriptions', usage: { seconds }, msPerUnit: 5000 }
    }
    default: {
      const promptTokens = Math.round(150 + spread(random) * 5200)
      const completionTokens = Math.round(30 + spread(random) * 700)
      const cachedTokens = random() < 0.45 ? Math.floor(promptTokens * random() * 0.9) : 0
      const usage = { promptTokens, completionTokens, cachedTokens }
      return { path: CHAT, usage, msPerUnit: completionTokens * 11 }
    }
  }
}

/** A factor that is mostly small, seldom large: the mean is 1. */
function spread(random: Random): number {
  return -Math.log(1 - random() * 0.999)
}

function pick<T>(from: readonly T[], weightOf: (one: T) => number, random: Random): T {
  let left = random() * from.reduce((sum, one) => sum + weightOf(one), 0)
  return from.find((one) => (left -= weightOf(one)) < 0) ?? from.at(-1)!
}

/** The users of the gateway in the demo: accounts, their keys, and the models of each key. */
/** The part of a policy that the demo's calls can violate, and more. */
interface DemoPolicy {
  readonly deny?: readonly string[]
  readonly bannedPatterns?: readonly string[]
}

interface DemoKey {
  readonly id: string
  readonly name: string
  /** Its share of all calls, relative to the others. */
  readonly weight: number
  readonly models: Readonly<Record<string, number>>
  readonly agent: string
  /** Whether people use it, by day and on weekdays, or a program. */
  readonly rhythm: 'office' | 'even'
  readonly policy?: DemoPolicy
  /** The distance of its cap from its spend. */
  readonly cap?: number
  readonly disabled?: true
  /** Days before now of its last call. */
  readonly endedDaysAgo?: number
}

interface DemoAccount {
  readonly id: string
  readonly name: string
  /** The balance in USD; undefined on the free tier. */
  readonly left?: string
  readonly keys: readonly DemoKey[]
}

const CHATTING = { 'demo/atlas-small': 6, 'demo/atlas-large': 3, 'demo/polaris': 1 }
const CODING = { 'demo/meridian': 7, 'demo/polaris': 2, 'demo/atlas-small': 1 }
const SUPPORT_POLICY = {
  version: 1,
  maxOutputTokens: 800,
  deny: ['medical', 'legal'],
}
const TUTOR_POLICY = { version: 1, maxOutputTokens: 1200, bannedPatterns: ['answer key'] }

const ACCOUNTS: readonly DemoAccount[] = [
  {
    id: 'northwind',
    name: 'Northwind Traders',
    left: '412.5',
    keys: [
      key('nw-support', 'Support desk', 22, CHATTING, 'openai/js 7.0', {
        policy: SUPPORT_POLICY,
      }),
      key('nw-search', 'Search index', 18, { 'demo/compass': 1 }, 'openai/python 2.1', {
        rhythm: 'even',
      }),
      key('nw-images', 'Catalogue pictures', 3, { 'demo/easel': 1 }, 'openai/python 2.1', {
        cap: 1.03,
      }),
    ],
  },
  {
    id: 'harbor',
    name: 'Harbor Software',
    left: '1280',
    keys: [
      key('hb-code', 'Coding assistants', 20, CODING, 'claude-cli/2.0', {}),
      key('hb-review', 'Review bot', 8, CODING, 'ai-sdk/6.0', { rhythm: 'even' }),
      key('hb-old', 'Prototype', 2, CHATTING, 'curl/8.5', { disabled: true, endedDaysAgo: 12 }),
    ],
  },
  {
    id: 'lumen',
    name: 'Lumen School',
    left: '58.2',
    keys: [
      key('lm-tutor', 'Tutor', 9, CHATTING, 'langchain/1.0', { policy: TUTOR_POLICY }),
      key('lm-audio', 'Read aloud', 5, { 'demo/echo-voice': 1 }, 'node', {}),
      key('lm-summer', 'Summer course', 2, CHATTING, 'langchain/1.0', { endedDaysAgo: 18 }),
    ],
  },
  {
    id: 'ferry',
    name: 'Ferry Podcasts',
    left: '0.37',
    keys: [
      key('fp-minutes', 'Transcripts', 4, { 'demo/logbook': 1 }, 'python-httpx/0.28', {
        rhythm: 'even',
      }),
      key('fp-notes', 'Show notes', 3, { 'demo/atlas-small': 1 }, 'openai/python 2.1', {}),
    ],
  },
  {
    id: 'meadow',
    name: 'Meadow Lab',
    keys: [key('md-try', 'First steps', 4, { 'demo/sextant-free': 1 }, 'openai/js 7.0', {})],
  },
]

function key(
  id: string,
  name: string,
  weight: number,
  models: DemoKey['models'],
  agent: string,
  rest: Partial<DemoKey>,
): DemoKey {
  return { id, name, weight, models, agent, rhythm: 'office', ...rest }
}
