/**
 * `node _writer.ts <folder> <run>`: settles, tops up and stores records until it is killed. It writes a line for
 * everything that was acknowledged: the kind, the name, the amount.
 */
import { openSqlite } from '../../../src/state/sqlite/engine.ts'
import type { Log } from '../../../src/state/ledger/ledger.ts'
import { holdOf } from '../_hold.ts'

const WRITERS = 48
const ACCOUNTS = 5
const [path = '', run = ''] = process.argv.slice(2)

const quiet = () => undefined
const complain = (...args: unknown[]) => {
  // Expected: some settlements are repeated with another amount.
  if (!String(args[0]).includes('was booked before')) process.stderr.write(`${args.join(' ')}\n`)
}
const log = { info: quiet, warn: complain, error: complain } as unknown as Log
const { ledger, records } = await openSqlite({ path, log })
const limits = { disabled: false, rpm: 1_000_000, concurrency: 1000 }
const freeTier = { rpm: 1, concurrency: 1 }
for (let i = 0; i < ACCOUNTS; i++) {
  await topUp(`acct${i}`, `${run}-first`, 10n ** 15n)
  await ledger.limits(`acct${i}`, `key${i}`, limits, 1)
}
await Promise.all(Array.from({ length: WRITERS }, (_, writer) => write(writer)))

async function write(writer: number): Promise<void> {
  const n = writer % ACCOUNTS
  const account = `acct${n}`
  for (let i = 0; ; i++) {
    const request = `req-${run}-${writer}-${i}`
    const lease = { account, key: `key${n}`, request }
    const entered = ledger.enter({ ...lease, revision: 1, freeTier })
    if (!entered.ok) throw new Error(`refused: ${entered.why}`)
    const held = ledger.hold({ ...lease, at: entered.at, ...holdOf(10n), free: false })
    if (!held.ok) throw new Error(`refused: ${held.why}`)
    const cost = BigInt(Math.floor(Math.random() * 1e9))
    const usage = { at: entered.at, endpoint: 'chat', model: 'm', outcome: 'completed' } as const
    const settlement = { ...lease, day: held.day, cost, usage: { ...usage, lines: [] } }
    // Some settlements are repeated at once, with another amount.
    const asked = [ledger.settle(settlement)]
    if (Math.random() < 0.15) asked.push(ledger.settle({ ...settlement, cost: cost + 1n }))
    const [settled] = await Promise.all(asked)
    say('usage', request, settled!.cost)
    if (i % 50 === 49) await topUp(account, `${run}-${writer}-${i}`, cost + 1n)
    if (i % 20 === 19) {
      await records.put(`count:${run}-${writer}`, { count: i })
      say('record', `${run}-${writer}`, BigInt(i))
    }
  }
}

async function topUp(account: string, reference: string, amount: bigint): Promise<void> {
  await ledger.book({ kind: 'top-up', account, amount, reference })
  say('top-up', `${account}/${reference}`, amount)
}

function say(what: string, name: string, amount: bigint): void {
  process.stdout.write(`${what} ${name} ${amount}\n`)
}
