/**
 * The idea of the house: a request becomes a Call; stages, shaped like an onion, take the Call in and hand a Reply back.
 * A Reply is a sequence of parts, so there is one path for every endpoint, streaming or not.
 */
import type { ConsolaInstance } from 'consola'
import type { Account, Accounts, Key } from '../accounts/accounts.ts'
import type { AccessLog } from '../observe/access-log.ts'
import { Timeouts, type Timeout } from '../lifetime/timeouts.ts'
import { AbortScope } from '../lifetime/abort-scope.ts'
import type { Catalog, Modality, Model } from '../models/catalog.ts'
import type { BodyLimits, Config } from '../config/config.ts'
import { InternalError, UpstreamFailure, toGatewayError } from '../errors/errors.ts'
import type { GuardModelRequest } from '../guard/model-access.ts'
import type { Decision } from '../guard/decision.ts'
import type { Escalations } from '../guard/escalations.ts'
import type { GuardRegistry } from '../guard/plan.ts'
import type { GuardAdapter } from '../guard/adapter.ts'
import type { Estimate, HoldEstimator } from '../money/holds.ts'
import type { Incoming, Outgoing } from './http.ts'
import type { Admitted, HoldGranted, Ledger, Outcome, RequestId } from '../state/ledger/ledger.ts'
import { removeUnordered } from '../lifetime/lists.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { Bill, UsageLine } from '../money/money.ts'
import type { ChatCompletion, Flow, SearchResult, Provider, Step, Usage } from '../plugin.ts'
import type { EffectivePolicy, Instructions, Policy } from '../policy/policy.ts'
import type { Routing } from '../models/routing.ts'
import { Scope } from '../lifetime/scope.ts'
import type { RawJson } from '../stream/raw-json.ts'
import type { Grounding, Search } from '../search/search.ts'

/** Also the name of the provider's method. */
export type Operation = 'chat' | 'generateImage' | 'editImage' | 'ocr' | 'speech' | 'transcribe'

/** What comes back up. `parts` come no faster than the client's socket takes them. */
export interface Reply<Part = any> {
  readonly parts: Flow<Part>
}

export type Next = () => Promise<Reply>
export type Stage = (call: Call, next: Next) => Promise<Reply>

/**
 * Folds stages into one function, once per route. The last stage answers and does not call `next`.
 * `next` rejects once the call was aborted, and when a stage calls it twice.
 */
export function compose(stages: readonly Stage[]): (call: Call) => Promise<Reply> {
  const deepest = (): never => {
    throw new Error('the last stage of a pipeline has to answer, not to call next()')
  }
  return stages.reduceRight<(call: Call) => Promise<Reply>>(
    (inner, stage) => (call) => {
      let called = false
      return stage(call, async () => {
        if (called) throw new Error(`stage ${stage.name} called next() twice`)
        called = true
        call.throwIfAborted()
        return inner(call)
      })
    },
    deepest,
  )
}

/** Everything a stage may use, frozen at one moment. A hot reload builds a new one; running calls keep theirs. */
export interface Runtime {
  readonly config: Config
  readonly catalog: Catalog
  readonly providers: ReadonlyMap<string, Provider>
  /** Absent where no engine is configured. */
  readonly search: Search | undefined
  readonly guards: GuardRegistry
  /** Absent where nobody wants to be told of escalated blocks. */
  readonly escalations: Escalations | undefined
  /** Asks a model for a guard, beside a call: no policy, no guards, no limits of the key. */
  readonly internalChat: (
    beside: CallerContext,
    question: GuardModelRequest,
  ) => Promise<ChatCompletion>
  readonly accounts: Accounts
  readonly ledger: Ledger
  readonly routing: Routing
  readonly holds: HoldEstimator
  readonly metrics: Metrics
  /** Absent where the operator wants none. */
  readonly access: AccessLog | undefined
  readonly log: ConsolaInstance
}

/** What a question to a model is asked beside. */
export type CallerContext = Pick<Call, 'id' | 'path' | 'incoming' | 'runtime' | 'account'>

/** What a provider answered: parts in the endpoint's normal form, and the quantities that pass with them. */
export interface ProviderAnswer<Part = any> {
  /** A list when the answer is there whole. */
  readonly parts: Flow<Part> | readonly Part[]
  /** What was consumed so far: what the upstream reported, else an estimate. */
  usage(): Usage
  /** All of it is consumed when the first part is there, and may be charged then; what follows changes nothing. */
  readonly chargeAtFirstPart?: boolean
  /** What in the answer means something only to whoever gave it, once all of it was read. */
  affinityToken?: (() => string | undefined) | undefined
}

