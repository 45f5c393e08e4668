/** The calls of thirty days, made up from a seed: their times, usage, and outcomes. */
import type { Config } from '../../config/config.ts'
import { NO_COST, priceUsage, type Bill, type UsageLine } from '../../money/money.ts'
import { compilePrices, tierOf, type Prices, versionOf } from '../../money/prices.ts'
import { agentOf, costDetails, quantitiesOf, type KnownCall } from '../../observe/record.ts'
import type { Usage } from '../../plugin.ts'
import { requestId } from '../../state/ids.ts'
import type { Outcome, RowItem } from '../../state/ledger/ledger.ts'
import { ACCOUNTS, type DemoAccount, type DemoKey, type DemoPolicy } from './people.ts'

/** Numbers from 0 to 1, the same ones for the same seed. */
export type Random = () => number

export interface DemoCall {
  readonly item: RowItem
  readonly record: KnownCall
  readonly bill: Bill
}

const CALLS = 40_000
const HOUR_MS = 3_600_000
export const DAY_MS = 24 * HOUR_MS
export const DAYS = 30
/** The parts of the calls that fail, and that a guard blocks. */
const FAILED = 0.02
const BLOCKED = 0.03
/** The start of the only outage, before now, and its length. */
const DOWN_MS = 3 * DAY_MS + 5 * HOUR_MS
const DOWN_FOR_MS = 40 * 60_000

const OFFICE = [
  1, 1, 1, 1, 1, 2, 4, 9, 16, 20, 21, 19, 14, 18, 20, 19, 17, 13, 8, 6, 5, 4, 3, 2,
] as const
const FAULTS = [
  { status: 502, code: 'upstream_error', result: 'upstream_error' },
  { status: 504, code: 'upstream_timeout', result: 'timeout' },
  { status: 503, code: 'provider_overloaded', result: 'overloaded' },
] as const

/** All calls, oldest first. @param now ms since epoch: the end of the days */
export function* callsOf(
  models: Config['models'],
  random: Random,
  now: number,
): Iterable<DemoCall> {
  const prices = new Map(
    Object.entries(models).map(([id, { pricing }]) => [id, compilePrices(pricing)]),
  )
  const keys = ACCOUNTS.flatMap((account) => account.keys.map((key) => ({ account, key })))
  const moments = Array.from({ length: CALLS }, () => {
    const { account, key } = pick(keys, ({ key: { weight } }) => weight, random)
    return { at: momentOf(key, random, now), account, key }
  }).toSorted((a, b) => a.at - b.at)
  for (const { at, account, key } of moments) {
    const model = pick(Object.entries(key.models), ([, weight]) => weight, random)[0]
    yield callOf({ at, account, key, model, prices: prices.get(model)!, random, now })
  }
}

function momentOf({ rhythm, endedDaysAgo = 0 }: DemoKey, random: Random, now: number): number {
  const end = now - endedDaysAgo * DAY_MS
  for (;;) {
    const at = Math.floor(now - DAYS * DAY_MS + random() * (end - now + DAYS * DAY_MS))
    if (rhythm === 'even') return at
    const date = new Date(at)
    const isWeekend = date.getUTCDay() % 6 === 0
    if (random() * 21 < OFFICE[date.getUTCHours()]! * (isWeekend ? 0.25 : 1)) return at
  }
}

interface Asked {
  readonly at: number
  readonly account: DemoAccount
  readonly key: DemoKey
  readonly model: string
  readonly prices: Prices
  readonly random: Random
  readonly now: number
}

function callOf({ at, account, key, model, prices, random, now }: Asked): DemoCall {
  const fault = random() < FAILED ? FAULTS[Math.floor(random() * FAULTS.length)]! : undefined
  const blocked = !fault && key.policy !== undefined && random() < BLOCKED
  const outcome: Outcome = fault ? 'failed' : blocked ? 'refused' : 'completed'
  const { path, usage, msPerUnit } = useOf(model, random)
  const name = model.slice(model.indexOf('/') + 1)
  const isDown = at >= now - DOWN_MS && at < now - DOWN_MS + DOWN_FOR_MS
  const [first, second] = random() < 0.7 ? ['demo-east', 'demo-west'] : ['demo-west', 'demo-east']
  const movedOn = isDown && first === 'demo-east'
  const deployment = `${movedOn ? second : first}/${name}`
  const firstMs = Math.round(120 + spread(random) * 300 + (movedOn ? 2000 : 0))
  const ms = firstMs + Math.round(msPerUnit * (0.7 + random()))
  const lines: UsageLine[] = fault ? [] : [{ source: 'model', usage, prices }]
  const bill = fault || blocked ? NO_COST : priceUsage(lines)
  const attempts = [
    ...(movedOn ? [{ deployment: `${first}/${name}`, ms: 2000, result: 'timeout' }] : []),
    { deployment, ms: ms - (movedOn ? 2000 : 0), result: fault?.result ?? 'ok' },
  ]
  const request = requestId(at)
  const item = rowOf({ account, key, request, at, path, model, deployment, outcome, lines, bill })
  return {
    bill,
    item,
    record: {
      id: request,
      at: new Date(at).toISOString(),
      method: 'POST',
      endpoint: path,
      status: fault?.status ?? 200,
      code: fault?.code,
      outcome,
      stream: path === CHAT ? random() < 0.8 : undefined,
      times: { admit_ms: 1, first_ms: path === CHAT ? firstMs : undefined, total_ms: ms },
      account_id: account.id,
      key_id: key.id,
      model,
      deployment,
      usage: quantitiesOf(fault ? undefined : usage, undefined),
      cost_usd: bill.text,
      cost_details: costDetails(bill),
      ...(key.policy && decisionOf(key.policy, blocked, random)),
      agent: agentOf(key.agent),
      attempts: attempts.length > 1 || fault ? attempts : undefined,
    },
  }
}

