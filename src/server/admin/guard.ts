import { decisionText } from '../../observe/log/query.ts'
import { readRange } from '../../observe/usage/parse.ts'
import type { DecisionSums } from '../../observe/usage/work.ts'
import { checkParameters, readValues } from '../../errors/query.ts'
import { withNames } from './views.ts'
import type { GuardAnswer } from './resources/guard.ts'
import { second } from './resources/settings.ts'
import { type Answer, type AdminRequest, type Routes, needs } from './route.ts'

export const guardRoutes: Routes = {
  '/guard': { GET: needs('read', showGuard) },
}

const PARAMETERS = new Set(['from', 'to', 'account', 'key'])
const DAY_MS = 86_400_000
const NO_SUMS: DecisionSums = { days: [], keys: [] }

/** Decisions of a range by day and by key, and the state of every guard. @throws InvalidRequest, Unavailable */
async function showGuard({ runtime, query }: AdminRequest): Promise<Answer> {
  checkParameters(query, PARAMETERS)
  const { from, to } = readRange(query, Date.now())
  const [accounts, keys] = ['account', 'key'].map((name) => readValues(query, name))
  const question = { from, to, accounts: accounts!, keys: keys! }
  const { usage, guards, metrics } = runtime
  const { days, keys: byKey } = usage ? await usage.ask('decisions', question) : NO_SUMS
  // Decisions are counted by whole days.
  const span = {
    from: second(Math.floor(from / DAY_MS) * DAY_MS),
    to: second(Math.ceil(to / DAY_MS) * DAY_MS),
  }
  const data: GuardAnswer = {
    range: { from: second(from), to: second(to) },
    decisions: days.map(({ start, ...one }) => ({ day: second(start).slice(0, 10), ...one })),
    rules: rulesOf(days).map((one) => ({
      ...one,
      where: {
        ...span,
        decided: decisionText(one),
        ...(accounts!.length > 0 && { account: accounts! }),
        ...(keys!.length > 0 && { key: keys! }),
      },
    })),
    keys: await withNames(
      runtime,
      byKey.map(({ account, key, ...one }) => ({
        account_id: account,
        key_id: key,
        ...one,
        where: { ...span, decided: decisionText(one), account, key },
      })),
    ),
    guards: guards.all.map(({ name, plugin, guard, mode }) => ({
      guard: name,
      plugin,
      execution: guard.execution,
      mode,
      ...metrics.guard.stateOf(name),
    })),
  }
  return { body: { data } }
}

/** The decisions of all days together, the most frequent first. */
function rulesOf(days: DecisionSums['days']): Omit<DecisionSums['days'][number], 'start'>[] {
  const ofRules = Map.groupBy(days, decisionText)
  return [...ofRules.values()]
    .map((cells) => {
      const { rule, mode, side, outcome } = cells[0]!
      return { rule, mode, side, outcome, calls: cells.reduce((sum, one) => sum + one.calls, 0) }
    })
    .toSorted((one, next) => next.calls - one.calls)
}
