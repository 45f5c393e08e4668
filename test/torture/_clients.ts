/** Clients of gateways with state in Redis: what they are told is held against the ledger. */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import { parsePico } from '../../src/money/money.ts'
import type { Log } from '../../src/state/ledger/ledger.ts'
import { openRedis } from '../../src/state/redis/engine.ts'
import type { RedisServer } from '../state/redis/_redis.ts'
import type { GatewayProcess } from './_gateway.ts'

const COST = /"cost":(\d+(?:\.\d+)?)[,}]/g
/** Progress is for people. */
const SILENT = { info() {}, warn() {}, error() {} } as unknown as Log

/** What a client was told. */
export interface Heard {
  readonly id: string
  readonly status: number
  readonly code: string | undefined
  readonly retryAfter: string | undefined
  /** The cost as it was written at the last place that says it, in USD. */
  readonly cost: string | undefined
  /** Whether an answer came to its end. */
  readonly whole: boolean
}

/** What clients were told. */
export class Clients {
  readonly costs = new Map<string, string>()
  readonly refusals = new Map<string, number>()
  readonly #pools = new Map<string, Pool>()

  async ask(
    { url }: GatewayProcess,
    secret: string,
    model: string,
    content: string,
    onHead: (status: number) => void = () => {},
  ): Promise<Heard> {
    let pool = this.#pools.get(url)
    if (!pool) this.#pools.set(url, (pool = new Pool(url, { connections: 2000, bodyTimeout: 0 })))
    const stream = model !== 'mock/echo'
    const body = JSON.stringify({ model, stream, messages: [{ role: 'user', content }] })
    const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' }
    const request = { method: 'POST', path: '/v1/chat/completions', headers, body } as const
    let [text, id, status, whole] = ['', '', 0, false]
    let retryAfter: string | undefined
    try {
      const answer = await pool.request(request)
      status = answer.statusCode
      onHead(status)
      id = String(answer.headers['x-service-request-id'])
      retryAfter = answer.headers['retry-after'] as string | undefined
      for await (const chunk of answer.body) text += chunk
      whole = !stream || text.endsWith('data: [DONE]\n\n')
    } catch {
      // The gateway was killed: what was read until then counts.
    }
    const cost = status === 200 ? [...text.matchAll(COST)].at(-1)?.[1] : undefined
    if (cost !== undefined) this.costs.set(id, cost)
    const code = status === 200 ? undefined : (/"code":"(\w+)"/.exec(text)?.[1] ?? 'none')
    if (code) {
      const name = `${status} ${code}`
      this.refusals.set(name, (this.refusals.get(name) ?? 0) + 1)
    }
    return { id, status, code, retryAfter, cost, whole }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#pools.values()].map((pool) => pool.destroy()))
  }
}

/**
 * Rows of the account `torture` against what clients were told.
 * @param folder the folder for the outbox of the reader
 * @returns how often what was wrong, and how many calls were charged to no account
 */
export async function booked({ costs }: Clients, redis: RedisServer, folder: string) {
  const wrong = { missing: 0, doubled: 0, amount: 0, sums: 0 }
  let orphans = 0
  const { ledger, records } = await openRedis({
    url: redis.url,
    outbox: join(folder, 'reader'),
    log: SILENT,
  })
  const rows = new Map<string, bigint>()
  for await (const { kind, request, cost } of ledger.usage('torture')) {
    if (kind === 'orphan') orphans++
    if (kind !== 'usage') continue
    if (rows.has(request)) wrong.doubled++
    rows.set(request, cost)
  }
  for (const [request, cost] of costs) {
    if (!rows.has(request)) wrong.missing++
    else if (rows.get(request) !== parsePico(cost)) wrong.amount++
  }
  wrong.sums += (await ledger.verify()).length
  await ledger.close()
  await records.close()
  return { wrong, orphans }
}

/** A number out of the metrics of a gateway. */
export async function metric(
  { url }: GatewayProcess,
  name: string,
  token: string,
): Promise<number> {
  // A connection of its own: one that was kept may lead to a process that has ended.
  const headers = { authorization: `Bearer ${token}`, connection: 'close' }
  const text = await (await fetch(`${url}/metrics`, { headers })).text()
  const found = new RegExp(`^${name} (\\d+)`, 'm').exec(text)
  if (!found) throw new Error(`${name} is not among the metrics`)
  return Number(found[1])
}

/** Waits until something holds. @returns the ms that it took; Infinity where it does not in time */
export async function until(holds: () => Promise<boolean>, withinMs: number): Promise<number> {
  const started = performance.now()
  while (!(await holds())) {
    if (performance.now() - started > withinMs) return Infinity
    await sleep(50)
  }
  return performance.now() - started
}

/** Prints what was done, and what was wrong; anything wrong makes the process fail. */
export function report(good: boolean, what: string, wrong: Record<string, number>): void {
  const all = good && Object.values(wrong).every((count) => count === 0)
  if (!all) process.exitCode = 1
  const counts = Object.entries(wrong).map(([name, count]) => `${name} ${count}`)
  process.stdout.write(`${all ? 'ok' : 'FAILED'}: ${what}; wrong: ${counts.join(', ')}\n`)
}
