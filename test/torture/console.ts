/**
 * `npm run torture -- console`: the console in a browser, before a gateway with 1,000,000 calls, 10,000 accounts and 50,000
 * keys: what each screen asks and how long it takes; two consoles while 200 calls a second end, and for eight hours of their
 * own clock; what a call costs the gateway with them and without. `--calls`, `--accounts`, `--hours`, `--seconds` change it;
 * `--short` has less of everything, and bounds on what the load of a machine cannot change.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { CDPSession, Page, Request } from 'playwright-core'
import type { UserConfig } from '../../src/config/config.ts'
import { hasBrowser, settled } from '../console/_browser.ts'
import { Demo } from '../console/_demo.ts'
import { MOCK_CONFIG } from '../_setup.ts'
import { accountId, fillDirectory, keyId } from './_directory.ts'
import { fillMonth } from './_month.ts'
import { ownFolder } from './_run.ts'

const { values } = parseArgs({
  options: {
    short: { type: 'boolean', default: false },
    calls: { type: 'string' },
    accounts: { type: 'string' },
    hours: { type: 'string' },
    seconds: { type: 'string' },
  },
})
const { short } = values
const amount = (given: string | undefined, few: number, many: number) =>
  given === undefined ? (short ? few : many) : Number(given)
const calls = amount(values.calls, 20_000, 1_000_000)
const accounts = amount(values.accounts, 200, 10_000)
const hours = amount(values.hours, 0.1, 8)
const seconds = amount(values.seconds, 3, 60)
const KEYS_OF_EACH = 5
const PER_SECOND = 200
/** Of a screen: its requests, how long the gateway takes for one of them, of lists, and until it is painted, ms. */
const MOST = {
  requests: 3,
  screen: 300,
  list: 50,
  painted: 1000,
  frame: 100,
  growth: 1.1,
  cost: short ? 1.5 : 1.05,
}
/** For so long the processor time of calls is compared, each time. */
const COMPARED_SECONDS = short ? 2 : 15
/** After it the requests of a screen are counted. */
const SILENCE_MS = 800
/** Times that a screen is opened. */
const VISITS = short ? 1 : 3
/** Bounds on time hold on a machine without other work. */
const isTimed = !short

const folder = ownFolder()
const config = {
  ...MOCK_CONFIG,
  state: { driver: 'file', path: folder },
  log: { path: join(folder, 'log') },
} satisfies UserConfig
const file = join(folder, 'gateway.config.json')
const first = accountId(0)
const secret = keyId(first, 0)
const BUSY_ACCOUNTS = Math.min(1000, accounts)

