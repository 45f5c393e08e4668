/**
 * What the questions of the console's screens cost the gateway before a month of calls: processor time of all its threads,
 * with that of the client that asks. Fails above the bounds.
 * `node test/torture/questions.ts [--calls <n>] [--accounts <n>] [--folder <path>] [--only <text>]`: 1,000,000 calls of 1,000 of
 * 10,000 accounts, with five keys each. A folder is kept, and used again where it has them already.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { createConsola } from 'consola'
import type { UserConfig } from '../../src/config/config.ts'
import { createGateway } from '../../src/gateway/gateway.ts'
import { listen } from '../../src/server/server.ts'
import { loaded, MOCK_CONFIG } from '../_setup.ts'
import { accountId, fillDirectory, keyId } from './_directory.ts'
import { fillMonth } from './_month.ts'
import { ownFolder } from './_run.ts'

const { values } = parseArgs({
  options: {
    calls: { type: 'string', default: '1000000' },
    accounts: { type: 'string', default: '10000' },
    folder: { type: 'string' },
    only: { type: 'string', default: '' },
  },
})
const [calls, accounts] = [Number(values.calls), Number(values.accounts)]
const KEYS_OF_EACH = 5
const BUSY_ACCOUNTS = Math.min(1000, accounts)
/** ms: of a list, and of any other question. */
const MOST = { list: 50, other: 300 }
const TIMES = 5
const DAY_MS = 86_400_000
const TOKEN = 'admin-token-of-the-test'

const folder = values.folder ?? ownFolder()
const config = {
  ...MOCK_CONFIG,
  state: { driver: 'file', path: join(folder, 'state') },
  log: { path: join(folder, 'log') },
  admin: { token: TOKEN },
} satisfies UserConfig
const account = accountId(0)
const key = keyId(account, 0)
const ago = (days: number) => encodeURIComponent(new Date(Date.now() - days * DAY_MS).toISOString())

const QUESTIONS = [
  '/overview',
  '/models',
  ...[
    'model',
    'key',
    'account',
    'key,model',
    'account,key',
    'endpoint',
    'limit',
    'limit,key',
    'code',
    'tag',
    'user',
  ].map((group) => `/usage?from=${ago(30)}&group=${group}`),
  `/usage?from=${ago(30)}&group=key&metric=refused`,
  `/usage?from=${ago(30)}&group=key&model=vendor%2Fmodel-7`,
  `/usage?from=${ago(30)}&group=model&key=${key}`,
  `/usage?from=${ago(30)}&group=key&account=${account}`,
  `/usage?from=${ago(1)}&group=key`,
  `/usage?from=${ago(3)}&group=key,model`,
  `/usage?from=${ago(300)}&group=key&rollup=month`,
  `/guard?from=${ago(30)}`,
  `/accounts/${account}/balance?from=${ago(30)}`,
  `/accounts/${account}/statement`,
  `/requests?from=${ago(30)}`,
  ...[
    'guard=blocked&guard=monitored&guard=error',
    'guard=monitored',
    'status=4xx',
    'status=5xx',
    'limited_by=key.rpm',
    'limited_by=key.concurrency',
    'code=rate_limited',
    'code=not_found',
    'outcome=failed',
    'outcome=cancelled',
    'model=vendor%2Fmodel-7',
    `key=${key}`,
    `key=${key}&status=5xx`,
    `account=${account}`,
  ].map((filter) => `/requests?from=${ago(30)}&${filter}`),
  '/accounts',
  '/accounts?sort=-balance_usd',
  '/accounts?sort=-spend_month_usd',
  '/keys',
  '/keys?sort=-spend_usd',
  '/keys?sort=last_used_at',
  '/keys?q=account-0000',
  '/audit',
]

let failed = false
await run()
process.exitCode = failed ? 1 : 0

async function run(): Promise<void> {
  if (!existsSync(config.state.path)) {
    await fillDirectory(config, { from: 0, to: accounts, keysOfEach: KEYS_OF_EACH })
    await fillMonth(config, { calls, accounts: BUSY_ACCOUNTS, keysOfEach: KEYS_OF_EACH })
  }
  const gateway = await createGateway(loaded(config), { log: createConsola({ level: 0 }) })
  const server = await listen(gateway, { host: '127.0.0.1', port: 0 })
  const ask = async (path: string) => {
    const headers = { authorization: `Bearer ${TOKEN}` }
    const answer = await fetch(`${server.url}/admin${path}`, { headers })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${path}: ${text.slice(0, 300)}`)
    return text
  }
  const read = await timeOf(async () => {
    // An answer about all of it would be longer in coming than a client waits.
    while (JSON.parse(await ask('/overview')).data.usage.indexed < 1) await sleep(1000)
    await ask('/usage/verify')
  })
  print(`usage is level with the ledger after ${read.toFixed(0)} ms`)
  await quiet()
  for (const path of QUESTIONS.filter((one) => one.includes(values.only))) {
    const first = await timeOf(() => ask(path))
    const more = []
    for (let i = 0; i < TIMES; i++) {
      // An answer of the overview is shared for two seconds.
      if (path === '/overview') await sleep(2100)
      more.push(await timeOf(() => ask(path)))
    }
    const isList = /^\/(?:requests|accounts|keys|audit)(?:\?|$)/.test(path)
    const most = isList ? MOST.list : MOST.other
    const median = more.sort((one, other) => one - other)[Math.floor(TIMES / 2)]!
    if (median > most) failed = true
    const verdict = median > most ? 'FAILED' : 'ok'
    print(
      `${verdict}: ${decodeURIComponent(path)}: ${median.toFixed(1)} ms, the first time ${first.toFixed(1)} ms (at most ${most})`,
    )
  }
  await server.close()
  await gateway.close()
}

/** Processor time, ms. */
async function timeOf(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage()
  await work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}

/** Waits until the work of the start is done. */
async function quiet(): Promise<void> {
  while ((await timeOf(() => sleep(1000))) > 20);
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
