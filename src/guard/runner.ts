/** Runs one guard for one call: asks it, bounds how long it may take, checks its verdicts, and remembers passes and failures. */
import { LRUCache } from 'lru-cache'
import { atMost } from '../lifetime/cache.ts'
import { createHmac, randomBytes } from 'node:crypto'
import { UpstreamFailure } from '../errors/errors.ts'
import {
  AbortScope,
  offAbort,
  onAbort,
  unlessAborted,
  type LateAnswers,
} from '../lifetime/scope.ts'
import type { GuardMetrics } from '../observe/guard-metrics.ts'
import type { Guard, GuardContext, Origin, RuleRef, Side, TextItem } from '../plugin.ts'
import type { CircuitBreaker } from './circuit.ts'
import {
  GuardFault,
  callEnd,
  checkVerdict,
  ignoreRejection,
  isPromise,
  toFault,
  type RuleFilter,
  type BlockVerdict,
} from './verdicts.ts'

/** A question to a remote guard that has ended. */
interface AskedGuard {
  readonly name: string
  readonly side: Side
  readonly ms: number
  /** `passed`, `blocked`, the kind of a fault, or `cancelled` where the answer was no longer wanted. */
  readonly result: string
  /** Rules that were violated. */
  readonly rules: readonly string[]
}

/** How a remote guard is asked. */
interface AskOptions<T> {
  /** Whether a transport failure is tried once more while there is time; not for a guard that keeps state. */
  readonly again?: boolean
  /** The blocks in an answer. */
  readonly blocksIn?: (answer: T) => readonly (BlockVerdict | undefined)[]
}

/** Processor time that a local guard may take in one go. Time that the machine gives to others does not count. */
const LOCAL_LIMIT_MS = 250

interface GuardRunnerInit {
  /** The instance's name. */
  readonly name: string
  readonly guard: Guard
  readonly origin: Origin
  readonly ruleFilter: RuleFilter
  /** How many scopes and patterns of the policy come before those that the guard knows; absent where none do. */
  readonly offsets?: { readonly scopes: number; readonly bannedPatterns: number }
  readonly circuit: CircuitBreaker
  readonly verdicts: VerdictCache
  readonly metrics: Pick<GuardMetrics, 'asked'>
  /** Told of each question to a remote guard. */
  readonly asked?: (question: AskedGuard) => void
  /** Counts answers that come too late. */
  readonly late?: LateAnswers['metrics']
  /** How long one question to a remote guard may take, ms. */
  readonly limitsMs: Readonly<Record<Side, number>>
  /** Aborted when the answer is no longer wanted. */
  readonly signal: AbortSignal
  readonly contextOf: (signal: AbortSignal, deadline: number) => GuardContext
}

export class GuardRunner {
  readonly name: string
  readonly guard: Guard
  readonly origin: Origin
  readonly #init: GuardRunnerInit
  #context: GuardContext | undefined

  constructor(init: GuardRunnerInit) {
    this.name = init.name
    this.guard = init.guard
    this.origin = init.origin
    this.#init = init
  }

  get local(): boolean {
    return this.guard.execution === 'local'
  }

