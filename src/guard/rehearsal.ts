/**
 * Applies a policy to texts that belong to no call: what it would block, and what a client would get of an answer.
 * Nothing is counted, and no circuit breaker learns of it.
 */
import type { ActiveRules, Channel, GuardContext } from '../plugin.ts'
import { refusalOf, type EffectivePolicy } from '../policy/policy.ts'
import type { ChainStep } from '../stream/chain.ts'
import { run } from '../stream/flow.ts'
import type { InputTexts, OutputCodec } from './adapter.ts'
import { CircuitBreaker, GuardRunner, VerdictCache } from './runner.ts'
import { Decision, type ScreenObserver } from './decision.ts'
import { InputScreen } from './input-screen.ts'
import { Screen, type ScreenInit } from './screen.ts'
import { stopOf } from './screened-text.ts'
import type { Assignment, GuardPlan, GuardRegistry, GuardSet } from './plan.ts'
import { scannersOf, type OutputScanner } from './text-check.ts'

const LIMITS_MS = { input: 10_000, output: 10_000 }
const IDLE_MS = 1500
const STALL_MS = 30_000
const NONE: GuardSet = { patterns: [], assignments: [] }
const SILENT = { decided() {}, failed() {}, removed() {}, unscanned() {} }

export interface RehearsalInit {
  readonly policy: EffectivePolicy
  readonly guards: GuardRegistry
  readonly remote: boolean
  /** Throws when the result is no longer wanted; called now and then. */
  readonly proceed: () => void
  readonly contextOf: (rules: ActiveRules, signal: AbortSignal, deadline: number) => GuardContext
}

export interface Rehearsed {
  /** Violated rules, without the number of a pattern; of an input up to the first. */
  readonly rules: readonly string[]
  readonly failed: readonly string[]
}

interface Shown {
  readonly text: string
  readonly refusal?: string
  /** The value of `X-Service-Guard`. */
  readonly header: string
}

interface Part {
  readonly text: string
  readonly ends?: boolean
  readonly refuses?: boolean
}

/** One policy with its guards. Made by {@link rehearse}. */
export class Rehearsal {
  readonly #init: RehearsalInit
  readonly #set: GuardSet
  readonly #plan: GuardPlan | undefined
  readonly #verdicts = new VerdictCache()

