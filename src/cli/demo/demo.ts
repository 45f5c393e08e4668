/** `serve --demo`: a gateway with a month of invented calls, in a folder that goes with the process. */
import { createConsola } from 'consola'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Accounts } from '../../accounts/accounts.ts'
import type { NewKey } from '../../accounts/stored.ts'
import { loadConfig, type LoadedConfig, type LoadOptions } from '../../config/config.ts'
import type { DemoState, Gateway } from '../../gateway/gateway.ts'
import { closeState, openState } from '../../gateway/open-state.ts'
import type { SeedReport } from '../../gateway/seed.ts'
import { formatPico, parsePico, type Pico } from '../../money/money.ts'
import { compilePrices } from '../../money/prices.ts'
import { readPolicy } from '../../policy/policy.ts'
import type { RowItem } from '../../state/ledger/ledger.ts'
import { PriceRecords } from '../../state/prices.ts'
import { CommandError, type Arguments } from '../command.ts'
import { fillMonth, importRows, makeDays, type Month } from './fill.ts'
import { callsOf, DAYS, DAY_MS, type Random } from './month.ts'
import { ACCOUNTS, type DemoAccount, type DemoKey } from './people.ts'

/** A demo: accounts, keys, and a month of calls that is written while the gateway serves. */
export interface Demo extends DemoState {
  readonly loaded: LoadedConfig
  readonly options: LoadOptions
  /** The report of the start. @param showKey also its first key */
  report(showKey: boolean): SeedReport
  /**
   * Writes the month, and asks a model every two seconds.
   * @param url of the gateway.
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
