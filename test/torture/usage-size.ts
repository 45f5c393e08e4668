/**
 * `npm run torture -- usage-size [--calls <n>] [--accounts <n>] [--keys <n>]`: a month of calls (1,000,000 of 1,000 keys of 200
 * accounts) in the request log and in usage, then how long questions take, and how long removing a day does. Fails above the
 * bounds. Those of whole tables are for 700,000 calls of 100,000 keys of 10,000 accounts.
 */
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { DayFiles } from '../../src/observe/log/day-files.ts'
import { callsIn, lineOf, type KnownCall } from '../../src/observe/record.ts'
import { CalledTables } from '../../src/observe/usage/called.ts'
import { answerUsage, type UsageQuery } from '../../src/observe/usage/query.ts'
import { SettledTables } from '../../src/observe/usage/settled.ts'
import { openTables } from '../../src/observe/usage/work.ts'
import type { ReadRow } from '../../src/state/ledger/ledger.ts'
import { formatPico, parsePico } from '../../src/money/money.ts'
import { requestId } from '../../src/state/ids.ts'
import { transact } from '../../src/state/sqlite/file.ts'
import { ownFolder } from './_run.ts'
import { sessionHash } from '../../src/pipeline/call-record.ts'

const { values } = parseArgs({
  options: {
    calls: { type: 'string', default: '1000000' },
    accounts: { type: 'string', default: '200' },
    keys: { type: 'string', default: '1000' },
  },
})
const [calls, ACCOUNTS, KEYS] = [values.calls, values.accounts, values.keys].map(Number) as [
  number,
  number,
  number,
]
const DAYS = 30
const DAY_MS = 86_400_000
const [MODELS, MODELS_OF_KEY, TAGS] = [50, 3, 20]
const BATCH = 1000
const today = Math.floor(Date.now() / DAY_MS)
const folder = ownFolder()
const logFolder = join(folder, 'log')
const bounds = { keep: 365, size: Number.MAX_SAFE_INTEGER }

let failed = false
/** @param most ms */
function report(what: string, ms: number, most: number): void {
  const isOver = ms > most
  failed ||= isOver
  process.stdout.write(
    `${isOver ? 'FAILED' : 'ok'}: ${what}: ${ms.toFixed(1)} ms (at most ${most})\n`,
  )
}

/** The median of five, in time of this thread's own: other work of the machine does not count. */
function median(ask: () => unknown): number {
  const times = Array.from({ length: 5 }, () => timeOf(ask))
  return times.toSorted((one, other) => one - other)[2]!
}

function timeOf(work: () => unknown): number {
  const before = process.threadCpuUsage()
  work()
  const { user, system } = process.threadCpuUsage(before)
  return (user + system) / 1000
}

function recordOf(number: number, at: number): KnownCall {
  // Few keys make most calls.
  const key = Math.floor(KEYS * (((number * 7919) % 1_000_003) / 1_000_003) ** 3)
  const model = (key * 13 + (number % MODELS_OF_KEY)) % MODELS
  const refused = number % 50 === 0
  return {
    id: requestId(at),
    at: new Date(at).toISOString(),
    method: 'POST',
    endpoint: '/v1/chat/completions',
    status: refused ? 429 : 200,
    ...(refused && { code: 'rate_limited', limited_by: 'key.rpm' }),
    outcome: refused ? 'failed' : 'completed',
    stream: number % 2 === 0,
    times: { first_ms: 50 + (number % 300), total_ms: 200 + (number % 900) },
    account_id: `account_${key % ACCOUNTS}`,
    key_id: `key_${key}`,
    model: `vendor/model-${model}`,
    deployment: `east/model-${model}`,
    usage: { prompt_tokens: 100 + (number % 900), completion_tokens: number % 400 },
    cost_usd: formatPico(BigInt(number % 1000) * 1_000_000n),
    ...(number % 3 > 0 && { tag: `tag ${number % TAGS}` }),
    session: sessionHash(`session ${number % 5000}`),
    agent: 'openai-node',
  }
}

function rowOf(call: KnownCall, seq: number, day: string): ReadRow {
  const { id, key_id, model, deployment, outcome, usage, cost_usd, endpoint, tag } = call
  const at = Date.parse(call.at)
  const { prompt_tokens: promptTokens = 0, completion_tokens: completionTokens = 0 } = usage!
  return {
    seq,
    kind: 'usage',
    request: id,
    key: key_id!,
    day,
    at,
    cost: parsePico(cost_usd!),
    usage: {
      at,
      endpoint,
      model: model!,
      deployment: deployment!,
      outcome: outcome!,
      ...(tag && { tag }),
      lines: [{ source: 'model', usage: { promptTokens, completionTokens } }],
    },
  }
}

