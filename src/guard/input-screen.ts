/** Guards look at what goes in, before anything of it leaves the house (guard design, 1.1 and 1.3). */
import type { TextItem } from '../plugin.ts'
import type { Violation } from './decision.ts'
import type { PatternAssignment } from './plan.ts'
import type { InputTexts, RefusedTurn } from './adapter.ts'
import { inTurns, type Steps } from '../patterns/time-slice.ts'
import { GuardFault, toFault } from './verdicts.ts'
import type { GuardRunner } from './runner.ts'

export interface InputInit {
  readonly input: InputTexts
  readonly patterns: readonly PatternAssignment[]
  /** Local ones before remote ones. */
  readonly watches: readonly GuardRunner[]
  readonly notes: InputObserver
}

/** What is written down while an input is screened. */
export interface InputObserver {
  /** Something was found. @param blocks false where it is left out and has no further effect */
  found(found: Violation, unit: TextItem, blocks: boolean): void
  /** A guard could not look. @returns whether the call may not go on without it */
  failed(guard: string, fault: GuardFault): boolean
  /** Throws where nobody waits for the verdict any more; asked now and then. */
  proceed(): void
}

/** What becomes of an input. */
export interface InputVerdict {
  /** Why it goes no further. */
  readonly stop: 'blocked' | GuardFault | undefined
  /** Earlier turns that violate, and were refused then. */
  readonly withheld: readonly RefusedTurn[]
}

/** What one guard said of the input: what violates, and why something of it could not be judged. */
interface Checked {
  readonly violations: readonly LocatedViolation[]
  readonly fault: unknown
}

interface LocatedViolation {
  readonly found: Violation
  readonly unit: TextItem
}

/** Characters of short texts that are looked at in one step, and what each text costs besides. */
const STEP = 1 << 13
const TEXT = 1 << 6

const NOTHING: readonly never[] = []
const NO_TURNS: ReadonlyMap<string, RefusedTurn> = new Map()

/** One input on its way past the guards. */
export class InputScreen {
  readonly #init: InputInit
  /** Made when there is the first. */
  #withheld: Set<RefusedTurn> | undefined
  /** By the ids of their units: there may be as many of them as a body has room for. */
  readonly #turns: ReadonlyMap<string, RefusedTurn>

  constructor(init: InputInit) {
    this.#init = init
    const { refusedTurns: settled } = init.input
    this.#turns =
      settled.length > 0
        ? new Map(settled.flatMap((turn) => [...turn.units].map((id) => [id, turn])))
        : NO_TURNS
  }

  /** Patterns and local guards. A promise only where that takes longer, or plugins are asked. */
  local(): InputVerdict | Promise<InputVerdict> {
    const { patterns, watches, notes } = this.#init
    const looks = patterns.length > 0 && !this.#isClean()
    const matched = looks ? inTurns(this.#matchAll(), notes.proceed.bind(notes)) : undefined
    const plugins = watches.length > 0 ? watches.filter(({ local }) => local) : NOTHING
    return matched instanceof Promise || (!matched && plugins.length > 0)
      ? this.#askLocal(matched, plugins)
      : this.#verdict(matched)
  }

  async #askLocal(
    matched: InputVerdict['stop'] | Promise<InputVerdict['stop']>,
    plugins: readonly GuardRunner[],
  ): Promise<InputVerdict> {
    let stop = await matched
    for (const watch of plugins) stop ??= await this.#ask(watch, this.#units())
    return this.#verdict(stop)
  }

  /** Whether there are guards that take their time. */
  get asks(): boolean {
    return this.#init.watches.some(({ local, guard }) => !local && guard.checkInput !== undefined)
  }

  /** Guards that take their time, all at once. The first that blocks decides; what the others say is not waited for. */
  async remote(): Promise<InputVerdict> {
    const watches = this.#init.watches.filter((watch) => !watch.local && watch.guard.checkInput)
    if (watches.length === 0) return this.#verdict(undefined)
    const units = this.#units()
    const { promise, resolve } = Promise.withResolvers<InputVerdict['stop']>()
    const asking = watches.map(async (watch) => {
      const stop = await this.#ask(watch, units)
      if (stop) resolve(stop)
    })
    void Promise.all(asking).then(() => resolve(undefined))
    return this.#verdict(await promise)
  }

