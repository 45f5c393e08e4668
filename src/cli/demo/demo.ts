/** `serve --demo`: a gateway with a month of invented calls, in a folder that goes with the process. */
import { createConsola, type ConsolaInstance } from 'consola'
import { mkdtempSync, rmSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Accounts } from '../../accounts/accounts.ts'
import type { NewKey } from '../../accounts/stored.ts'
import {
  loadConfig,
  type Config,
  type LoadedConfig,
  type LoadOptions,
} from '../../config/config.ts'
import { closeState, openState } from '../../gateway/open-state.ts'
import type { SeedReport } from '../../gateway/seed.ts'
import { formatPico, parsePico, type Pico } from '../../money/money.ts'
import { compilePrices } from '../../money/prices.ts'
import { RequestLog } from '../../observe/log/request-log.ts'
import { CalledTables } from '../../observe/usage/called.ts'
import { openTables } from '../../observe/usage/tables.ts'
import { readPolicy } from '../../policy/policy.ts'
import { createFile } from '../../state/sqlite/file.ts'
import type { Ledger, RowItem } from '../../state/ledger/ledger.ts'
import { PriceRecords } from '../../state/prices.ts'
import { CommandError, type Arguments } from '../command.ts'
import { callsOf, DAYS, type DemoCall, type Random } from './month.ts'
import { ACCOUNTS, type DemoAccount, type DemoKey } from './people.ts'

/** A demo that is ready to be served. */
export interface Demo {
  readonly loaded: LoadedConfig
  readonly options: LoadOptions
  /** What its start tells. @param showKey also its first key */
  report(showKey: boolean): SeedReport
  /** Asks a model every two seconds, until it is told to stop. @param url of the gateway */
  keepAsking(url: string): () => void
  /** Removes the folder. */
  release(): void
}

const FILE = fileURLToPath(
  new URL(`../../../config/demo${extname(import.meta.url)}`, import.meta.url),
)
const DAY_MS = 24 * 3_600_000
const ASK_MS = 2000
/** Rows of a batch: as many as the request log takes before it has stored some. */
const BATCH = 4000
const SEED = 1
const SIGNALS = ['SIGINT', 'SIGTERM'] as const

/**
 * Makes the folder and fills it.
 * @throws CommandError with options that name other state, or a seed that is no number
 */
export async function openDemo({ text, on }: Arguments): Promise<Demo> {
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
  const folder = mkdtempSync(join(tmpdir(), 'sluicegate-demo-'))
  const release = () => rmSync(folder, { recursive: true, force: true })
  // Also where the process ends without an end.
  process.once('exit', release)
  const options = { file: FILE, cwd: folder, data: folder }
  const loaded = await loadConfig(options)
  if (loaded.config.state.driver !== 'file') {
    throw new CommandError(
      '--demo keeps its state in a folder of its own: remove SLUICEGATE__STATE.',
      2,
    )
  }
  // A signal while it is filled ends the process at once, and the folder with it.
  const end = () => process.exit(1)
  for (const signal of SIGNALS) process.once(signal, end)
  const secret = await fill(loaded, randomFrom(seed), Date.now())
  for (const signal of SIGNALS) process.off(signal, end)
  const account = ACCOUNTS[0]!.id
  return {
    loaded,
    options,
    release,
    report: (showKey) => ({ accounts: [], keys: [], ...(showKey && { secret, account }) }),
    keepAsking: (url) => keepAsking(url, secret),
  }
}

/** Writes accounts, keys, calls and bookings. @returns the secret of the first key */
async function fill(loaded: LoadedConfig, random: Random, now: number): Promise<string> {
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
    let first = ''
    for (const account of ACCOUNTS) {
      await accounts.createAccount({ id: account.id, name: account.name })
      for (const key of account.keys) {
        const { secret } = await accounts.createKey(account.id, settingsOf(key, spent, now))
        first ||= secret
      }
    }
    const prices = new PriceRecords(state.records, log)
    const priced = Object.values(config.models).map(({ pricing }) => compilePrices(pricing))
    await prices.keep(priced.map((one) => ({ prices: one })))
    const bookings = ACCOUNTS.flatMap((account) => bookingsOf(account, spent, begin))
    const rows = [...bookings, ...calls.map(({ item }) => item)].toSorted((a, b) => a.at - b.at)
    await Promise.all([importRows(state.ledger, rows), writeLog(config, calls, log, now)])
    return first
  } finally {
    await closeState(state)
  }
}

async function importRows(ledger: Ledger, rows: readonly RowItem[]): Promise<void> {
  for (let at = 0; at < rows.length; at += BATCH) {
    const { refused } = await ledger.import(rows.slice(at, at + BATCH))
    if (refused !== undefined) throw new CommandError(`The demo could not be written: ${refused}`)
  }
}

async function writeLog(
  { log: { path: folder, keep, size } }: Config,
  calls: readonly DemoCall[],
  log: ConsolaInstance,
  now: number,
): Promise<void> {
  if (folder === undefined) return
  await mkdir(folder, { recursive: true, mode: 0o700 })
  // The log takes rows of days whose file it has.
  for (let day = 0; day <= DAYS; day++) {
    createFile(join(folder, `${new Date(now - day * DAY_MS).toISOString().slice(0, 10)}.db`))
  }
  const requests = new RequestLog({
    place: { folder },
    keep: Math.max(keep, DAYS + 1),
    size,
    log,
  })
  // Beside it stands what usage knows of statuses, refusals and decisions; the rest of usage is read from the ledger.
  const tables = openTables(folder)
  try {
    const called = new CalledTables(tables.db)
    requests.onBatch = (lines) => called.add(lines)
    for (let at = 0; at < calls.length; at += BATCH) {
      for (const { record } of calls.slice(at, at + BATCH)) requests.add(record)
      // An answer comes after everything before it is stored.
      await requests.list({ filters: {}, limit: 1 })
    }
    await requests.close()
  } finally {
    tables.close()
  }
}

/** Three bookings, which leave what the account is to have left. */
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

/** mulberry32: a generator of 32 bits that needs no more than its seed. */
function randomFrom(seed: number): Random {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
