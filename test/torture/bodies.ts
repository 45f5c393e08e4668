/**
 * `node test/torture/bodies.ts`: what bodies that are cheap to send and dear to parse cost a gateway, and how long its other
 * clients wait meanwhile. Thirty requests at once on one key, for each kind of body and coding; beside them a probe asks for
 * `/livez`, there and at an idle gateway on the same machine. Large bodies that clients do send pass, in every coding. Options: `--mib <n>`, the decoded size of a body (8).
 */
import { Console } from 'node:console'
import { once } from 'node:events'
import { request } from 'node:http'
import { parseArgs } from 'node:util'
import { Worker } from 'node:worker_threads'
import { forkGateway, type ForkedGateway } from '../_forked.ts'
import { slowness } from '../_patience.ts'
import { CODINGS, hostileBodies, ordinaryBodies } from '../server/_hostile-bodies.ts'

const AT_ONCE = 30
const BODIES = ['brackets', 'members', 'objects', 'strings']
const MIB = 1024 * 1024
/**
 * The longest turn, in ms of the processor time of the thread that serves, where the machine is not slow. Another
 * process on the processor does not count.
 */
const MOST_TURN_MS = 100
/** A turn that is long once was a collection of garbage; what a body costs, it costs each time. */
const TRIES = 3
/** Too deep, too many values, too much memory for one key. */
const REFUSALS = [400, 413, 429]

const { values } = parseArgs({ options: { mib: { type: 'string', default: '8' } } })
const hostile = hostileBodies(Number(values.mib) * MIB)
const CONFIG = {
  providers: { mock: { use: 'mock' } },
  models: {
    'mock/echo': {
      pricing: { prompt: '0.000001', completion: '0.000001' },
      capabilities: ['VISION', 'TOOLS', 'STRUCTURED_OUTPUTS'],
      deployments: [{ provider: 'mock', model: 'echo' }],
    },
  },
}

/** A thread of its own: what this one does must not look like a delay of the gateway. */
const PROBE = `
const { Agent, get } = require('node:http')
const { parentPort, workerData: url } = require('node:worker_threads')
const agent = new Agent({ keepAlive: true, maxSockets: 1 })
let worst = 0
const ask = () => {
  const asked = performance.now()
  get(url + '/livez', { agent }, (answer) => answer.resume().once('end', () => {
    worst = Math.max(worst, performance.now() - asked)
    setTimeout(ask, 2)
  }))
}
ask()
parentPort.on('message', () => {
  parentPort.postMessage(worst)
  worst = 0
})
`

class Probe {
  readonly #worker: Worker

  constructor(url: string) {
    this.#worker = new Worker(PROBE, { eval: true, workerData: url })
  }

  /** Longest wait since the last time this was asked, ms. */
  async worst(): Promise<number> {
    this.#worker.postMessage('worst')
    const [worst] = await once(this.#worker, 'message')
    return worst
  }

  async close(): Promise<void> {
    await this.#worker.terminate()
  }
}

/** @returns the status of the answer */
async function post(gateway: ForkedGateway, coding: string, body: Buffer): Promise<number> {
  const sent = request(`${gateway.baseURL}/chat/completions`, {
    method: 'POST',
    agent: false,
    headers: {
      authorization: `Bearer ${gateway.key}`,
      'content-type': 'application/json',
      'content-encoding': coding,
    },
  })
  // A body that was refused is not read to its end.
  sent.on('error', () => {})
  sent.end(body)
  const [response] = await once(sent, 'response')
  await once(response.resume(), 'close')
  return response.statusCode
}

interface Attack {
  /** The row of the table. */
  readonly row: object
  readonly longestTurnMs: number
  readonly statuses: readonly number[]
}

/** Sends one kind of body, thirty times at once. */
async function attack(gateway: ForkedGateway, name: string, coding: string): Promise<Attack> {
  const body = CODINGS[coding]!(hostile[name]!)
  const before = await gateway.usage()
  await Promise.all([probe.worst(), idle.worst()])
  const statuses = await Promise.all(
    Array.from({ length: AT_ONCE }, () => post(gateway, coding, body)),
  )
  const [livez, beside] = await Promise.all([probe.worst(), idle.worst()])
  const { cpuMs, most, longestTurnMs } = await gateway.usage()
  const row = {
    body: name,
    coding,
    statuses: [...new Set(statuses)].join(' '),
    'CPU ms per request': Number(((cpuMs - before.cpuMs) / AT_ONCE).toFixed(1)),
    'MiB above idle': Math.round((most - idleBytes) / MIB),
    'longest turn, CPU ms': Math.round(longestTurnMs),
    'worst /livez ms': Math.round(livez),
    'idle gateway ms': Math.round(beside),
  }
  return { row, longestTurnMs, statuses }
}

await using attacked = await forkGateway(CONFIG)
await using other = await forkGateway(CONFIG)
const [probe, idle] = [new Probe(attacked.url), new Probe(other.url)]
// The first body of each coding pays for loading and compiling.
for (const coding of Object.keys(CODINGS)) {
  await post(attacked, coding, CODINGS[coding]!(hostile.brackets!))
}
const { rss: idleBytes } = await attacked.usage()
const table: Attack[] = []
const statuses: number[] = []
for (const name of BODIES) {
  for (const coding of Object.keys(CODINGS)) {
    const tries: Attack[] = []
    do tries.push(await attack(attacked, name, coding))
    while (tries.length < TRIES && tries.at(-1)!.longestTurnMs > MOST_TURN_MS)
    statuses.push(...tries.flatMap((one) => one.statuses))
    table.push(
      tries.reduce((one, other) => (other.longestTurnMs < one.longestTurnMs ? other : one)),
    )
  }
}
let passed = 0
for (const [name, body] of Object.entries(ordinaryBodies('mock/echo'))) {
  for (const [coding, encode] of Object.entries(CODINGS)) {
    const status = await post(attacked, coding, encode(body))
    if (status === 200) passed++
    else fail(`${name} in ${coding}: ${status}`)
  }
}
process.stdout.write(`${passed} large ordinary bodies answered with 200\n`)
new Console(process.stdout).table(table.map(({ row }) => row))
await Promise.all([probe.close(), idle.close()])
const longest = Math.max(...table.map(({ longestTurnMs }) => longestTurnMs))
const others = statuses.filter((one) => !REFUSALS.includes(one))
const most = MOST_TURN_MS * slowness()
if (longest > most) fail(`a turn took ${longest.toFixed(0)} ms each time, of ${most.toFixed(0)}`)
if (others.length > 0) fail(`answered with ${others.join(' ')}`)
if (!process.exitCode) process.stdout.write('ok: bodies\n')

function fail(why: string): void {
  process.stdout.write(`FAILED: ${why}\n`)
  process.exitCode = 1
}
