/**
 * `npm run torture -- soak`: a gateway in a process of its own under a mixed load: requests for every route, damaged ones,
 * streams that are slow, clients that leave in the middle, reloads. From time to time the callers stop, and what the gateway
 * holds is counted: memory after a garbage collection, descriptors, sockets, running calls, leases, money held. All of that
 * has to be flat, and the ledger exact. Needs `/proc`.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { formatPico } from '../../src/money/money.ts'
import { events, startUpstream } from '../upstream.ts'
import { GRAMMAR } from './_bodies.ts'
import { Connection, NoAnswer } from './_connection.ts'
import { examine } from './_contract.ts'
import { damage, toText } from './_json.ts'
import { pick, randomOf, type Random } from './_random.ts'
import { readOptions, Run } from './_run.ts'
import type { Figures, Order } from './_soak-gateway.ts'

const AMOUNTS = {
  short: { count: Infinity, seconds: 20 },
  long: { count: Infinity, seconds: 1800 },
}
const options = readOptions(AMOUNTS, 'file')
const run = new Run('soak', options)
const LANES = options.short ? 20 : 60
/** The last lanes leave in the middle of their streams. */
const LEAVING = LANES / 5
const SAMPLES = options.short ? 6 : 30
const RELOADS = 4

interface Caller {
  readonly secret: string
  readonly leaves: boolean
  connection: Connection
  spent: bigint
}

/** A vendor whose streams take from a moment to seconds. */
async function startVendor() {
  const vendor = await startUpstream()
  let asked = 0
  const delta = (content: string) => ({ choices: [{ index: 0, delta: { content } }] })
  vendor.answer(() => {
    asked++
    ;(vendor.requests as unknown[]).length = 0
    const words = Array.from({ length: 5 + (asked % 40) }, (_, i) => delta(`word ${i} `))
    const usage = { prompt_tokens: 9, completion_tokens: words.length * 3 }
    const end = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage }
    const { headers, pieces } = events(...words, end, '[DONE]')
    const [text] = pieces as [string]
    const split = text.split('\n\n').slice(0, -1)
    const endings = { 7: 'cut', 13: 'reset' } as const
    const ending = endings[(asked % 50) as 7] ?? 'end'
    return {
      headers: headers!,
      pieces: split.map((one) => `${one}\n\n`),
      pauseMs: asked % 60,
      ending,
    }
  })
  return vendor
}

const vendor = await startVendor()
const child = fork(
  join(import.meta.dirname, '_soak-gateway.ts'),
  [JSON.stringify({ driver: options.driver, lanes: LANES, vendor: vendor.url })],
  { execArgv: ['--expose-gc'] },
)
process.once('exit', () => child.kill('SIGKILL'))
let isEnding = false
child.once('exit', (code) => isEnding || run.fault(`the gateway ended with ${code}`))

async function order<Answer>(what: Order): Promise<Answer> {
  child.send(what)
  const [answer] = (await once(child, 'message')) as [Answer]
  return answer
}

async function call(caller: Caller, random: Random): Promise<void> {
  const slow = caller.leaves || random(4) === 0
  const path = slow ? '/v1/chat/completions' : pick(random, Object.keys(GRAMMAR))
  const messages = [{ role: 'user', content: 'Say a few words.' }]
  let body: any = slow ? { model: 'm/slow', messages, stream: true } : GRAMMAR[path]!(random)
  if (!slow && random(5) === 0) body = damage(body, random)
  const bytes = Buffer.from(toText(body))
  const head =
    `POST ${path} HTTP/1.1\r\nhost: t\r\nauthorization: Bearer ${caller.secret}\r\n` +
    `content-type: application/json\r\ncontent-length: ${bytes.length}\r\n\r\n`
  const leaving = caller.leaves
    ? setTimeout(() => caller.connection.close(), random(800))
    : undefined
  try {
    const answer = await caller.connection.exchange([Buffer.concat([Buffer.from(head), bytes])])
    const format = body?.stream_format ?? body?.response_format
    const asked = {
      path,
      stream: body?.stream === true || body?.stream_format === 'sse',
      usageChunk: body?.stream_options?.include_usage === true,
      format: typeof format === 'string' ? format : undefined,
    }
    const { fault, cost, code } = examine(asked, answer)
    if (fault && !(caller.leaves && !answer.whole)) run.fault(`${path}: ${fault}`)
    caller.spent += cost
    run.count(`${answer.status} ${code ?? ''}`.trim())
  } catch (error) {
    if (!caller.leaves || !(error instanceof NoAnswer)) throw error
    run.count('left')
  } finally {
    clearTimeout(leaving)
  }
}

