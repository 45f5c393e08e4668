/** Guards on the input of one call, and on what a web search finds for it. */
import type { Violation } from '../../../guard/decision.ts'
import type { Assignment, GuardPlan, PatternAssignment } from '../../../guard/plan.ts'
import { InputScreen, type InputObserver, type InputVerdict } from '../../../guard/input-screen.ts'
import type { GuardAdapter, InputTexts } from '../../../guard/adapter.ts'
import type { GuardFault } from '../../../guard/verdicts.ts'
import type { Call } from '../../pipeline.ts'
import type { SearchResult, TextItem } from '../../../plugin.ts'
import type { GuardReporter } from './report.ts'
import type { GuardRunners, RunnerGroup } from './runners.ts'

/** Why a call goes no further, if it does not. */
export type Stop = InputVerdict['stop']

interface InputResult {
  readonly stop: Stop
  /** The verdict of guards that still look while the model is asked. */
  readonly later?: Promise<Stop>
}

interface ScannedTexts {
  readonly input: InputTexts
  /** What becomes of a part that violates a rule and need not end the call. */
  readonly effect: 'withheld' | 'dropped'
}

export class InputGuard {
  readonly #call: Call
  readonly #adapter: GuardAdapter
  readonly #plan: GuardPlan
  readonly #reporter: GuardReporter
  readonly #runners: GuardRunners
  readonly #texts: ScannedTexts

  constructor(
    call: Call,
    adapter: GuardAdapter,
    input: InputTexts,
    plan: GuardPlan,
    reporter: GuardReporter,
    runners: GuardRunners,
  ) {
    this.#call = call
    this.#adapter = adapter
    this.#plan = plan
    this.#reporter = reporter
    this.#runners = runners
    this.#texts = { input, effect: 'withheld' }
  }

  /** Records what guards would do; changes, delays and refuses nothing. */
  monitor(): void {
    const { enforcing, monitoring, patterns } = this.#plan
    this.#monitor(this.#texts, [...enforcing, ...monitoring], patterns)
  }

  /** Nothing of the input goes upstream before the local guards have agreed, and as a rule the remote ones. */
  async screen(): Promise<InputResult> {
    const { enforcing, monitoring, patterns } = this.#plan
    if (monitoring.length > 0) this.#monitor(this.#texts, monitoring, [])
    const group = this.#runners.start(enforcing, true)
    const screen = this.#screenOf(this.#texts, group, patterns, true)
    const stop = this.#apply(await screen.local())
    if (stop || !screen.isRemote) {
      group.end()
      return { stop }
    }
    const remote = async () => {
      try {
        return this.#apply(await screen.remote())
      } finally {
        group.end()
      }
    }
    // A turn that may have to be withheld must not go upstream before.
    const overlaps =
      this.#call.runtime.config.guards.overlapInput && this.#texts.input.refusedTurns.length === 0
    return overlaps ? { stop: undefined, later: remote() } : { stop: await remote() }
  }

  /** Records what guards would do about search results. */
  monitorResults(results: readonly SearchResult[]): readonly SearchResult[] {
    const { enforcing, monitoring, patterns } = this.#plan
    const assignments = [...enforcing, ...monitoring].filter(isLocal)
    this.#monitor(textsOf(results), assignments, patterns)
    return results
  }

  /**
   * Search results that keep to the exact rules: the others are neither shown to the model nor cited. Judges are not
   * asked. Where a guard could not look there are none.
   */
  async screenResults(results: readonly SearchResult[]): Promise<readonly SearchResult[]> {
    const { enforcing, monitoring, patterns } = this.#plan
    const texts = textsOf(results)
    const monitors = monitoring.filter(isLocal)
    if (monitors.length > 0) this.#monitor(texts, monitors, [])
    const group = this.#runners.start(enforcing.filter(isLocal), true)
    try {
      const { stop, withheld } = await this.#screenOf(texts, group, patterns, true).local()
      if (stop) return []
      return results.filter((_, index) => !withheld.includes(texts.input.refusedTurns[index]!))
    } finally {
      group.end()
    }
  }

  #monitor(
    texts: ScannedTexts,
    assignments: readonly Assignment[],
    patterns: readonly PatternAssignment[],
  ): void {
    const group = this.#runners.start(assignments, false)
    const screen = this.#screenOf(texts, group, patterns, false)
    const looking = async () => {
      const { stop } = await screen.local()
      if (!stop) await screen.remote()
    }
    this.#reporter.decision.waitFor(looking().finally(group.end))
  }

  #screenOf(
    { input, effect }: ScannedTexts,
    { runners, signal }: RunnerGroup,
    patterns: readonly PatternAssignment[],
    enforced: boolean,
  ): InputScreen {
    const call = this.#call
    const reporter = this.#reporter
    const observer: InputObserver = {
      found(violation, { id, channel, text }, blocks) {
        const location = { unit: id, choice: 0, channel, matched: matchedIn(text, violation) }
        reporter.found(
          'input',
          violation,
          location,
          !enforced ? 'seen' : blocks ? 'blocked' : effect,
        )
      },
      failed(guard: string, fault: GuardFault) {
        // A guard that is called off, because another one has blocked or the client has left, has not failed.
        if (enforced && signal?.aborted) return true
        return reporter.failed('input', guard, fault, enforced)
      },
      proceed: () => call.throwIfAborted(),
    }
    return new InputScreen({ input, patterns, runners, observer })
  }

  /** Withholds turns that have to be. */
  #apply({ stop, withheld }: InputVerdict): Stop {
    const call = this.#call
    call.throwIfAborted()
    if (!stop && withheld.length > 0) {
      call.outbound = this.#adapter.withhold!(call.outbound, withheld)
    }
    return stop
  }
}

/**
 * What the model would be shown of search results; each result is a turn of its own that can be left out. Exact rules
 * read their channel, heuristics do not.
 */
function textsOf(results: readonly SearchResult[]): ScannedTexts {
  const base = { side: 'input', channel: 'annotation', role: 'tool', current: true } as const
  const items = results.map(({ title, url, content, publishedAt }, index) =>
    Object.entries({ title, url, content, publishedAt }).flatMap(([name, text]): TextItem[] =>
      text ? [{ ...base, id: `search[${index}].${name}`, text }] : [],
    ),
  )
  const refusedTurns = items.map((some) => {
    return { items: new Set(some.map(({ id }) => id)), messages: [] }
  })
  return { input: { items: items.flat(), refusedTurns }, effect: 'dropped' }
}

function isLocal({ instance }: Assignment): boolean {
  return instance.guard.execution === 'local'
}

function matchedIn(text: string, { block }: Violation): readonly string[] {
  return (block.spans ?? []).map(({ start, end }) => text.slice(start, end))
}
