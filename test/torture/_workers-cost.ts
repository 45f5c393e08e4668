/** What a call costs of processor time with two workers, against one. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { Client } from 'undici'
import { report } from './_clients.ts'
import type { GatewayProcess } from './_gateway.ts'
import { connectionsOf, cpuMicros, wakeUps, workersOf } from './_processes.ts'

/** Callers of each worker: what a call costs depends on how many are served at once. */
const CALLERS = 32

interface CostOptions {
  readonly secret: string
  /** The port of the vendor that the gateways ask, which runs meanwhile. */
  readonly vendorPort: number
  /** A few short rounds beside other processes are not judged. */
  readonly isShort: boolean
}

/** What one call took, µs and times. */
interface Cost {
  readonly micros: number
  readonly wakeUps: number
}

/** One gateway with one worker, one with two, and two gateways with one each, on the same Redis. */
interface Compared {
  readonly one: GatewayProcess
  readonly two: GatewayProcess
  readonly apart: readonly GatewayProcess[]
}

/**
 * Reports what calls cost. Two gateways tell what two processes cost on this machine, which has fewer calls for each turn of
 * an event loop, and the load on the same processors; two workers may cost little more.
 */
export async function measureCost(
  { one, two, apart }: Compared,
  { secret, vendorPort, isShort }: CostOptions,
): Promise<void> {
  const [rounds, requests, most] = isShort ? [3, 1500, Infinity] : [7, 8000, 1.1]
  const vendor = spawn(process.execPath, [
    join(import.meta.dirname, '../bench/upstream.ts'),
    `${vendorPort}`,
  ])
  const end = () => void vendor.kill('SIGKILL')
  process.on('exit', end)
  const all = [
    new Callers([one], CALLERS, secret),
    new Callers([two], 2 * CALLERS, secret),
    new Callers(apart, 2 * CALLERS, secret),
  ]
  for (const each of all) {
    await each.connect()
    // Compilers need some thousands of calls.
    for (let i = 0; i < 3; i++) await each.play(requests)
  }
  const costs: Cost[][] = all.map(() => [])
  for (let round = 0; round < rounds; round++) {
    // Each is the first as often as the others.
    for (let turn = 0; turn < all.length; turn++) {
      const i = (round + turn) % all.length
      costs[i]!.push(await all[i]!.play(requests))
    }
  }
  const ratios = (of: number, to: number) =>
    costs[of]!.map(({ micros }, round) => micros / costs[to]![round]!.micros)
  const told = costs.map((some) => {
    const micros = median(some.map((cost) => cost.micros)).toFixed(0)
    return `${micros} us and ${median(some.map((cost) => cost.wakeUps)).toFixed(2)} wake-ups`
  })
  const [first, second] = connectionsOf(two, workersOf(two)) as [number, number]
  const part = first / (first + second)
  const [toOne, toApart] = [ratios(1, 0), ratios(1, 2)]
  report(
    median(toOne) <= most && part >= 0.4 && part <= 0.6,
    `a call takes ${told[0]} with one worker, ${told[1]} with two, ${told[2]} with two gateways; ` +
      `ratio to one ${inWords(toOne)}, to two gateways ${inWords(toApart)}; connections ${first} and ${second}`,
    { 'answers without cost': all.reduce((sum, { wrong }) => sum + wrong, 0) },
  )
  await Promise.all(all.map((each) => each.close()))
  process.off('exit', end)
  end()
}

function inWords(ratios: readonly number[]): string {
  return `${median(ratios).toFixed(3)} (${ratios.map((ratio) => ratio.toFixed(2)).join(' ')})`
}

/** Callers of gateways by turns, each with a connection of its own. */
class Callers {
  readonly #clients: readonly Client[]
  readonly #pids: readonly number[]
  readonly #request: { method: 'POST'; path: string; headers: Record<string, string>; body: string }
  /** Answers that did not state what they cost. */
  wrong = 0

  constructor(gateways: readonly GatewayProcess[], count: number, secret: string) {
    const messages = [{ role: 'user', content: `answer=json-4k; ${'word '.repeat(380)}` }]
    this.#clients = Array.from(
      { length: count },
      (_, i) => new Client(gateways[i % gateways.length]!.url),
    )
    this.#pids = gateways.flatMap((gateway) => [gateway.pid, ...workersOf(gateway)])
    this.#request = {
      method: 'POST',
      path: '/v1/chat/completions',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'bench/model', messages }),
    }
  }

  /** One after the other: at once, a worker that just does not run would get fewer of them. */
  async connect(): Promise<void> {
    for (const client of this.#clients) await (await client.request(this.#request)).body.dump()
  }

  async play(requests: number): Promise<Cost> {
    let left = requests
    const before = [cpuMicros(this.#pids), wakeUps(this.#pids)] as const
    await Promise.all(
      this.#clients.map(async (client) => {
        while (left-- > 0) {
          const answer = await client.request(this.#request)
          if (!(await answer.body.text()).includes('"cost":')) this.wrong++
        }
      }),
    )
    return {
      micros: (cpuMicros(this.#pids) - before[0]) / requests,
      wakeUps: (wakeUps(this.#pids) - before[1]) / requests,
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.destroy()))
  }
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1]!
}
