/**
 * What lists, searches and new keys cost with many accounts and keys, and what a start costs then: processor time of all
 * threads, with that of the client that asks.
 * `node test/torture/lists.ts [accounts] [keys of each]`; a state in a new folder, with REDIS_URL in that server.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createConsola } from 'consola'
import type { UserConfig } from '../../src/config/config.ts'
import { createGateway } from '../../src/gateway/gateway.ts'
import { listen } from '../../src/server/server.ts'
import { hello, loaded, MOCK_CONFIG } from '../_setup.ts'
import { accountId, fillDirectory } from './_directory.ts'

const [accounts = 20_000, keysOfEach = 5] = process.argv.slice(2).map(Number)
const FEW_ACCOUNTS = 20
const QUIET = createConsola({ level: 0 })
const TOKEN = 'admin-token-of-the-test'
const CALLS = 200

const folder = mkdtempSync(join(tmpdir(), 'gateway-'))
const { REDIS_URL: url } = process.env
const state: UserConfig['state'] = url
  ? { driver: 'redis', url, outbox: join(folder, 'outbox') }
  : { driver: 'file', path: join(folder, 'state') }
const config = { ...MOCK_CONFIG, state, admin: { token: TOKEN } }

try {
  await run()
} finally {
  rmSync(folder, { recursive: true, force: true })
}

async function run(): Promise<void> {
  await fillDirectory(config, { from: 0, to: FEW_ACCOUNTS, keysOfEach })
  let gateway = await open()
  const few = await timeOfKey(gateway, accountId(0))
  await gateway.close()
  await fillDirectory(config, { from: FEW_ACCOUNTS, to: accounts, keysOfEach })
  const started = process.cpuUsage()
  gateway = await open()
  const start = cpuMs(started)
  const begun = [process.cpuUsage(), performance.now()] as const
  await gateway.runtime.accounts.directory.view()
  const read = `${cpuMs(begun[0]).toFixed(0)} ms, over ${(performance.now() - begun[1]).toFixed(0)} ms`
  await quiet()
  const many = await timeOfKey(gateway, accountId(0))
  const server = await listen(gateway, { host: '127.0.0.1', port: 0 })
  const ask = async (path: string) => {
    const began = process.cpuUsage()
    const answer = await fetch(`${server.url}/admin${path}`, {
      headers: { authorization: `Bearer ${TOKEN}` },
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${path}: ${text.slice(0, 300)}`)
    return cpuMs(began)
  }
  const paths = [
    '/keys',
    '/keys?q=key%204%20of%20account-0099',
    '/keys?sort=-name',
    '/keys?sort=-spend_usd',
    '/keys?sort=last_used_at',
    '/accounts?sort=-balance_usd',
    '/accounts?sort=-spend_month_usd',
    '/accounts?q=account-0199',
    `/accounts/${accountId(5)}`,
  ]
  print(`${accounts} accounts, ${accounts * keysOfEach} keys, state ${config.state!.driver}`)
  print(
    `start ${start.toFixed(0)} ms; a key ${few.toFixed(2)} ms among ${FEW_ACCOUNTS * keysOfEach}, ${many.toFixed(2)} ms among all`,
  )
  print(`accounts and keys read in the background: ${read}`)
  print(`first page of keys beside the index of usage: ${(await ask('/keys')).toFixed(0)} ms`)
  await quiet()
  const [first, again] = await timesOfCalls(server.url)
  print(`a call of a key not used before ${first.toFixed(2)} ms, its next ${again.toFixed(2)} ms`)
  for (const path of paths) {
    const cold = await ask(path)
    const warm = [await ask(path), await ask(path), await ask(path)].sort((a, b) => a - b)[1]!
    print(`${path.padEnd(44)} first ${cold.toFixed(0)} ms, then ${warm.toFixed(0)} ms`)
  }
  await server.close()
  await gateway.close()
}

async function open() {
  return createGateway(loaded(config), { log: QUIET })
}

type Opened = Awaited<ReturnType<typeof open>>

/** The median of some new keys, ms. */
async function timeOfKey({ runtime }: Opened, account: string): Promise<number> {
  const times = []
  for (let i = 0; i < 21; i++) {
    const began = process.cpuUsage()
    await runtime.accounts.createKey(account, { name: 'New' })
    times.push(cpuMs(began))
  }
  return times.sort((a, b) => a - b)[10]!
}

/** Medians, ms, of the first call of keys and of their second, after some others. */
async function timesOfCalls(url: string): Promise<[number, number]> {
  const times: [number, number][] = []
  for (let i = 0; i < CALLS; i++) {
    const timeOfCall = async () => {
      const began = process.cpuUsage()
      const answer = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: {
          authorization: `Bearer key-${accountId(Math.floor(((i + 0.5) * accounts) / CALLS))}-1`,
          'content-type': 'application/json',
        },
        body: JSON.stringify({ ...hello, model: 'mock/free' }),
      })
      const text = await answer.text()
      if (!answer.ok) throw new Error(`${answer.status}: ${text.slice(0, 300)}`)
      return cpuMs(began)
    }
    times.push([await timeOfCall(), await timeOfCall()])
  }
  const median = (of: 0 | 1) =>
    times
      .slice(CALLS / 4)
      .map((pair) => pair[of])
      .sort((a, b) => a - b)[Math.floor((CALLS * 3) / 8)]!
  return [median(0), median(1)]
}

/** Waits until the work of the start is done. */
async function quiet(): Promise<void> {
  for (let used = Infinity; used > 20;) {
    const began = process.cpuUsage()
    await sleep(1000)
    used = cpuMs(began)
  }
}

/** Processor time since another measure, ms. */
function cpuMs(since: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(since)
  return (user + system) / 1000
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
