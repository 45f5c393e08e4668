/** Guards on the texts of an input, before anything of it leaves the gateway. */
import type { TextItem } from '../plugin.ts'
import { yieldIfDue } from '../patterns/time-slice.ts'
import type { Violation } from './decision.ts'
import type { PatternAssignment } from './plan.ts'
import type { InputTexts, RefusedTurn } from './adapter.ts'
import { GuardFault, toFault } from './verdicts.ts'
import type { GuardRunner } from './runner.ts'

interface InputInit {
  readonly input: InputTexts
  readonly patterns: readonly PatternAssignment[]
  /** Local ones before remote ones. */
  readonly runners: readonly GuardRunner[]
  readonly observer: InputObserver
}

/** Told of everything that happens while an input is screened. */
export interface InputObserver {
  /** @param blocks false where the text is left out and has no further effect */
  found(violation: Violation, item: TextItem, blocks: boolean): void
  /** A guard could not look. @returns whether that ends the call */
  failed(guard: string, fault: GuardFault): boolean
  /** Throws when the verdict is no longer wanted; asked now and then. */
  proceed(): void
}

export interface InputVerdict {
  /** Why the input goes no further. */
  readonly stop: 'blocked' | GuardFault | undefined
  /** Earlier turns that violate a rule and were refused then. */
  readonly withheld: readonly RefusedTurn[]
}

interface LocatedViolation {
  readonly violation: Violation
  readonly item: TextItem
}

/** What one guard says of an input: violations, and why it could not judge something of it. */
interface Judgement {
  readonly violations: readonly LocatedViolation[]
  readonly fault: unknown
}

export class InputScreen {
  readonly #init: InputInit
  readonly #withheld = new Set<RefusedTurn>()
  /** By the ids of their items; a body has room for many of them. */
  readonly #turns: ReadonlyMap<string, RefusedTurn>

  constructor(init: InputInit) {
    this.#init = init
    const { refusedTurns } = init.input
    this.#turns = new Map(refusedTurns.flatMap((turn) => [...turn.items].map((id) => [id, turn])))
  }

  /** Asks patterns and local guards, one after the other. */
  async local(): Promise<InputVerdict> {
    const { patterns, runners } = this.#init
    let stop: InputVerdict['stop']
    for (const assignment of patterns) stop ??= this.#apply(await this.#match(assignment))
    for (const runner of runners) if (runner.local) stop ??= await this.#ask(runner, this.#items())
    return this.#verdict(stop)
  }

  /** Whether there are guards that ask elsewhere. */
  get isRemote(): boolean {
    return this.#init.runners.some(({ local, guard }) => !local && guard.checkInput !== undefined)
  }

  /** Asks remote guards, all at once. The first that blocks decides; the others are not waited for. */
  async remote(): Promise<InputVerdict> {
    const items = this.#items()
    const { promise, resolve } = Promise.withResolvers<InputVerdict['stop']>()
    const asking = this.#init.runners
      .filter(({ local }) => !local)
      .map(async (runner) => {
        const stop = await this.#ask(runner, items)
        if (stop) resolve(stop)
      })
    void Promise.all(asking).then(() => resolve(undefined))
    return this.#verdict(await promise)
  }

  /** What is still to be read: turns that are withheld are not. */
  #items(): readonly TextItem[] {
    const { items } = this.#init.input
    if (this.#withheld.size === 0) return items
    return items.filter((item) => {
      const turn = this.#turnOf(item)
      return !turn || !this.#withheld.has(turn)
    })
  }

  /** All violations up to the first that blocks. */
  async #match({
    matcher,
    offset,
    origin,
  }: PatternAssignment): Promise<readonly LocatedViolation[]> {
    const { input, observer } = this.#init
    const proceed = observer.proceed.bind(observer)
    const violations: LocatedViolation[] = []
    for (const item of input.items) {
      const { text } = item
      if (text === '') continue
      const found = matcher.search(text, proceed)
      const match = found instanceof Promise ? await found : found
      const due = yieldIfDue(proceed)
      if (due) await due
      if (!match) continue
      const { pattern, view, start, end } = match
      const rule = `bannedPatterns[${pattern + offset}]` as const
      const block = { action: 'block', rule, spans: [{ start, end }] } as const
      violations.push({ item, violation: { guard: 'patterns', origin, block, view } })
      if (!this.#turnOf(item)) break
    }
    return violations
  }

  async #ask(runner: GuardRunner, items: readonly TextItem[]): Promise<InputVerdict['stop']> {
    const { guard } = runner
    if (!guard.checkInput || items.length === 0) return undefined
    try {
      const { violations, fault } = runner.local
        ? judgementOf(
            runner,
            items,
            await runner.inTime(
              'input',
              runner.work((context) => guard.checkInput!(items, context)),
            ),
          )
        : await runner.ask('input', async (context) =>
            judgementOf(runner, items, await guard.checkInput!(items, context)),
          )
      const stop = this.#apply(violations)
      // What it could not read does not undo what it did read.
      if (stop === undefined && fault) throw fault
      return stop
    } catch (error) {
      const fault = toFault(error)
      return this.#init.observer.failed(runner.name, fault) ? fault : undefined
    }
  }

  /** Violations of turns that were refused before are withheld; the first other one blocks. */
  #apply(violations: readonly LocatedViolation[]): 'blocked' | undefined {
    for (const { violation, item } of violations) {
      const turn = this.#turnOf(item)
      this.#init.observer.found(violation, item, turn === undefined)
      if (!turn) return 'blocked'
      this.#withheld.add(turn)
    }
    return undefined
  }

  #turnOf({ id }: TextItem): RefusedTurn | undefined {
    return this.#turns.get(id)
  }

  #verdict(stop: InputVerdict['stop']): InputVerdict {
    return { stop, withheld: [...this.#withheld] }
  }
}

/** The verdicts of a guard as they have to be. @throws GuardFault */
function judgementOf(
  runner: GuardRunner,
  items: readonly TextItem[],
  verdicts: unknown,
): Judgement {
  if (!Array.isArray(verdicts) || verdicts.length !== items.length) {
    throw new GuardFault('invalid', 'the guard answered with the wrong number of verdicts')
  }
  const violations: LocatedViolation[] = []
  let fault: unknown
  items.forEach((item, index) => {
    try {
      const block = runner.blockIn(verdicts[index], item.text.length)
      const { name: guard, origin } = runner
      if (block) violations.push({ item, violation: { guard, origin, block } })
    } catch (error) {
      fault ??= error
    }
  })
  if (fault && violations.length === 0) throw fault
  return { violations, fault }
}