let failed = false
function report(what: string, value: number, most: number, unit = ' ms'): void {
  const isOver = value > most && (isTimed || unit !== ' ms')
  failed ||= isOver
  const shown = value < 10 ? value.toFixed(2) : value.toFixed(0)
  const isNoted = value > most && !isOver
  print(
    `${isOver ? 'FAILED' : isNoted ? 'noted' : 'ok'}: ${what}: ${shown}${unit} (at most ${most})`,
  )
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

if (hasBrowser) await run()

async function run(): Promise<void> {
  const began = performance.now()
  await fillDirectory(config, { from: 0, to: accounts, keysOfEach: KEYS_OF_EACH })
  await fillMonth(config, { calls, accounts: BUSY_ACCOUNTS, keysOfEach: KEYS_OF_EACH })
  writeFileSync(file, JSON.stringify(config))
  await using gateway = await Demo.open(['--config', file, '--data', folder])
  print(
    `${calls} calls, ${accounts} accounts, ${accounts * KEYS_OF_EACH} keys: ready after ${((performance.now() - began) / 1000).toFixed(0)} s`,
  )
  await gateway.admin('POST', `/accounts/${first}/credits`, { usd: '1000', reference: 'console' })
  await screensOf(gateway)
  // What is measured first would be slower: its code is not compiled yet.
  if (!short) await callsFor(gateway, 2 * COMPARED_SECONDS)
  const alone = await costOfCall(gateway)
  const { page: requests } = await gateway.visitors.page()
  const { page: overview } = await gateway.visitors.page()
  await requests.goto('/console/requests?live=on')
  await overview.goto('/console')
  await Promise.all([settled(requests), settled(overview)])
  const watched = await costOfCall(gateway)
  report(
    'processor time of a call with two consoles',
    watched / alone,
    MOST.cost,
    ' of that without',
  )
  await live(gateway, requests)
  await longRun(gateway, [requests, overview])
  process.exitCode = failed ? 1 : 0
}

/** What every screen asks, how long the gateway takes for it, and when it is painted. */
async function screensOf(gateway: Demo): Promise<void> {
  const { json } = await gateway.admin('GET', '/requests?limit=20')
  const open = json.data[10].id
  const { page } = await gateway.visitors.page()
  await page.goto('/console')
  await settled(page)
  for (const path of [
    '/console',
    '/console/usage',
    '/console/usage?group=key,model',
    '/console/requests?from=-30d',
    '/console/requests?from=-30d&status=5xx',
    `/console/requests?open=${open}`,
    '/console/accounts',
    '/console/accounts?sort=-balance_usd',
    `/console/accounts/${first}/overview`,
    `/console/accounts/${first}/statement`,
    '/console/keys',
    '/console/keys?sort=-spend_usd',
    '/console/keys?q=account-0000',
    `/console/keys/${secret}/overview`,
    `/console/keys/${secret}/policy`,
    '/console/models',
    '/console/guard',
    '/console/settings/audit',
    '/console/settings/gateways',
  ]) {
    let asked: string[] = []
    const listen = (request: Request) => {
      const { pathname, search } = new URL(request.url())
      // The frame asks for itself who is signed in and whether the ledger books.
      if (/^\/admin\/(?!session|status|events)/.test(pathname))
        asked.push(`${request.method()} ${pathname.slice(6)}${search}`)
    }
    page.on('request', listen)
    const times = []
    for (let i = 0; i < VISITS; i++) {
      asked = []
      const began = performance.now()
      await page.goto(path)
      await settled(page)
      times.push(performance.now() - began)
      // What is typed is tried after a silence, and so is what is there when an editor opens.
      await sleep(SILENCE_MS)
    }
    page.off('request', listen)
    report(`${path} asks`, asked.length, MOST.requests, '')
    report(`${path} is painted`, Math.min(...times), MOST.painted)
    for (const one of asked.filter((each) => each.startsWith('GET '))) {
      const isList = /^GET \/(?:requests|accounts|keys|audit)(?:\?|$)/.test(one)
      report(
        `  ${one.slice(0, 74)}`,
        await timeOf(gateway, one.slice(4)),
        isList ? MOST.list : MOST.screen,
      )
    }
  }
  await page.context().close()
}

/** Processor time of the gateway for one answer, the mean of five: other work on the machine does not count. */
async function timeOf(gateway: Demo, path: string): Promise<number> {
  const before = cpuMs(gateway.pid)
  for (let i = 0; i < 5; i++) {
    const { status, text } = await gateway.admin('GET', path)
    if (status !== 200) throw new Error(`${path}: ${text.slice(0, 300)}`)
  }
  return (cpuMs(gateway.pid) - before) / 5
}

/** A call of a client. */
async function call({ url }: Demo): Promise<void> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: '{"model":"mock/echo","messages":[{"role":"user","content":"Hello"}]}',
  })
  await response.arrayBuffer()
}

/** Processor time of the gateway for one call, ms, while calls come as at {@link PER_SECOND}. */
async function costOfCall(gateway: Demo): Promise<number> {
  await callsFor(gateway, COMPARED_SECONDS / 5)
  const before = cpuMs(gateway.pid)
  const made = await callsFor(gateway, COMPARED_SECONDS)
  const each = (cpuMs(gateway.pid) - before) / made
  print(`a call costs the gateway ${each.toFixed(3)} ms`)
  return each
}

/** Calls at a steady rate. @returns how many there were */
async function callsFor(gateway: Demo, seconds: number): Promise<number> {
  const began = performance.now()
  const all: Promise<void>[] = []
  while (performance.now() - began < seconds * 1000) {
    const due = ((performance.now() - began) / 1000) * PER_SECOND
    while (all.length < due) all.push(call(gateway))
    await sleep(10)
  }
  await Promise.all(all)
  return all.length
}

/** Processor time of a process, ms. */
function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

