/** What goes in, and what is found on the web for it, while guards look at it (guard design, 1.1 and 1.3). */
import type { Violation } from '../../../guard/decision.ts'
import type { Assignment, PatternAssignment, GuardPlan } from '../../../guard/plan.ts'
import { InputScreen, type InputObserver, type InputVerdict } from '../../../guard/input-screen.ts'
import type { GuardAdapter, InputTexts } from '../../../guard/adapter.ts'
import type { GuardFault } from '../../../guard/verdicts.ts'
import type { Call } from '../../pipeline.ts'
import type { SearchResult, TextItem } from '../../../plugin.ts'
import { sendOn, type Errand } from './abort.ts'
import type { GuardReporter } from './report.ts'
import type { GuardRunners } from './runners.ts'

/** Why a call goes no further, if it does not. */
export type Stop = InputVerdict['stop']

/** Why a call goes no further, or the guards that still look while the model is asked. */
export interface InputResult {
  readonly stop: Stop
  readonly later?: () => Promise<Stop>
}

/** Texts to be looked at. */
interface ScannedTexts {
  readonly input: InputTexts
  /** What becomes of a part that violates and need not end the call. */
  readonly effect: 'withheld' | 'dropped'
}

export class InputGuard {
  readonly #call: Call
  readonly #withhold: GuardAdapter['withhold']
  readonly #roster: GuardPlan
  readonly #report: GuardReporter
  readonly #watches: GuardRunners
  readonly #asked: ScannedTexts

  constructor(
    call: Call,
    guarding: GuardAdapter,
    input: InputTexts,
    roster: GuardPlan,
    report: GuardReporter,
    watches: GuardRunners,
  ) {
    this.#call = call
    this.#withhold = guarding.withhold
    this.#roster = roster
    this.#report = report
    this.#watches = watches
    this.#asked = { input, effect: 'withheld' }
  }

  /** Changes, delays and refuses nothing. */
  lookOn(): void {
    const { duties, monitoring: watching, patterns } = this.#roster
    this.#lookOn(this.#asked, [...duties, ...watching], patterns)
  }