  constructor(init: RehearsalInit, plan: GuardPlan | undefined) {
    const { policy, remote } = init
    const set = plan && policy.guard.mode === 'monitor' ? plan.monitoring : plan?.enforcing
    const { patterns, assignments } = set ?? NONE
    this.#init = init
    this.#plan = plan
    this.#set = {
      patterns,
      assignments: assignments.filter(
        ({ instance }) => remote || instance.guard.execution === 'local',
      ),
    }
  }

  async input(texts: InputTexts): Promise<Rehearsed> {
    const rules = new Set<string>()
    const failed = new Set<string>()
    if (!this.#init.policy.guard.input) return { rules: [], failed: [] }
    await this.#screenInput(texts, {
      found: ({ block }, ends) => void (ends && rules.add(withoutPlace(block.rule))),
      failed: (guard) => !failed.add(guard),
    })
    return { rules: [...rules], failed: [...failed] }
  }

  /** @param userTurn the user's question */
  async output(
    texts: readonly { readonly channel: Channel; readonly text: string }[],
    userTurn: string,
  ): Promise<Rehearsed> {
    const rules = new Set<string>()
    const failed = new Set<string>()
    const scanners = this.#scanners(userTurn)
    for (const { channel, text } of texts) {
      for (const scanner of scanners) {
        if (!scanner.reads(channel)) continue
        const stop = await stopOf(scanner, { channel, choice: 0, index: 0 }, text)
        if (stop?.block) rules.add(withoutPlace(stop.block.rule))
        if (stop?.fault) failed.add(scanner.guard)
        this.#init.proceed()
      }
    }
    return { rules: [...rules], failed: [...failed] }
  }

  /**
   * The client's view of an answer in one text.
   * @param chunk characters that arrive at a time, of an answer that is streamed; undefined for one that comes whole
   */
  async shown(
    input: InputTexts,
    userTurn: string,
    answer: string,
    chunk: number | undefined,
    limits: ScreenInit<Part>['limits'],
  ): Promise<Shown> {
    const { policy } = this.#init
    const { mode, onError } = policy.guard
    const decision = new Decision({
      mode,
      onError,
      evidence: 'none',
      elapsedMs: () => 0,
      unenforced: this.#plan?.unenforced ?? [],
      metrics: SILENT,
      warn() {},
      thrown() {},
    })
    const header = () => {
      decision.final = true
      return decision.header()
    }
    if (mode === 'monitor' || !this.#plan) return { text: answer, header: header() }
    const refusal = refusalOf(policy)
    if (policy.guard.input) {
      const observer = decision.observer('input', true, 'withheld')
      if (await this.#screenInput(input, observer)) return { text: '', refusal, header: header() }
    }
    const scanners = this.#scanners(userTurn)
    if (scanners.length === 0) return { text: answer, header: header() }
    const screen = new Screen<Part>({
      codec: CODEC,
      scanners,
      enforce: true,
      buffer: policy.guard.stream === 'buffer',
      atOnce: chunk === undefined,
      errorForm: false,
      choices: 1,
      limits,
      observer: decision.observer('output', true, 'dropped'),
      refuse({ choice, fault }) {
        if (fault) decision.failedFor('output', choice, fault)
        return [{ text: '', refuses: true }]
      },
      idleMs: IDLE_MS,
      stallMs: STALL_MS,
    })
    const { text, isRefused } = await readThrough(screen, partsOf(answer, chunk))
    return { text, ...(isRefused && { refusal }), header: header() }
  }

  /** @returns whether the input is blocked */
  async #screenInput(
    input: InputTexts,
    observer: Pick<ScreenObserver, 'found' | 'failed'>,
  ): Promise<boolean> {
    const { proceed } = this.#init
    const { patterns } = this.#set
    const screen = new InputScreen({ input, patterns, runners: this.#runners(), observer, proceed })
    const { stop } = await screen.local()
    if (stop || !screen.isRemote) return stop !== undefined
    return (await screen.remote()).stop !== undefined
  }

  #scanners(userTurn: string): readonly OutputScanner[] {
    const { output } = this.#init.policy.guard
    return output ? scannersOf(this.#set.patterns, this.#runners(), userTurn) : []
  }

  #runners(): readonly GuardRunner[] {
    const { contextOf } = this.#init
    const verdicts = this.#verdicts
    return this.#set.assignments.map((one) => trialRunner({ ...one, verdicts, contextOf }))
  }
}

/** @throws what `proceed` throws */
export async function rehearse(init: RehearsalInit): Promise<Rehearsal> {
  return new Rehearsal(init, await init.guards.planFor(init.policy, init.proceed))
}

export function trialRunner({
  instance: { name, guard },
  rules,
  ruleFilter,
  origin,
  verdicts = new VerdictCache(),
  contextOf,
}: Pick<Assignment, 'instance' | 'rules' | 'ruleFilter' | 'origin'> &
  Pick<RehearsalInit, 'contextOf'> & { readonly verdicts?: VerdictCache }): GuardRunner {
  return new GuardRunner({
    name,
    guard,
    origin,
    ruleFilter,
    circuit: new CircuitBreaker(),
    verdicts,
    metrics: { asked: () => {} },
    limitsMs: LIMITS_MS,
    signal: new AbortController().signal,
    contextOf: (signal, deadline) => contextOf(rules, signal, deadline),
  })
}

const CODEC: OutputCodec<Part> = {
  split(part, take) {
    if (part.ends) return take({ kind: 'finish', choice: 0, part })
    take({ kind: 'text', choice: 0, channel: 'content', text: part.text, textOnly: true, part })
  },
  cut: ({ text }, start, end) => ({ text: text.slice(start, end) }),
}

async function* partsOf(answer: string, chunk: number | undefined): AsyncGenerator<Part> {
  if (chunk === undefined) yield { text: answer }
  else {
    const points = [...answer]
    for (let at = 0; at < points.length; at += chunk) {
      yield { text: points.slice(at, at + chunk).join('') }
    }
  }
  yield { text: '', ends: true }
}

/** The output of a step: the text of an answer, and whether it was refused. */
async function readThrough(step: ChainStep<Part, Part>, parts: AsyncIterable<Part>) {
  let [text, isRefused] = ['', false]
  await new Promise<void>((resolve, reject) => {
    run(parts, [step], {
      push(part: Part) {
        text += part.text
        isRefused ||= part.refuses === true
      },
      batchEnd: () => true,
      end: resolve,
      fail: (error) => reject(error as Error),
    })
  })
  return { text, isRefused }
}

/** Removes the index of a pattern: it differs between policies. */
function withoutPlace(rule: string): string {
  return rule.replace(/\[\d+\]$/, '')
}
