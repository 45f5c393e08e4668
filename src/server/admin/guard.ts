/** `GET /admin/guard`: what guards decided, and how they work. */
import { readRange } from '../../observe/usage/parse.ts'
import type { DecisionSums } from '../../observe/usage/decisions.ts'
import { moment } from '../../observe/usage/view.ts'
import type { GuardState } from '../../observe/guard-metrics.ts'
import { checkParameters, wrongQuery } from './bodies.ts'
import { withNames } from './names.ts'
import type { GuardAnswer } from './resources/guard.ts'
import type { Answer, Asked } from './route.ts'

const PARAMETERS = new Set(['from', 'to', 'account', 'key'])
/** Values of one filter. */
const MOST_VALUES = 100
const NO_SUMS: DecisionSums = { days: [], keys: [] }

/** Decisions of a range by day and by key, and the state of every guard. @throws InvalidRequest, Unavailable */
export async function showGuard({ runtime, query }: Asked): Promise<Answer> {
  checkParameters(query, PARAMETERS)
  const { from, to } = readRange(query, Date.now())
  const [accounts, keys] = ['account', 'key'].map((name) => valuesOf(query, name))
  const asked = { from, to, accounts: accounts!, keys: keys! }
  const { usage, guards, metrics } = runtime
  const { days, keys: byKey } = usage ? await usage.ask('decisions', asked) : NO_SUMS
  const data: GuardAnswer = {
    range: { from: moment(from), to: moment(to) },
    decisions: days.map(({ start, ...one }) => ({ day: moment(start).slice(0, 10), ...one })),
    keys: await withNames(
      runtime,
      byKey.map(({ account, key, ...one }) => ({ account_id: account, key_id: key, ...one })),
    ),
    guards: guards.all.map(({ name, plugin, guard, mode }) => ({
      guard: name,
      plugin,
      execution: guard.execution,
      mode,
      ...stateView(metrics.guard.stateOf(name)),
    })),
  }
  return { body: { data } }
}

function valuesOf(query: URLSearchParams, name: string): readonly string[] {
  const values = query.getAll(name)
  if (values.length > MOST_VALUES) throw wrongQuery(name, `at most ${MOST_VALUES} values`)
  return values
}

function stateView({ circuits, errors, latency }: GuardState) {
  const ms = (seconds: number) => Math.round(seconds * 1000)
  return {
    circuits,
    errors: errors.map(({ kind, onError, count }) => ({ kind, on_error: onError, count })),
    latency: latency.map(({ side, calls, mean, p50, p95 }) => ({
      side,
      calls,
      mean_ms: ms(mean),
      p50_ms: ms(p50),
      p95_ms: ms(p95),
    })),
  }
}