interface Booked extends Pick<Asked, 'at' | 'account' | 'key' | 'model'> {
  readonly request: string
  readonly path: string
  readonly deployment: string
  readonly outcome: Outcome
  readonly lines: readonly UsageLine[]
  readonly bill: Bill
}

function rowOf({ account, key, request, at, path, lines, bill, ...rest }: Booked): RowItem {
  const { model, deployment, outcome } = rest
  return {
    kind: 'usage',
    account: account.id,
    key: key.id,
    request,
    day: new Date(at).toISOString().slice(0, 10).replaceAll('-', ''),
    at,
    cost: bill.cost,
    usage: {
      at,
      endpoint: path,
      model,
      deployment,
      outcome,
      lines: lines.map(({ source, usage, prices }) => ({
        source,
        usage,
        prices: versionOf(prices),
        tier: tierOf(prices, usage.promptTokens ?? 0),
      })),
      ...(bill === NO_COST && { charged: 'nothing' }),
    },
  }
}

function decisionOf(
  { deny = [], bannedPatterns = [] }: DemoPolicy,
  blocked: boolean,
  random: Random,
): Pick<KnownCall, 'guard' | 'decided'> {
  const mode = 'block'
  if (!blocked) {
    const decided = [{ mode, side: 'all', rule: '', outcome: 'passed' }]
    return { guard: { outcome: 'passed', rules: [] }, decided }
  }
  const rules = [...deny.map((one) => `deny:${one}`), ...bannedPatterns.map(() => 'bannedPatterns')]
  const rule = rules[Math.floor(random() ** 2 * rules.length)]!
  const side = random() < 0.7 ? 'input' : 'output'
  const place = rule === 'bannedPatterns' ? `${rule}[0]` : rule
  const decided = [{ mode, side, rule, outcome: 'blocked' }]
  return { guard: { outcome: 'blocked', rules: [place] }, decided }
}

const CHAT = '/v1/chat/completions'

function useOf(model: string, random: Random): { path: string; usage: Usage; msPerUnit: number } {
  switch (model) {
    case 'demo/compass': {
      const promptTokens = Math.round(200 + spread(random) * 1500)
      return { path: '/v1/embeddings', usage: { promptTokens }, msPerUnit: 40 }
    }
    case 'demo/easel':
      return { path: '/v1/images/generations', usage: { images: 1 }, msPerUnit: 9000 }
    case 'demo/echo-voice': {
      const characters = Math.round(80 + spread(random) * 900)
      return { path: '/v1/audio/speech', usage: { characters }, msPerUnit: 1200 }
    }
    case 'demo/logbook': {
      const seconds = Math.round(60 + spread(random) * 1800)
      return { path: '/v1/audio/transcriptions', usage: { seconds }, msPerUnit: 5000 }
    }
    default: {
      const promptTokens = Math.round(150 + spread(random) * 5200)
      const completionTokens = Math.round(30 + spread(random) * 700)
      const cachedTokens = random() < 0.45 ? Math.floor(promptTokens * random() * 0.9) : 0
      const usage = { promptTokens, completionTokens, cachedTokens }
      return { path: CHAT, usage, msPerUnit: completionTokens * 11 }
    }
  }
}

/** A factor that is mostly small, seldom large: the mean is 1. */
function spread(random: Random): number {
  return -Math.log(1 - random() * 0.999)
}

function pick<T>(from: readonly T[], weightOf: (one: T) => number, random: Random): T {
  let left = random() * from.reduce((sum, one) => sum + weightOf(one), 0)
  return from.find((one) => (left -= weightOf(one)) < 0) ?? from.at(-1)!
}