/** Where an endpoint's peculiarities live. Stages never ask which endpoint they serve. */
export interface Endpoint<In = any, Part = any> {
  readonly operation: Operation
  readonly path: string
  /** Which catalog models belong here. */
  readonly modality: Modality
  /** The field that errors about what the model was asked are about; `messages` without it. */
  readonly errorField?: string | null
  /** Parses and validates. @throws InvalidRequest */
  read(incoming: Incoming, limits: BodyLimits): Promise<In>
  modelOf(input: In): string
  sessionOf(input: In): string | undefined
  /** The source text behind the input, where parts of it are copied upstream. Released when the first part has arrived. */
  rawJson?(input: In): RawJson | undefined
  /** What in the input means something only to whoever answered before, such as the signature of a thought. */
  bondOf?(input: In): string | undefined
  policyOf(input: In): Policy | undefined
  /** Whether the answer is sent as it comes. */
  streams(input: In): boolean
  /** The first part of an answer that is sent as it comes may take as long as a whole answer. */
  readonly slowStart?: boolean
  /**
   * Capabilities the input needs and the model lacks.
   * @param catalog for naming models that have them
   * @throws InvalidRequest
   */
  check(input: In, model: Model, catalog: Catalog): void
  estimate(input: In, model: Model): Estimate
  /** What goes upstream: the input less what is the gateway's own business. */
  toUpstream(input: In, model: Model): unknown
  /** Puts system text and token ceiling where they belong; identity where they have no meaning. */
  instruct(outbound: any, instructions: Instructions): unknown
  /** Cuts an answer that runs past the policy's token ceiling. */
  limit?(maxOutputTokens: number): Step<Part, Part>
  /** Only where a web search makes sense. */
  readonly grounding?: Grounding<In, Part>
  /** What guards read, and how "no" is said; absent where nothing is text. */
  readonly guard?: GuardAdapter<In, Part>
  /** Takes in what the provider answered, whole or in parts. Once per attempt. */
  normalize(call: Call, answer: any): ProviderAnswer<Part>
  /** Charges when the parts run out, and puts the cost where the client finds it. */
  billed(call: Call, charge: Charge): Step<Part, Part>
  /** Head, then parts as they come. Ends the call before the last byte. */
  write(call: Call, reply: Reply<Part>, out: Outgoing): Promise<void>
}

/**
 * Books what the meter says, once; later calls get the same bill.
 * @param pays whether the client owes it: false, unless said otherwise, for a failed call
 */
export type Charge = (outcome?: Outcome, pays?: boolean) => Promise<Bill>

/** Who looks at what a web search found before anybody else does. */
export interface ResultFilter {
  /** @returns what may pass: hits that are left out are neither shown to the model nor cited */
  filterResults(
    hits: readonly SearchResult[],
  ): readonly SearchResult[] | Promise<readonly SearchResult[]>
}

export interface CallInit {
  readonly id: RequestId
  /** The route's own path: bounded, unlike what the client wrote. */
  readonly path: string
  readonly incoming: Incoming
  readonly runtime: Runtime
}

/** One request from arrival to end, with its context. */
export class Call {
  readonly id: RequestId
  readonly path: string
  readonly incoming: Incoming
  /** Snapshot of config, catalog and plugins: stable for the whole call. */
  readonly runtime: Runtime
  readonly scope: Scope
  /** Extra response headers, lower-case names. */
  readonly headers: Record<string, string> = {}
  /** What was consumed so far: quantities and price tables, no totals. */
  readonly meter: UsageLine[] = []
  /** ms since epoch */
  readonly startedAt: number = Date.now()
  /** What providers receive. Replaced by copies, never changed in place. */
  outbound: any = undefined
  /** Set by a stage outside of `ground` that wants to. */
  resultFilter: ResultFilter | undefined = undefined
  /** What guards made of it; absent where none is at work. */
  decision: Decision | undefined = undefined
  // Written once, each by one stage, before a later stage reads it; undefined until then.
  endpoint!: Endpoint
  /** Whose key it is, and how the ledger let it in. Written by `enter`. */
  key!: Key
  account!: Account
  entered!: Admitted
  /** What the client sent, validated and never changed. Written by `read`. */
  input!: any
  /** Written by `read`: what ties this call to earlier ones; null without it. */
  session!: string | null
  /** Written by `resolve`. */
  model!: Model
  /** Whether the client asked for a web search by the suffix `:online`. Written by `resolve`. */
  online!: boolean
  /** The money set aside, and whether the call is billed. Written by `hold`. */
  held!: HoldGranted
  /** The key's policy, tightened by the request's. Written by `constrain`. */
  policy!: EffectivePolicy
  outcome: Outcome | undefined = undefined
  /** The status the client got, for log and metrics. */
  status = 0
  /** The code of the error the client got. */
  errorCode: string | undefined = undefined
  /** Which deployment answered; shown to operators only. */
  deployment: string | undefined = undefined
  /** Where it stands among the calls under way. */
  runningIndex = -1
  /** What was charged, once it is. */
  bill: Bill | undefined = undefined
  #reason: unknown = undefined
  /** Few at a time, so a list is cheaper than a Map. */
  #branches: AbortScope[] | undefined = undefined
  #alarms: Timeouts | undefined = undefined
  #deadline: number

