/**
 * `npm run torture -- console`: the console in a browser, before a gateway with 1,000,000 calls, 10,000 accounts and 50,000
 * keys: what each screen asks and how long it takes, and finding the last key; two consoles while 200 calls a second end, and for
 * eight hours of their own clock, after which its garbage is collected from outside; what of a processor a console takes.
 * `--calls`, `--accounts`, `--keys`, `--hours`, `--seconds`, `--rounds` change it, `--only screens|last|cost|live|hours` leaves
 * parts out, and `--folder` keeps the calls for the next run, and for that of `questions.ts`; `--short` has less of everything,
 * and bounds on what the load of a machine cannot change. The largest sizes are those of `--calls 10000000 --keys 100000`.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
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
import { Inspector } from './_inspector.ts'
import { ownFolder } from './_run.ts'

const { values } = parseArgs({
  options: {
    short: { type: 'boolean', default: false },
    calls: { type: 'string' },
    accounts: { type: 'string' },
    keys: { type: 'string' },
    hours: { type: 'string' },
    seconds: { type: 'string' },
    rounds: { type: 'string' },
    folder: { type: 'string' },
    only: { type: 'string' },
  },
})
const { short, only } = values
const amount = (given: string | undefined, few: number, many: number) =>
  given === undefined ? (short ? few : many) : Number(given)
const calls = amount(values.calls, 20_000, 1_000_000)
const accounts = amount(values.accounts, 200, 10_000)
const hours = amount(values.hours, 0.1, 8)
const seconds = amount(values.seconds, 3, 60)
const rounds = amount(values.rounds, 2, 9)
const KEYS_OF_EACH = Math.max(
  1,
  Math.round(amount(values.keys, 5 * accounts, 5 * accounts) / accounts),
)
const PER_SECOND = 200
const FEW_PER_SECOND = 20
/**
 * The bounds of a screen: its requests, and ms until the gateway has answered one of them, or a list, and until it is
 * painted.
 */
const MOST = {
  requests: 3,
  screen: 300,
  list: 50,
  painted: 1000,
  frame: 100,
  growth: 1.1,
  /** The processor time of the console in ms of each second: 98 % of a processor are left for calls. */
  cost: short ? 100 : 20,
}
/** The seconds for which the processor time of calls is compared, each time: some repetitions of a screen. */
const COMPARED_SECONDS = short ? 2 : 15
/** The silence, in ms, after which the requests of a screen are counted. */
const SILENCE_MS = 800
/** Times that a screen is opened. */
const VISITS = short ? 1 : 3
/** Times that memory is looked at. */
const SAMPLES = 10
/** Bounds on time hold on a machine without other work. */
const isTimed = !short

const folder = values.folder ?? ownFolder()
const config = {
  ...MOCK_CONFIG,
  state: { driver: 'file', path: join(folder, 'state') },
  log: { path: join(folder, 'log') },
} satisfies UserConfig
const file = join(folder, 'gateway.config.json')
const first = accountId(0)
const secret = keyId(first, 0)
const BUSY_ACCOUNTS = Math.min(1000, accounts)

/** A call of a client. */
const CALL = {
  path: '/v1/chat/completions',
  method: 'POST',
  headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
  body: '{"model":"mock/echo","messages":[{"role":"user","content":"Hello"}]}',
} as const

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
  if (!existsSync(config.state.path)) {
    await fillDirectory(config, { from: 0, to: accounts, keysOfEach: KEYS_OF_EACH })
    await fillMonth(config, { calls, accounts: BUSY_ACCOUNTS, keysOfEach: KEYS_OF_EACH })
  }
  writeFileSync(file, JSON.stringify(config))
  await using gateway = await Demo.open(['--config', file, '--data', config.state.path], true)
  print(
    `${calls} calls, ${accounts} accounts, ${accounts * KEYS_OF_EACH} keys: ready after ${((performance.now() - began) / 1000).toFixed(0)} s`,
  )
  await gateway.admin('POST', `/accounts/${first}/credits`, { usd: '1000', reference: 'console' })
  const limits = { rpm_limit: 1_000_000, concurrency_limit: 1000 }
  await gateway.admin('PATCH', `/keys/${secret}`, limits)
  if (isAsked('screens')) await screensOf(gateway)
  if (isAsked('last')) await lastOf(gateway)
  const { page: requests } = await gateway.visitors.page()
  const { page: overview } = await gateway.visitors.page()
  if (isAsked('cost')) await costOfWatching(gateway, overview)
  await requests.goto('/console/requests?live=on')
  await overview.goto('/console')
  await Promise.all([settled(requests), settled(overview)])
  if (isAsked('live')) await live(gateway, requests)
  if (isAsked('hours')) await longRun(gateway, [requests, overview])
  process.exitCode = failed ? 1 : 0
}

