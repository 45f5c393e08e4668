/** What guards find in one text, as the result of a moderation. */
import { InvalidRequest, Unavailable } from '../../errors/errors.ts'
import type { GuardInstance } from '../../guard/plan.ts'
import {
  type GuardRunner,
  ruleFilter,
  toFault,
  type BlockVerdict,
  type FaultKind,
  type GuardFault,
} from '../../guard/runner.ts'
import type { Call } from '../../pipeline/pipeline.ts'
import { GuardRunners } from '../../pipeline/stages/guard.ts'
import { CATEGORIES, type ActiveRules, type Category, type TextItem } from '../../plugin.ts'
import { itemOf } from '../shared/guard.ts'

const NONE = { patterns: [], assignments: [] }
const DENIED = 'deny:'
/** Faults that lie in the text. */
const OF_THE_TEXT: ReadonlySet<FaultKind> = new Set(['too_large', 'unreadable'])

/** Rules that a guard judges without a policy's words: categories of policies by their names, then its own. */
export function rulesOf(instance: GuardInstance): readonly string[] {
  const { enforces } = instance.guard
  const own = enforces.filter((rule) => rule === 'tampering' || rule.startsWith('x:'))
  return [...categoriesOf(instance), ...own]
}

/** Categories of policies that a guard judges. */
export function categoriesOf({ guard }: GuardInstance): readonly Category[] {
  return CATEGORIES.filter((category) => guard.enforces.includes(`${DENIED}${category}`))
}

/** The result for one text. @throws Unavailable where a guard fails, InvalidRequest for a text that it cannot judge */
export async function resultOf(
  call: Call,
  guards: readonly GuardInstance[],
  text: string,
): Promise<object> {
  const scores = new Map<string, number>()
  for (const guard of guards) {
    for (const { rule, score = 1 } of await blocksOf(call, guard, text)) {
      const name = rule.startsWith(DENIED) ? rule.slice(DENIED.length) : rule
      scores.set(name, Math.max(score, scores.get(name) ?? 0))
    }
  }
  const names = [...new Set([...guards.flatMap(rulesOf), ...scores.keys()])]
  const each = <T>(of: (name: string) => T) =>
    Object.fromEntries(names.map((name) => [name, of(name)]))
  return {
    flagged: scores.size > 0,
    categories: each((name) => scores.has(name)),
    // Guards give a score to what they block only.
    category_scores: each((name) => scores.get(name) ?? 0),
    category_applied_input_types: each(() => ['text']),
  }
}

/**
 * All blocks of one guard. A guard names one rule at a time, so it is asked again without each category that it has named;
 * what it finds beside those ends that.
 */
async function blocksOf(
  call: Call,
  instance: GuardInstance,
  text: string,
): Promise<readonly BlockVerdict[]> {
  const item = itemOf('input', 'content', text)
  const runners = new GuardRunners(
    call,
    { enforcing: NONE, monitoring: NONE, faults: [], unenforced: [] },
    { items: [item], refusedTurns: [] },
  )
  let deny = categoriesOf(instance)
  const blocks: BlockVerdict[] = []
  for (;;) {
    const block = await blockBy(call, runners, instance, deny, item)
    if (!block) return blocks
    blocks.push(block)
    const left = deny.filter((category: Category) => block.rule !== `${DENIED}${category}`)
    if (left.length === deny.length || left.length === 0) return blocks
    deny = left
  }
}

async function blockBy(
  { runtime }: Call,
  runners: GuardRunners,
  instance: GuardInstance,
  deny: readonly Category[],
  item: TextItem,
): Promise<BlockVerdict | undefined> {
  const { name, plugin, guard } = instance
  const rules: ActiveRules = { scopes: [], deny, bannedPatterns: [] }
  const assignment = {
    instance,
    origin: 'key',
    rules,
    ruleFilter: ruleFilter(plugin, guard.enforces, rules),
    circuit: runtime.guards.circuits.get(`${name} key`)!,
  } as const
  const group = runners.start({ patterns: [], assignments: [assignment] }, true)
  try {
    return await ask(group.runners[0]!, item)
  } catch (error) {
    throw refusalOf(toFault(error))
  } finally {
    group.end()
  }
}

function ask(runner: GuardRunner, item: TextItem): Promise<BlockVerdict | undefined> {
  const { guard, local } = runner
  if (!local) {
    return runner.ask('input', async (context) => {
      const [verdict] = await guard.checkInput!([item], context)
      return runner.blockIn(verdict, item.text.length)
    })
  }
  const verdicts = runner.work((context) => guard.checkInput!([item], context))
  return runner
    .inTime('input', Promise.resolve(verdicts))
    .then(([verdict]) => runner.blockIn(verdict, item.text.length))
}

function refusalOf(fault: GuardFault): Error {
  if (OF_THE_TEXT.has(fault.kind)) {
    const message = 'A guard cannot judge a text of this kind or length. Send shorter texts.'
    return new InvalidRequest('unsupported_value', message, { param: 'input' })
  }
  const message = 'A guard could not look at this input. Try again later.'
  return new Unavailable('guard_unavailable', message, { cause: fault })
}