  constructor({ id, path, incoming, runtime }: CallInit) {
    this.id = id
    this.path = path
    this.incoming = incoming
    this.runtime = runtime
    this.scope = new Scope((error) => runtime.log.error(`${id}: a finaliser failed`, error))
    this.#deadline = this.startedAt + runtime.config.server.requestTimeout * 1000
  }

  /** Why the call was aborted: the client is gone, a deadline has passed, or the gateway is going down. */
  get aborted(): unknown {
    return this.#reason
  }

  throwIfAborted(): void {
    if (this.#reason !== undefined) throw this.#reason
  }

  /** The first reason counts; later ones end what outlives it. */
  abort(reason: Error): void {
    this.#reason ??= reason
    this.#prune(reason)
  }

  /**
   * A part that is aborted with the call but can be aborted alone: one attempt at an upstream. The call itself has no
   * signal, because most calls need just this one, and a signal is dear.
   * @param outlives a class of abort reasons that do not concern it
   */
  abortScope(outlives?: new () => Error): AbortScope {
    const branch = new AbortScope(outlives)
    if (this.#branches) this.#branches.push(branch)
    else this.#branches = [branch]
    if (this.#reason !== undefined) this.#prune(this.#reason)
    return branch
  }

  /** Lets go of a branch that has served. */
  release(branch: AbortScope): void {
    if (this.#branches) removeUnordered(this.#branches, branch)
  }

  #prune(reason: unknown): void {
    if (!this.#branches) return
    // A copy: whoever hears of it may drop a branch.
    for (const branch of this.#branches.toReversed()) {
      const { survives } = branch
      if (!survives || !(reason instanceof survives)) branch.abort(reason)
    }
  }

  /** Moves the moment, ms since epoch, at which the call is given up with `upstream_timeout`. */
  deadline(at: number): void {
    this.#deadline = at
  }

  /** Logs what nobody foresaw; what a client did wrong is no news. */
  report(error: unknown): void {
    const failure = toGatewayError(error)
    if (failure instanceof InternalError) {
      this.runtime.log.error(`${this.id}: internal error`, failure.cause)
    }
  }

  /**
   * Ends the call: everything acquired is released, what was consumed is charged. Idempotent.
   * A `refused` outcome that was set before is kept when the call completes.
   */
  async end(outcome: Outcome): Promise<void> {
    if (this.outcome === undefined || (this.outcome === 'refused' && outcome !== 'completed')) {
      this.outcome = outcome
    }
    await this.scope.close()
  }

  /**
   * Rings once, at or up to a quarter of a second after `delayMs`, or as much before where it was put off. One shared
   * timer drives all alarms, so one costs next to nothing.
   */
  timeout(delayMs: number, ring: (now: number) => void): Timeout {
    return (this.#alarms ??= new Timeouts()).set(delayMs, ring)
  }

  /** Called by the gateway's one timer. */
  tick(now: number): void {
    if (now > this.#deadline) {
      this.#deadline = Infinity
      this.abort(new UpstreamFailure('timeout', 'The model did not answer before the deadline.'))
    }
    this.#alarms?.tick(now)
  }
}

/**
 * The calls under way. A list whose gaps are filled from its end, not a Set: the tables that a Set leaves behind while
 * calls come and go keep finished calls alive until the next full garbage collection, which cost a quarter of a core.
 */
export class RunningCalls implements Iterable<Call> {
  readonly #calls: Call[] = []

  get size(): number {
    return this.#calls.length
  }

  add(call: Call): void {
    call.runningIndex = this.#calls.push(call) - 1
  }

  delete(call: Call): void {
    const last = this.#calls.pop()
    if (!last || last === call) return
    this.#calls[call.runningIndex] = last
    last.runningIndex = call.runningIndex
  }

  /** Those of this moment: calls may end while one looks at them. */
  [Symbol.iterator](): Iterator<Call> {
    return [...this.#calls.values()][Symbol.iterator]()
  }
}

/** The client closed the connection before the answer was complete. */
export class ClientDisconnected extends Error {
  constructor() {
    super('the client closed the connection')
    this.name = 'ClientGone'
  }
}
