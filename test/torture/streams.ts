/**
 * `node test/torture/streams.ts`: thousands of streams at once through one gateway in its default configuration, each with an
 * event every second. None may be cut or lack anything, and every one has to be charged; how much later events come than
 * straight from the vendor, what an event costs, and what an open stream takes of memory. Options: `--streams <n>` (5000),
 * `--seconds <n>` (about 300) with all of them open, `--short` (500 for 20 s, where the delay is not judged).
 */
import { fork, spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { formatPico, parsePico } from '../../src/money/money.ts'
import type { Figures } from '../bench/judge.ts'
import type { Job, Target } from '../bench/load.ts'
import { startGateway } from './_gateway.ts'

const { values } = parseArgs({
  options: {
    short: { type: 'boolean', default: false },
    streams: { type: 'string' },
    seconds: { type: 'string' },
  },
})
const streams = Number(values.streams ?? (values.short ? 500 : 5000))
const seconds = Number(values.seconds ?? (values.short ? 20 : 300))
const MOST_DELAY_MS = 10
/** The seconds in which all streams are opened, a hundred at a time. */
const openingSeconds = 10 + Math.ceil(streams / 100)
/** The gap straight from the vendor is known sooner. */
const straightSeconds = Math.min(seconds, 60)
const answerFor = (open: number) => `sse-spread-${openingSeconds + open}-1000`
/** The gateway has two for each stream, and some of its own. */
const descriptors = 2 * streams + 500
/** What the vendor says that each answer took, at the prices below. */
const COST = '0.0045'
const KEY = 'torture-streams-0123456789'
const PORT = 18_000 + (process.pid % 10_000)
const BENCH = join(import.meta.dirname, '../bench')
const folder = mkdtempSync(join(tmpdir(), 'gateway-'))
const ending: (() => void)[] = [() => rmSync(folder, { recursive: true, force: true })]
process.on('exit', () => ending.forEach((end) => end()))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))

/** Keeps a process on one processor, where there are two and the system can. */
function pin(pid: number, processor: number): void {
  if (cpus().length > 1) spawnSync('taskset', ['-acp', String(processor), String(pid)])
}

function keep(child: ChildProcess): ChildProcess {
  ending.push(() => void child.kill('SIGKILL'))
  pin(child.pid!, 1)
  return child
}

async function startVendor(): Promise<ChildProcess> {
  const child = keep(spawn(process.execPath, [join(BENCH, 'upstream.ts'), `${PORT}`]))
  for (;;) {
    const socket = connect(PORT, '127.0.0.1')
    const [isOpen] = await Promise.race([
      once(socket, 'connect').then(() => [true]),
      once(socket, 'error').then(() => [false]),
    ]).catch(() => [false])
    socket.destroy()
    if (isOpen) return child
    await sleep(20)
  }
}

/** Has the clients of the bench do a job. @throws Error for the first answer that is cut or wrong */
async function play(target: Target, job: Partial<Job> & Pick<Job, 'kind'>): Promise<Figures> {
  const clients = keep(fork(join(BENCH, 'load.ts')))
  const usual = { answer: '', lanes: streams, requestBytes: 2048, warmRequests: 0 }
  clients.send({ target, job: { ...usual, ms: 0, everyMs: 0, ...job } })
  const [answer] = (await once(clients, 'message')) as [{ figures?: Figures; error?: string }]
  clients.disconnect()
  if (!answer.figures) throw new Error(answer.error)
  return answer.figures
}

const config = join(folder, 'gateway.config.yaml')
const many = 'rpm_limit: 100000000, concurrency_limit: 100000'
writeFileSync(
  config,
  `
state: { path: '${join(folder, 'data')}' }
providers:
  vendor:
    use: openai-compatible
    options: { baseURL: 'http://127.0.0.1:${PORT}/v1', apiKey: none }
    connections: 100000
models:
  bench/model:
    pricing: { prompt: '0.000001', completion: '0.000004' }
    capabilities: [STREAMING]
    deployments: [{ provider: vendor, model: model }]
seed:
  accounts:
    - id: torture
      name: Torture
      credits: '1000000'
      keys: [{ id: streams, name: Streams, secret: '${KEY}', ${many}, spend_cap: { usd: '900000', scope: month } }]
`,
)

const limit = Number(
  /^Max open files +\d+ +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1],
)
if (limit < descriptors) {
  process.stdout.write(
    `FAILED: needs ${descriptors} open files, the limit is ${limit} (ulimit -n)\n`,
  )
  process.exit(1)
}
const vendor = await startVendor()
const gateway = await startGateway(config, folder)
pin(gateway.pid, 0)
const through = { url: gateway.url, pid: gateway.pid, key: KEY, gateway: true }
const direct = { url: `http://127.0.0.1:${PORT}`, pid: vendor.pid!, key: KEY, gateway: false }

async function spent(): Promise<bigint> {
  const headers = { authorization: `Bearer ${KEY}` }
  const text = await (await fetch(`${gateway.url}/v1/key`, { headers })).text()
  return parsePico(/"spend_usd":([\d.]+)/.exec(text)![1]!)
}

const faults: string[] = []
try {
  // What compilers and pools take is there before streams are counted.
  await play(through, {
    kind: 'closed',
    answer: 'sse-fast-50',
    lanes: 16,
    warmRequests: 300,
    ms: 500,
  })
  const before = await spent()
  // They are watched from the moment when all are open until the first one ends.
  const job = { kind: 'streams', ms: 1e9 } as const
  const straightMs = async () =>
    (await play(direct, { ...job, answer: answerFor(straightSeconds) })).gapP99Ms!
  const earlierMs = await straightMs()
  const figures = await play(through, { ...job, answer: answerFor(seconds) })
  // The machine is not the same at all times: two figures around this one tell more than one before it.
  const laterMs = values.short ? earlierMs : await straightMs()
  const delayMs = figures.gapP99Ms! - (earlierMs + laterMs) / 2
  // The last event of a stream waits for its charge, so that none is late.
  const due = parsePico(COST) * BigInt(streams)
  const paid = (await spent()) - before
  if (paid !== due) faults.push(`charged ${formatPico(paid)} USD instead of ${formatPico(due)}`)
  if (!values.short && delayMs > MOST_DELAY_MS) {
    faults.push(
      `the gap between events is ${delayMs.toFixed(1)} ms longer than straight from the vendor`,
    )
  }
  process.stdout.write(
    `${streams} streams, an event every second, all open for about ${seconds} s: none cut, ${formatPico(paid)} USD charged; ` +
      `gap p99 ${figures.gapP99Ms!.toFixed(1)} ms, straight ${earlierMs.toFixed(1)} ms before it and ${laterMs.toFixed(1)} ms after it; ` +
      `${figures.cpuMicros!.toFixed(0)} us of processor time an event; ` +
      `${figures.kbPerStream!.toFixed(1)} KB a stream, ${Math.round(figures.perGb!)} streams a GB\n`,
  )
} catch (error) {
  faults.push((error as Error).message)
}
await gateway.kill()
for (const fault of faults) process.stdout.write(`FAILED: ${fault}\n`)
process.exit(faults.length === 0 ? 0 : 1)
