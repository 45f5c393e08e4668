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
  /** Of the vendor that the gateways ask, which runs meanwhile. */
  readonly vendorPort: number
  /** A few short rounds beside other processes are not judged. */
  readonly isShort: boolean
}

/** What one call took, µs and times. */
interface Cost {
  readonly micros: number
  readonly wakeUps: number
}

/** Reports what calls cost. @param gateways with one worker and with two */
export async function measureCost(
  gateways: readonly [GatewayProcess, GatewayProcess],
  { secret, vendorPort, isShort }: CostOptions,
): Promise<void> {
  const [rounds, requests, most] = isShort ? [3, 1500, Infinity] : [7, 8000, 1.1]
  const vendor = spawn(process.execPath, [
    join(import.meta.dirname, '../bench/upstream.ts'),
    `${vendorPort}`,
  ])
  const end = () => void vendor.kill('SIGKILL')
  process.on('exit', end)
  const [one, two] = gateways.map((gateway, i) => new Callers(gateway, CALLERS * (i + 1), secret))
  for (const each of [one!, two!]) {
    await each.connect()
    // Compilers need some thousands of calls.
    for (let i = 0; i < 3; i++) await each.play(requests)
  }
  const costs: [Cost, Cost][] = []
  for (let round = 0; round < rounds; round++) {
    // Each begins as often as the other.
    if (round % 2 === 0) costs.push([await one!.play(requests), await two!.play(requests)])
    else
      costs.push(
        [await two!.play(requests), await one!.play(requests)].toReversed() as [Cost, Cost],
      )
  }
  const ratios = costs.map(([ofOne, ofTwo]) => ofTwo.micros / ofOne.micros)
  const told = [0, 1].map((i) => {
    const micros = median(costs.map((pair) => pair[i]!.micros)).toFixed(0)
    return `${micros} us and ${median(costs.map((pair) => pair[i]!.wakeUps)).toFixed(2)} wake-ups`
  })
  const [first, second] = connectionsOf(gateways[1], workersOf(gateways[1])) as [number, number]
  const part = first / (first + second)
  report(
    median(ratios) <= most && part >= 0.4 && part <= 0.6,
    `a call takes ${told[0]} with one worker, ${told[1]} with two, ` +
      `ratio ${median(ratios).toFixed(3)} (${ratios.map((ratio) => ratio.toFixed(2)).join(' ')}); ` +
      `connections ${first} and ${second}`,
    { 'answers without cost': one!.wrong + two!.wrong },
  )
  await Promise.all([one!.close(), two!.close()])
  process.off('exit', end)
  end()
}

/** Callers of one gateway, each with a connection of its own. */
class Callers {
  readonly #clients: readonly Client[]
  readonly #pids: readonly number[]
  readonly #request: { method: 'POST'; path: string; headers: Record<string, string>; body: string }
  /** Answers that did not state what they cost. */
  wrong = 0

  constructor(gateway: GatewayProcess, count: number, secret: string) {
    const messages = [{ role: 'user', content: `answer=json-4k; ${'word '.repeat(380)}` }]
    this.#clients = Array.from({ length: count }, () => new Client(gateway.url))
    this.#pids = [gateway.pid, ...workersOf(gateway)]
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