function isAsked(part: string): boolean {
  return only === undefined || only === part
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

/** The last key is found by its name in the search and in the list, opened, and chosen as itself. */
async function lastOf(gateway: Demo): Promise<void> {
  const account = accountId(accounts - 1)
  const id = keyId(account, KEYS_OF_EACH - 1)
  const name = `Key ${KEYS_OF_EACH - 1} of ${account}`
  const { page } = await gateway.visitors.page()
  const timed = async (what: string, most: number, work: () => Promise<unknown>) => {
    const began = performance.now()
    await work()
    report(`${name}, ${what}`, performance.now() - began, most)
  }
  await page.goto('/console')
  await settled(page)
  await page.keyboard.press('/')
  await timed('found by the search', MOST.painted, async () => {
    await page.keyboard.type(name)
    await page.getByRole('option', { name }).waitFor()
  })
  await timed('opened', MOST.painted, async () => {
    await page.keyboard.press('Enter')
    await page.locator(`h1:has-text("${name}")`).waitFor()
  })
  const list = `/console/keys?q=${encodeURIComponent(name)}`
  await timed('in the list', MOST.painted, async () => {
    await page.goto(list)
    await page.locator('tbody .row-link', { hasText: name }).waitFor()
  })
  await page.goto('/console/play')
  await settled(page)
  await timed('chosen as itself', MOST.painted, async () => {
    await page.getByLabel('As key', { exact: true }).fill(name)
    await page.getByRole('option', { name }).click()
    await page.locator(`input[title="${id}"]`).waitFor()
  })
  for (const path of [`/search?q=${encodeURIComponent(name)}`, list.replace('/console', '')])
    report(`  GET ${path}`, await timeOf(gateway, path), MOST.list)
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

/** Makes a call. */
async function call({ url }: Demo): Promise<void> {
  const response = await fetch(url + CALL.path, CALL)
  const text = await response.text()
  if (!response.ok) throw new Error(text.slice(0, 300))
}

/**
 * What a console on the overview takes of a processor. All of it is by the second, because no event of a call is made for it:
 * few calls beside it are enough, and vary less than many. In turns with no console; each turn beside the one before it and
 * the one after it, because a machine gets faster and slower.
 */
async function costOfWatching(gateway: Demo, page: Page): Promise<void> {
  const alone: number[] = []
  const watched: number[] = []
  // What is measured first would be slower: its code is not compiled yet.
  await page.goto('/console')
  await busyWith(gateway)
  for (let round = 0; round <= rounds; round++) {
    await page.goto('about:blank')
    alone.push(await busyWith(gateway))
    if (round === rounds) break
    await page.goto('/console')
    await settled(page)
    watched.push(await busyWith(gateway))
  }
  const written = (all: readonly number[]) => all.map((ms) => ms.toFixed(1)).join(' ')
  print(`ms of a second with calls, alone: ${written(alone)}; watched: ${written(watched)}`)
  const more = watched.map((ms, i) => ms - (alone[i]! + alone[i + 1]!) / 2)
  report('a console on the overview takes', median(more), MOST.cost, ' ms of each second')
}

function median(all: readonly number[]): number {
  return all.toSorted((one, other) => one - other)[Math.floor(all.length / 2)]!
}

/** Processor time of the gateway in a second, ms, with a few calls. */
async function busyWith(gateway: Demo): Promise<number> {
  const began = performance.now()
  const before = cpuMs(gateway.pid)
  await callsFor(gateway, COMPARED_SECONDS, FEW_PER_SECOND)
  return ((cpuMs(gateway.pid) - before) * 1000) / (performance.now() - began)
}

/** Calls at a steady rate. @returns how many there were */
async function callsFor(gateway: Demo, seconds: number, rate = PER_SECOND): Promise<number> {
  const began = performance.now()
  const all: Promise<void>[] = []
  while (performance.now() - began < seconds * 1000) {
    const due = ((performance.now() - began) / 1000) * rate
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

/** Hours of the pages' own clock, with a few calls before each repetition: what they and the gateway hold has to be flat. */
async function longRun(gateway: Demo, pages: readonly Page[]): Promise<void> {
  const turns = (hours * 3600) / 5
  for (const page of pages) {
    await page.clock.install()
    await page.reload()
    await settled(page)
  }
  using inspector = await Inspector.open(gateway.inspector)
  const held: Record<string, number>[] = []
  for (let turn = 0; turn <= turns; turn++) {
    await Promise.all(Array.from({ length: 4 }, () => call(gateway)))
    await Promise.all(pages.map((page) => page.clock.runFor(5000)))
    // One connection after the other: what was asked before is answered.
    await Promise.all(pages.map((page) => page.evaluate("fetch('/admin/session')")))
    if (turn % Math.ceil(turns / SAMPLES) !== 0) continue
    const [requests, overview] = await Promise.all(pages.map(heapOf))
    const { objects, threads } = await inspector.held()
    const rss = rssOf(gateway.pid)
    held.push({ requests: requests!, overview: overview!, gateway: objects, process: rss })
    print(`turn ${turn}: ${written(held.at(-1)!)} MiB in ${threads} threads`)
  }
  // The first ones: code that is not compiled yet, caches that are not full yet.
  const [early, late] = [held.slice(2, 5), held.slice(-3)]
  for (const name of Object.keys(held[0]!)) {
    const of = (some: typeof held) => median(some.map((one) => one[name]!))
    report(`after ${hours} h ${name} holds`, of(late) / of(early), MOST.growth, ' of before')
  }
}

function written(held: Readonly<Record<string, number>>): string {
  return Object.entries(held)
    .map(([name, mib]) => `${name} ${mib.toFixed(1)}`)
    .join(', ')
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