  /** What is still to be read: turns that are withheld are not. */
  #units(): readonly TextItem[] {
    const { units } = this.#init.input
    const withheld = this.#withheld
    if (!withheld) return units
    return units.filter((unit) => {
      const turn = this.#turnOf(unit)
      return !turn || !withheld.has(turn)
    })
  }

  /** Whether an input is short and nothing is found in it, as in most: that is seen without steps. */
  #isClean(): boolean {
    const { input, patterns } = this.#init
    const { units } = input
    let length = 0
    for (let i = 0; i < units.length; i++) length += TEXT + units[i]!.text.length
    if (length > STEP) return false
    for (let i = 0; i < patterns.length; i++) {
      const { matcher } = patterns[i]!
      for (let j = 0; j < units.length; j++) {
        const { text } = units[j]!
        if (text !== '' && !matcher.isClean(text)) return false
      }
    }
    return true
  }

  *#matchAll(): Steps<InputVerdict['stop']> {
    for (const duty of this.#init.patterns) {
      const stop = this.#weigh(yield* this.#match(duty))
      if (stop) return stop
    }
    return undefined
  }

  *#match({ matcher, offset, origin }: PatternAssignment): Steps<readonly LocatedViolation[]> {
    const violations: LocatedViolation[] = []
    let looked = 0
    for (const unit of this.#init.input.units) {
      const { text } = unit
      if (text === '') continue
      if (matcher.isClean(text)) {
        looked += TEXT + text.length
        if (looked > STEP) {
          looked = 0
          yield
        }
        continue
      }
      const hit = yield* matcher.searchTask(text)
      yield
      if (!hit) continue
      const { pattern, view, start, end } = hit
      const rule = `bannedPatterns[${pattern + offset}]` as const
      const block = { action: 'block', rule, spans: [{ start, end }] } as const
      violations.push({ unit, found: { guard: 'patterns', origin, block, view } })
      if (!this.#turnOf(unit)) break
    }
    return violations
  }

  async #ask(watch: GuardRunner, units: readonly TextItem[]): Promise<InputVerdict['stop']> {
    if (!watch.guard.checkInput || units.length === 0) return undefined
    try {
      const checked = watch.local
        ? this.#check(
            watch,
            units,
            await watch.inTime(
              'input',
              watch.work((context) => watch.guard.checkInput!(units, context)),
            ),
          )
        : await watch.ask('input', async (context) =>
            this.#check(watch, units, await watch.guard.checkInput!(units, context)),
          )
      const stop = this.#weigh(checked.violations)
      // What it could not read does not undo what it did read.
      if (stop === undefined && checked.fault) throw checked.fault
      return stop
    } catch (error) {
      const fault = toFault(error)
      return this.#init.notes.failed(watch.name, fault) ? fault : undefined
    }
  }

  #check(watch: GuardRunner, units: readonly TextItem[], verdicts: unknown): Checked {
    if (!Array.isArray(verdicts) || verdicts.length !== units.length) {
      throw new GuardFault('invalid', 'the guard answered with the wrong number of verdicts')
    }
    const violations: LocatedViolation[] = []
    let fault: unknown
    units.forEach((unit, index) => {
      try {
        const block = watch.blockIn(verdicts[index], unit.text.length)
        const { name: guard, origin } = watch
        if (block) violations.push({ unit, found: { guard, origin, block } })
      } catch (error) {
        fault ??= error
      }
    })
    if (fault && violations.length === 0) throw fault
    return { violations, fault }
  }

  /** Violations of turns that were refused before are withheld; the first other one blocks. */
  #weigh(violations: readonly LocatedViolation[]): 'blocked' | undefined {
    for (const { found, unit } of violations) {
      const turn = this.#turnOf(unit)
      this.#init.notes.found(found, unit, turn === undefined)
      if (!turn) return 'blocked'
      this.#withheld = (this.#withheld ?? new Set()).add(turn)
    }
    return undefined
  }

  #turnOf({ id }: TextItem): RefusedTurn | undefined {
    return this.#turns.get(id)
  }

  #verdict(stop: InputVerdict['stop']): InputVerdict {
    return { stop, withheld: this.#withheld ? [...this.#withheld] : NOTHING }
  }
}