const kept = process.env.USAGE_SIZE_KEEP
const tables = openTables(kept ?? join(folder, 'usage'))
const settled = new SettledTables(tables.db)
const called = new CalledTables(tables.db)
const spent = { log: 0, settled: 0, called: 0 }
const timed = (what: keyof typeof spent, work: () => void) => {
  spent[what] += timeOf(work)
}
let [number, rows] = [0, 0]
for (let day = today - DAYS + 1; day <= today; day++) {
  const files = new DayFiles(logFolder, bounds, () => day * DAY_MS + DAY_MS - 1)
  const name = new Date(day * DAY_MS).toISOString().slice(0, 10).replaceAll('-', '')
  const ofDay = Math.floor(calls / DAYS)
  for (let i = 0; i < ofDay; i += BATCH) {
    const batch = Array.from({ length: Math.min(BATCH, ofDay - i) }, (_, j) =>
      recordOf(number++, day * DAY_MS + Math.floor(((i + j) / ofDay) * DAY_MS)),
    )
    const lines = batch.map(lineOf).join('\n')
    timed('log', () => void files.store(lines))
    timed('called', () => called.add(callsIn(lines)))
    const charged = batch.filter(({ limited_by }) => limited_by === undefined)
    rows += charged.length
    timed('settled', () =>
      transact(tables.db, () => {
        for (const [account, of] of Map.groupBy(charged, (one) => one.account_id!)) {
          settled.add(
            account,
            of.map((one, seq) => rowOf(one, seq, name)),
          )
        }
      }),
    )
  }
  files.close()
}
const perSecond = (ms: number, count = number) => Math.round(count / (ms / 1000))
process.stdout.write(
  `${number} calls; rows a second: log ${perSecond(spent.log)}, settled ${perSecond(spent.settled, rows)}, ` +
    `circumstances ${perSecond(spent.called)}\n`,
)

const files = new DayFiles(logFolder, bounds)
const list = (filters: Parameters<DayFiles['list']>[0]['filters'], more: object = {}) =>
  median(() => files.list({ filters, limit: 50, ...more }))
report('first page of requests', list({}), 20)
report('first page of one key', list({ key: ['key_3'] }), 20)
report('first page of a key with few calls', list({ key: ['key_990'] }), 30)
report('first page of refused calls', list({}, { status: [[400, 499]] }), 20)
report('first page of one model', list({ model: ['vendor/model-7'] }), 20)
report('first page of one session', list({ session: ['0123456789abcdef'] }), 30)
const some = files.list({ filters: {}, limit: 50 }).calls[20]!.id
report(
  'one request by its id',
  median(() => files.find(some.slice(4))),
  5,
)

const usage = (rollup: UsageQuery['rollup'], group: UsageQuery['group'], days = DAYS, top = 20) =>
  median(() =>
    answerUsage(
      tables.db,
      {
        from: (today - days + 1) * DAY_MS,
        to: (today + 1) * DAY_MS,
        rollup,
        group,
        filters: {},
        metric: 'cost_usd',
        top,
      },
      Date.now(),
    ),
  )
report('usage of 30 days by model and key, per month', usage('month', ['model', 'key']), 300)
report('usage of 30 days by model, per day', usage('day', ['model']), 150)
report('usage of 30 days by key, per day', usage('day', ['key']), 300)
report('usage of a day by model, per hour', usage('hour', ['model'], 1), 100)
const [MOST, ALL] = [1000, 2_000_000]
for (const group of [
  ['account'],
  ['key'],
  ['account', 'key'],
  ['account', 'model'],
  ['key', 'model'],
  ['tag'],
] as const) {
  const by = `of 30 days by ${group.join(' and ')}`
  report(`usage ${by}, as many groups as one may ask for`, usage('month', group, DAYS, MOST), 1000)
  report(`all usage ${by}`, usage('month', group, DAYS, ALL), 1000)
}

// The next day begins, and the oldest one is to go.
const later = new DayFiles(
  logFolder,
  { keep: DAYS - 1, size: bounds.size },
  () => (today + 1) * DAY_MS,
)
report(
  'removing a day',
  timeOf(() => later.trim()),
  20,
)
files.close()
later.close()
tables.close()
process.exitCode = failed ? 1 : 0