/** The list of requests while calls end: its longest task, its share of a processor. */
async function live(gateway: Demo, page: Page): Promise<void> {
  const tools = await page.context().newCDPSession(page)
  await tools.send('Performance.enable', { timeDomain: 'threadTicks' })
  const before = await busyOf(tools)
  const longest = await longestTask(page, () => callsFor(gateway, seconds))
  const busy = (await busyOf(tools)) - before
  print(
    `the list of requests takes ${((busy / seconds) * 100).toFixed(1)} % of a processor at ${PER_SECOND} calls a second`,
  )
  report('its longest task', longest, MOST.frame)
}

/** The most processor time, ms, that the page's thread takes for one task meanwhile: other work on the machine does not count. */
async function longestTask(page: Page, work: () => Promise<unknown>): Promise<number> {
  const browser = page.context().browser()!
  await browser.startTracing(page, { categories: ['toplevel', '__metadata'] })
  await work()
  const trace = JSON.parse((await browser.stopTracing()).toString()) as {
    readonly traceEvents: readonly {
      readonly name: string
      readonly pid: number
      readonly tid: number
      readonly tdur?: number
      readonly args: { readonly name?: string }
    }[]
  }
  const threads = new Set<string>()
  for (const { name, pid, tid, args } of trace.traceEvents) {
    if (name === 'thread_name' && args.name === 'CrRendererMain') threads.add(`${pid} ${tid}`)
  }
  const times = trace.traceEvents
    .filter(({ pid, tid }) => threads.has(`${pid} ${tid}`))
    .map(({ tdur = 0 }) => tdur / 1000)
  return times.reduce((most, time) => Math.max(most, time), 0)
}

async function busyOf(tools: CDPSession): Promise<number> {
  const { metrics } = await tools.send('Performance.getMetrics')
  return metrics.find(({ name }) => name === 'TaskDuration')!.value
}

/**
 * Hours of the pages' own clock, with a few calls before each repetition: what they hold has to be flat. The gateway collects
 * its garbage when it likes, so the least that it held in a quarter of the time is compared.
 */
async function longRun(gateway: Demo, pages: readonly Page[]): Promise<void> {
  const turns = (hours * 3600) / 5
  for (const page of pages) {
    await page.clock.install()
    await page.reload()
    await settled(page)
  }
  const heaps: number[][] = []
  const held: number[] = []
  for (let turn = 0; turn <= turns; turn++) {
    await Promise.all(Array.from({ length: 4 }, () => call(gateway)))
    await Promise.all(pages.map((page) => page.clock.runFor(5000)))
    // One connection after the other: what was asked before is answered.
    await Promise.all(pages.map((page) => page.evaluate("fetch('/admin/session')")))
    held.push(rssOf(gateway.pid))
    if (turn % Math.ceil(turns / 8) === 0) heaps.push(await Promise.all(pages.map(heapOf)))
  }
  const least = Array.from({ length: 4 }, (_, quarter) =>
    Math.min(...held.slice((quarter / 4) * held.length, ((quarter + 1) / 4) * held.length)),
  )
  const written = (all: readonly number[]) => all.map((mib) => mib.toFixed(1)).join(' ')
  print(`MiB held by requests and overview: ${heaps.map(written).join(', ')}`)
  print(`MiB held at least by the gateway, in quarters: ${written(least)}`)
  const [early, late] = [heaps[2]!, heaps.at(-1)!]
  for (const [name, growth] of [
    ['requests', late[0]! / early[0]!],
    ['overview', late[1]! / early[1]!],
    ['gateway', least[3]! / least[1]!],
  ] as const) {
    report(`after ${hours} h ${name} holds`, growth, MOST.growth, ' of before')
  }
}

/** What the scripts of a page hold, MiB. */
async function heapOf(page: Page): Promise<number> {
  const tools = await page.context().newCDPSession(page)
  await tools.send('HeapProfiler.enable')
  await tools.send('HeapProfiler.collectGarbage')
  const { usedSize } = await tools.send('Runtime.getHeapUsage')
  await tools.detach()
  return usedSize / 2 ** 20
}

function rssOf(pid: number): number {
  const [, kib] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))!
  return Number(kib) / 1024
}
