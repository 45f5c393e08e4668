/** Guards on the texts of an input, before anything of it leaves the gateway. */
import { yieldIfDue } from '../patterns/time-slice.ts'
import type { GuardContext, Origin, TextItem } from '../plugin.ts'
import type { ScreenObserver } from './decision.ts'
import type { PatternAssignment } from './plan.ts'
import type { InputTexts, RefusedTurn } from './adapter.ts'
import { GuardFault, patternBlock, toFault, type Block, type GuardRunner } from './runner.ts'

interface InputInit {
  readonly input: InputTexts
  /** The texts as the client sent them, which patterns read, where the others are masked. */
  readonly original?: InputTexts | undefined
  readonly patterns: readonly PatternAssignment[]
  readonly runners: readonly GuardRunner[]
  readonly observer: Pick<ScreenObserver, 'found' | 'failed'>
  /** Throws when the verdict is no longer wanted; called now and then. */
  readonly proceed: () => void
}

export interface InputVerdict {
  readonly stop: 'blocked' | GuardFault | undefined
  /** Earlier turns that violate a rule and were refused then. */
  readonly withheld: readonly RefusedTurn[]
}

interface Blocked {
  readonly item: TextItem
  readonly block: Block
}

interface Judgement {
  readonly blocked: readonly Blocked[]
  readonly fault: unknown
}

export class InputScreen {
  readonly #init: InputInit
  readonly #withheld = new Set<RefusedTurn>()
  /** The key is the id of an item; a body has room for many of them. */
  readonly #turns: ReadonlyMap<string, RefusedTurn>

  constructor(init: InputInit) {
    this.#init = init
    const { refusedTurns } = init.input
    this.#turns = new Map(refusedTurns.flatMap((turn) => [...turn.items].map((id) => [id, turn])))
  }

  async local(): Promise<InputVerdict> {
    const { patterns, runners } = this.#init
    let stop: InputVerdict['stop']
    for (const assignment of patterns) stop ??= await this.#match(assignment)
    for (const runner of runners) if (runner.local) stop ??= await this.#ask(runner, this.#items())
    return this.#verdict(stop)
  }

  get isRemote(): boolean {
    return this.#init.runners.some(({ local, guard }) => !local && guard.checkInput !== undefined)
  }

  /** Asks remote guards, all at once. The first that blocks decides; the others are not awaited. */
  async remote(): Promise<InputVerdict> {
    const items = this.#items()
    const { promise, resolve, reject } = Promise.withResolvers<InputVerdict['stop']>()
    const asking = this.#init.runners
      .filter(({ local }) => !local)
      .map(async (runner) => {
        const stop = await this.#ask(runner, items)
        if (stop) resolve(stop)
      })
    Promise.all(asking).then(() => resolve(undefined), reject)
    return this.#verdict(await promise)
  }

  /** The unread items: withheld turns are not read. */
  #items(): readonly TextItem[] {
    const { items } = this.#init.input
    if (this.#withheld.size === 0) return items
    return items.filter((item) => {
      const turn = this.#turnOf(item)
      return !turn || !this.#withheld.has(turn)
    })
  }

  async #match({ matcher, offset, origin }: PatternAssignment): Promise<'blocked' | undefined> {
    const { input, original, proceed } = this.#init
    const blocked: Blocked[] = []
    for (const item of (original ?? input).items) {
      const { text } = item
      if (text === '') continue
      const lookup = matcher.search(text, proceed)
      const match = lookup instanceof Promise ? await lookup : lookup
      const due = yieldIfDue(proceed)
      if (due) await due
      if (!match) continue
      blocked.push({ item, block: patternBlock(match, offset) })
      if (!this.#turnOf(item)) break
    }
    return this.#apply('patterns', origin, blocked)
  }

  async #ask(runner: GuardRunner, items: readonly TextItem[]): Promise<InputVerdict['stop']> {
    const { guard, name, origin } = runner
    if (!guard.checkInput || items.length === 0) return undefined
    const ask = (context: GuardContext) => guard.checkInput!(items, context)
    try {
      const { blocked, fault } = runner.local
        ? judgementOf(runner, items, await runner.inTime('input', runner.work(ask)))
        : await runner.ask(
            'input',
            async (context) => judgementOf(runner, items, await ask(context)),
            { blocksIn: (judgement) => judgement.blocked.map(({ block }) => block) },
          )
      const stop = this.#apply(name, origin, blocked)
      // What it could not read does not undo what it did read.
      if (stop === undefined && fault) throw fault
      return stop
    } catch (error) {
      const fault = toFault(error)
      return this.#init.observer.failed(name, fault) ? fault : undefined
    }
  }

  /** Withholds turns that were refused before; the first other blocked text ends the call. */
  #apply(guard: string, origin: Origin, all: readonly Blocked[]): 'blocked' | undefined {
    for (const { item, block } of all) {
      const { id, channel, text } = item
      const turn = this.#turnOf(item)
      const matched = (block.spans ?? []).map(({ start, end }) => text.slice(start, end))
      this.#init.observer.found({ guard, origin, block, channel, unit: id, matched }, !turn)
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

/** Checks the form of a guard's verdicts. @throws GuardFault */
function judgementOf(
  runner: GuardRunner,
  items: readonly TextItem[],
  verdicts: unknown,
): Judgement {
  if (!Array.isArray(verdicts) || verdicts.length !== items.length) {
    throw new GuardFault('invalid', 'the guard answered with the wrong number of verdicts')
  }
  const blocked: Blocked[] = []
  let fault: unknown
  items.forEach((item, index) => {
    try {
      const block = runner.blockIn(verdicts[index], item.text.length)
      if (block) blocked.push({ item, block })
    } catch (error) {
      fault ??= error
    }
  })
  if (fault && blocked.length === 0) throw fault
  return { blocked, fault }
}