  /** The context of local guards, without a deadline. */
  get context(): GuardContext {
    return (this.#context ??= this.#init.contextOf(this.#init.signal, Infinity))
  }

  /** Whether the guard agreed to the same text in the same context a while ago. */
  hasPassed(item: TextItem): boolean {
    return this.#init.verdicts.has(this.name, this.context, item)
  }

  /** Remembers that the guard agreed to a text. */
  passed(item: TextItem): void {
    this.#init.verdicts.add(this.name, this.context, item)
  }

  /**
   * The block in a verdict, its rule named by its position in the effective policy.
   * @param length of the text
   * @throws GuardFault for what is no verdict, see {@link checkVerdict}
   */
  blockIn(verdict: unknown, length: number): BlockVerdict | undefined {
    const block = checkVerdict(verdict, length, this.#init.ruleFilter)
    const position = block && /^(scope:|bannedPatterns\[)(\d+)(.*)$/.exec(block.rule)
    if (!position) return block
    const [, before, index, after] = position
    const { scopes, bannedPatterns } = this.#init.offsets ?? { scopes: 0, bannedPatterns: 0 }
    const offset = before === 'scope:' ? scopes : bannedPatterns
    return { ...block, rule: `${before}${Number(index) + offset}${after}` as RuleRef }
  }

  /** Waits for a local guard's answer about an input. @throws GuardFault `timeout` */
  async inTime<T>(side: Side, answer: T | PromiseLike<T>): Promise<T> {
    if (!isPromise(answer)) return answer
    const { signal, clear } = this.#until(side)
    return unlessAborted(signal, Promise.resolve(answer)).finally(clear)
  }

  /**
   * Runs a local guard.
   * @throws GuardFault `slow` when it took too long, and every error of the guard as {@link toFault} makes it one
   */
  work<T>(run: (context: GuardContext) => T): T {
    const started = process.threadCpuUsage()
    let answer: T | GuardFault
    try {
      answer = run(this.context)
    } catch (error) {
      answer = toFault(error)
    }
    const { user, system } = process.threadCpuUsage(started)
    if (user + system > LOCAL_LIMIT_MS * 1000) {
      ignoreRejection(answer)
      throw new GuardFault('slow', 'the guard worked for too long')
    }
    if (answer instanceof GuardFault) throw answer
    return answer
  }

  /**
   * Asks a remote guard.
   * @throws GuardFault `circuit` at once while it keeps failing, `timeout`, and every error as {@link toFault} makes it one
   */
  async ask<T>(
    side: Side,
    run: (context: GuardContext) => T | Promise<T>,
    { again = true, blocksIn = () => [] }: AskOptions<T> = {},
  ): Promise<T> {
    const { circuit, contextOf, limitsMs } = this.#init
    const started = performance.now()
    const { accountId } = this.context
    if (!circuit.admit(accountId, started)) {
      throw new GuardFault('circuit', 'the guard fails too often')
    }
    const { signal, clear } = this.#until(side)
    const context = contextOf(signal, Date.now() + limitsMs[side])
    const question = async () => unlessAborted(signal, run(context))
    try {
      const answer = await question().catch((error: unknown) => {
        if (!again || signal.aborted || !isTransportFailure(error)) throw error
        return question()
      })
      circuit.ended(accountId, 'ok', performance.now())
      const rules = blocksIn(answer).flatMap((block) => (block ? [block.rule] : []))
      this.#asked(side, started, rules.length > 0 ? 'blocked' : 'passed', rules)
      return answer
    } catch (error) {
      const fault = toFault(signal.reason instanceof GuardFault ? signal.reason : error)
      const { aborted } = this.#init.signal
      if (aborted) circuit.abandoned()
      else circuit.ended(accountId, callEnd(fault), performance.now())
      this.#asked(side, started, aborted ? 'cancelled' : fault.kind, [])
      throw fault
    } finally {
      clear()
    }
  }

  #asked(side: Side, started: number, result: string, rules: readonly string[]): void {
    const { metrics, asked } = this.#init
    const ms = performance.now() - started
    metrics.asked(this.name, side, ms / 1000)
    asked?.({ name: this.name, side, ms, result, rules })
  }

  /** A signal that is aborted when a guard has taken too long, and when its answer is no longer wanted. */
  #until(side: Side): { signal: AbortSignal; clear: () => void } {
    const { signal: wanted, limitsMs, late } = this.#init
    // Its listeners only end waits, and throw nothing.
    const scope = new AbortScope(() => {})
    if (late) scope.late = { instance: this.name, metrics: late }
    const giveUp = () => scope.abort(wanted.reason)
    const expire = () => scope.abort(new GuardFault('timeout', 'the guard did not answer in time'))
    const timeout = setTimeout(expire, limitsMs[side])
    const clear = () => {
      clearTimeout(timeout)
      offAbort(wanted, giveUp)
    }
    if (wanted.aborted) giveUp()
    else onAbort(wanted, giveUp)
    return { signal: scope.signal, clear }
  }
}

/** No response came; an error status is a response. */
function isTransportFailure(error: unknown): boolean {
  if (UpstreamFailure.is(error)) {
    const cause = error.cause as { readonly status?: number } | null | undefined
    return error.failure === 'upstream_error' && cause != null && cause.status === undefined
  }
  return (
    error instanceof Error &&
    (error.name === 'FetchError' || error.name === 'TypeError') &&
    (error as { status?: number }).status === undefined &&
    error.cause !== undefined
  )
}

const MAX_VERDICTS = 20_000
const TTL_MS = 600_000

/** Remembers passes only, by a hash of everything that a verdict may depend on. Accounts share nothing. */
export class VerdictCache {
  readonly #passed = new LRUCache<string, true>({ ...atMost(MAX_VERDICTS), ttl: TTL_MS })
  readonly #secret = randomBytes(32)

  /** @param guard the instance's name */
  has(guard: string, context: GuardContext, item: TextItem): boolean {
    return this.#passed.has(this.#keyOf(guard, context, item))
  }

  add(guard: string, context: GuardContext, item: TextItem): void {
    this.#passed.set(this.#keyOf(guard, context, item), true)
  }

  #keyOf(guard: string, context: GuardContext, item: TextItem): string {
    const { accountId, keyId, operation, model, origin, rules, judgeModel } = context
    const { side, channel, text, context: shown } = item
    const asked = [guard, accountId, keyId, operation, model, origin, rules, judgeModel]
    const parts = JSON.stringify([...asked, side, channel, shown, text])
    return createHmac('sha256', this.#secret).update(parts).digest('base64')
  }
}