  /** A promise only where it takes longer. */
  screen(): InputResult | Promise<InputResult> {
    const { duties, monitoring: watching, patterns } = this.#roster
    if (watching.length > 0) this.#lookOn(this.#asked, watching, [])
    const errand = sendOn(duties, this.#call)
    const screen = this.#screenOf(this.#asked, duties, patterns, errand.signal, true)
    const verdict = screen.local()
    const goOn = (one: InputVerdict) => this.#goOn(screen, errand, this.#weigh(one))
    return verdict instanceof Promise ? verdict.then(goOn) : goOn(verdict)
  }

  /** After local guards. */
  #goOn(screen: InputScreen, errand: Errand, stop: Stop): InputResult | Promise<InputResult> {
    if (stop || !screen.asks) {
      errand.end()
      return { stop }
    }
    const remote = () =>
      screen
        .remote()
        .then((verdict) => this.#weigh(verdict))
        .finally(errand.end)
    // A turn that is to be withheld must not have gone upstream.
    const overlaps =
      this.#call.runtime.config.guards.overlapInput && this.#asked.input.refusedTurns.length === 0
    return overlaps
      ? { stop: undefined, later: remote }
      : remote().then((found) => ({ stop: found }))
  }

  /** Hits of a search are looked at and change for nobody. */
  lookOnHits(hits: readonly SearchResult[]): readonly SearchResult[] {
    const { duties, monitoring: watching, patterns } = this.#roster
    this.#lookOn(materialOf(hits), [...duties, ...watching].filter(isLocal), patterns)
    return hits
  }

  /**
   * Hits that keep to the exact rules: the others are neither shown to the model nor cited. Judges are not asked. Where a
   * guard could not look there are none.
   */
  async screenHits(hits: readonly SearchResult[]): Promise<readonly SearchResult[]> {
    const { duties, monitoring: watching, patterns } = this.#roster
    const found = materialOf(hits)
    const watchers = watching.filter(isLocal)
    if (watchers.length > 0) this.#lookOn(found, watchers, [])
    const own = duties.filter(isLocal)
    const errand = sendOn(own, this.#call)
    try {
      const screen = this.#screenOf(found, own, patterns, errand.signal, true)
      const { stop, withheld } = await screen.local()
      if (stop) return []
      return hits.filter((_, index) => !withheld.includes(found.input.refusedTurns[index]!))
    } finally {
      errand.end()
    }
  }

  #lookOn(
    material: ScannedTexts,
    duties: readonly Assignment[],
    patterns: readonly PatternAssignment[],
  ): void {
    const { signal, end } = sendOn(duties, this.#call)
    const screen = this.#screenOf(material, duties, patterns, signal, false)
    const looking = async () => {
      const { stop } = await screen.local()
      if (!stop) await screen.remote()
    }
    this.#report.decision.waitFor(looking().finally(end))
  }

  #screenOf(
    { input, effect }: ScannedTexts,
    duties: readonly Assignment[],
    patterns: readonly PatternAssignment[],
    signal: AbortSignal,
    enforced: boolean,
  ): InputScreen {
    const watches = this.#watches.of(duties, signal, enforced)
    const notes = new Notes(this.#call, this.#report, signal, enforced ? effect : undefined)
    return new InputScreen({ input, patterns, watches, notes })
  }

  /** Withholds what has to be. */
  #weigh({ stop, withheld }: InputVerdict): Stop {
    const call = this.#call
    call.throwIfAborted()
    if (!stop && withheld.length > 0) call.outbound = this.#withhold!(call.outbound, withheld)
    return stop
  }
}

/**
 * What the model would be shown of a hit, each a part that can be left out. Of these channels the exact rules read this
 * one, and heuristics do not.
 */
function materialOf(hits: readonly SearchResult[]): ScannedTexts {
  const texts = hits.map(({ title, url, content, publishedAt }, index) =>
    Object.entries({ title, url, content, publishedAt }).flatMap(([name, text]): TextItem[] => {
      const id = `search[${index}].${name}`
      const base = {
        id,
        side: 'input',
        channel: 'annotation',
        role: 'tool',
        current: true,
      } as const
      return text ? [{ ...base, text }] : []
    }),
  )
  const settled = texts.map((units) => ({
    units: new Set(units.map(({ id }) => id)),
    messages: [],
  }))
  return { input: { units: texts.flat(), refusedTurns: settled }, effect: 'dropped' }
}

function isLocal({ loaded }: Assignment): boolean {
  return loaded.guard.execution === 'local'
}

function matchedIn(text: string, { block }: Violation): readonly string[] {
  return (block.spans ?? []).map(({ start, end }) => text.slice(start, end))
}

/** A class for the reason that `ReportNotes` is one. */
class Notes implements InputObserver {
  readonly #call: Call
  readonly #report: GuardReporter
  readonly #signal: AbortSignal
  /** Undefined where nothing is enforced. */
  readonly #effect: ScannedTexts['effect'] | undefined

  constructor(
    call: Call,
    report: GuardReporter,
    signal: AbortSignal,
    effect: ScannedTexts['effect'] | undefined,
  ) {
    this.#call = call
    this.#report = report
    this.#signal = signal
    this.#effect = effect
  }

  found(found: Violation, { id, channel, text }: TextItem, blocks: boolean): void {
    const place = { unit: id, choice: 0, channel, matched: matchedIn(text, found) }
    const effect = this.#effect && (blocks ? 'blocked' : this.#effect)
    this.#report.found('input', found, place, effect ?? 'seen')
  }

  failed(guard: string, fault: GuardFault): boolean {
    const isEnforced = this.#effect !== undefined
    // Whoever is called back, because another one has blocked or nobody waits any more, has not failed.
    if (isEnforced && this.#signal.aborted) return true
    return this.#report.failed('input', guard, fault, isEnforced)
  }

  proceed(): void {
    this.#call.throwIfAborted()
  }
}