async function load(callers: readonly Caller[], ms: number): Promise<void> {
  const end = performance.now() + ms
  await Promise.all(
    callers.map(async (caller) => {
      while (performance.now() < end && run.faults.length === 0) {
        await call(caller, randomOf(options.seed, run.done++))
      }
    }),
  )
}

const mib = (bytes: number) => (bytes / 1024 ** 2).toFixed(1).padStart(7)

async function sample(callers: readonly Caller[]): Promise<Figures> {
  // Their sockets are not the gateway's to keep.
  for (const { connection } of callers) connection.close()
  let figures: Figures
  for (let tries = 0; ; tries++) {
    figures = await order<Figures>({ what: 'sample' })
    if (figures.running + figures.leases + figures.held === 0 || tries > 200) break
    await sleep(50)
  }
  const { rss, heap, descriptors, sockets, running, leases, held } = figures
  const at = ((performance.now() - run.startedAt) / 1000).toFixed(0).padStart(6)
  const counts = [descriptors, sockets, running, leases, held].map((n) => String(n).padStart(8))
  process.stdout.write(
    `${at} ${String(run.done).padStart(9)} ${mib(rss)} ${mib(heap)}${counts.join('')}\n`,
  )
  if (running + leases + held > 0)
    run.fault(`${running} calls, ${leases} leases, ${held} holds are left`)
  return figures
}

/** The last third of a run may hold no more than the third before it, but for noise. */
function judge(samples: readonly Figures[]): void {
  const third = Math.floor(samples.length / 3)
  const most = (from: number, of: (one: Figures) => number) =>
    Math.max(...samples.slice(from, from + third).map(of))
  // The gateway may keep one idle connection to the vendor for each lane, and a sample may find all of them or none.
  const bounds: readonly (readonly [string, (one: Figures) => number, number])[] = [
    ['heap', ({ heap }) => heap, 12 * 1024 ** 2],
    ['RSS', ({ rss }) => rss, 64 * 1024 ** 2],
    ['descriptors', ({ descriptors }) => descriptors, LANES],
    ['sockets', ({ sockets }) => sockets, LANES],
  ]
  for (const [name, of, noise] of bounds) {
    const [before, after] = [most(third, of), most(samples.length - third, of)]
    if (after > before + noise) run.fault(`${name} grew from ${before} to ${after}`)
  }
}

async function soak(): Promise<void> {
  const [{ url, secrets }] = (await once(child, 'message')) as [{ url: string; secrets: string[] }]
  const callers = secrets.map((secret, i): Caller => {
    const leaves = i >= LANES - LEAVING
    return { secret, leaves, connection: new Connection(url), spent: 0n }
  })
  process.stdout.write(
    '     s     calls     RSS    heap  descr.  sockets running  leases   holds\n',
  )
  const samples: Figures[] = []
  for (let i = 0; i < SAMPLES && run.faults.length === 0; i++) {
    await load(callers, (options.seconds * 1000) / SAMPLES)
    samples.push(await sample(callers))
    if (i % Math.ceil(SAMPLES / RELOADS) === 1) await order({ what: 'reload' })
  }
  judge(samples)
  isEnding = true
  const lanes = callers.map(({ spent, leaves }) => ({ spent: formatPico(spent), hasLeft: leaves }))
  const { faults } = await order<{ faults: string[] }>({ what: 'end', lanes })
  for (const fault of faults) run.fault(fault)
  await vendor.close()
}

await run.end(soak)
