/** Replays a policy on calls whose contents were kept. */
import { ROUTES } from '../../gateway/routes.ts'
import type { InputTexts } from '../../guard/adapter.ts'
import { rehearse, type Rehearsal, type Rehearsed } from '../../guard/rehearsal.ts'
import { usdJson } from '../../money/money.ts'
import type { CallContent, SaidText } from '../../observe/content/content.ts'
import { restored } from '../../observe/content/kept.ts'
import type { Channel, Side } from '../../plugin.ts'
import { knownRefusals, readPolicy } from '../../policy/policy.ts'
import { readNew } from './bodies.ts'
import { requireJudge } from './policies.ts'
import { replay, type Replayed, type SideVerdict } from './resources/policy.ts'
import { bodyOf, incomingOf, type Answer, type AdminRequest } from './route.ts'
import { trialOf } from './trial.ts'

const SIDES: readonly Side[] = ['input', 'output']
/** Time limit; the calls that were replayed by then are answered. */
const MAX_MS = 20_000

/** Compares recorded decisions of guards with those under another policy. @throws InvalidRequest, Unavailable */
export async function replayPolicy(request: AdminRequest): Promise<Answer> {
  const { runtime } = request
  const { policy: given, ask, ...which } = readNew(replay, await bodyOf(request))
  const policy = readPolicy(given)
  requireJudge(runtime, policy)
  const contents = await runtime.contents.list(which)
  const trial = trialOf(runtime, incomingOf(request), policy, ask)
  const rehearsal = await rehearse(trial)
  const found = new Findings(policy.guard?.mode === 'monitor' ? 'monitor' : 'block')
  const until = performance.now() + MAX_MS
  for (const content of contents) {
    if (performance.now() > until) break
    trial.proceed()
    const texts = textsOf(content, knownRefusals(trial.policy))
    if (texts) found.add(content, await judged(rehearsal, texts))
    else found.unreadable++
  }
  const cost = ask ? { cost_usd: usdJson(trial.spent) } : {}
  const data: Replayed = { contents: contents.length, ...found.view, ...cost }
  return { body: { data } }
}

interface Texts {
  readonly input: InputTexts
  readonly output: readonly { readonly channel: Channel; readonly text: string }[]
}

/** @returns undefined for contents that guards cannot read, because their end is missing */
function textsOf(
  { endpoint, input, output }: CallContent,
  refusals: readonly string[],
): Texts | undefined {
  const adapter = ROUTES.find(({ path }) => path === endpoint)?.endpoint?.guard
  if (!adapter) return undefined
  try {
    const said = JSON.parse(output) as readonly (SaidText & { readonly channel: Channel })[]
    return { input: adapter.inputTexts(restored(input), refusals), output: said }
  } catch {
    return undefined
  }
}

/** Judges a call; a blocked input has no answer to judge. */
async function judged(rehearsal: Rehearsal, { input, output }: Texts): Promise<Judged> {
  const first = await rehearsal.input(input)
  if (first.rules.length > 0) return { input: first }
  const turn = input.items.filter(({ current, role }) => current && role === 'user')
  const userTurn = turn.map(({ text }) => text).join('\n')
  return { input: first, output: await rehearsal.output(output, userTurn) }
}

interface Judged {
  readonly input: Rehearsed
  readonly output?: Rehearsed
}

class Findings {
  unreadable = 0
  readonly #enforced: SideVerdict
  #calls = 0
  readonly #blocked = { before: 0, after: 0 }
  /** Number of answers that a guard had cut: later text was not kept. */
  #cut = 0
  readonly #changed: Replayed['changed'][number][] = []
  readonly #failed = new Set<string>()

  /** @param enforced verdict of a violation */
  constructor(enforced: SideVerdict) {
    this.#enforced = enforced
  }

  add({ id, key, model, decided }: CallContent, judged: Judged): void {
    this.#calls++
    const rulesBefore = (side: Side) => decided.filter((one) => one.side === side)
    const before = (side: Side): SideVerdict => {
      const outcomes = rulesBefore(side).map(({ outcome }) => outcome)
      return outcomes.includes('blocked') ? 'block' : outcomes.includes('seen') ? 'monitor' : 'pass'
    }
    const after = (side: Side): SideVerdict =>
      (judged[side]?.rules.length ?? 0) > 0 ? this.#enforced : 'pass'
    this.#blocked.before += Number(SIDES.some((side) => before(side) === 'block'))
    this.#blocked.after += Number(SIDES.some((side) => after(side) === 'block'))
    for (const side of SIDES)
      for (const guard of judged[side]?.failed ?? []) this.#failed.add(guard)
    if (before('output') === 'block') this.#cut++
    const side = SIDES.find((one) => before(one) !== after(one))
    // A refused answer is known only up to the refusal.
    if (side === undefined || (side === 'output' && before('input') === 'block')) return
    if (side === 'output' && before('output') === 'block') return
    const rules =
      after(side) === 'pass' ? rulesBefore(side).map(({ rule }) => rule) : judged[side]!.rules
    const verdicts = { side, from: before(side), to: after(side), rules: [...new Set(rules)] }
    this.#changed.push({ id, key_id: key, model: model ?? null, ...verdicts })
  }

  get view() {
    return {
      calls: this.#calls,
      unreadable: this.unreadable,
      cut: this.#cut,
      blocked: this.#blocked,
      changed: this.#changed,
      failed_guards: [...this.#failed],
    }
  }
}
