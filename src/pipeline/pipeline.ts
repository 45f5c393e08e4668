/**
 * The pipeline: a request becomes a Call; stages, in layers, take the Call in and hand a Reply back. A Reply is a pulled
 * sequence of parts, so that streamed and whole answers of every endpoint take the same way.
 */
import type { Account, Key } from '../accounts/stored.ts'
import type { CallLabels } from '../observe/call-labels.ts'
import type {
  Attempt,
  ExchangeRequest,
  ExchangeResponse,
  LimitName,
  Question,
  TraceLink,
} from '../observe/record.ts'
import { Timeouts, type Timeout, AbortScope, removeUnordered, Scope } from '../lifetime/scope.ts'
import type { Catalog, Model } from '../models/catalog.ts'
import type { Modality } from '../models/entry.ts'
import type { BodyLimits } from '../config/config.ts'
import type { Check } from '../errors/checks.ts'
import {
  InternalError,
  UpstreamFailure,
  toGatewayError,
  type GatewayError,
} from '../errors/errors.ts'
import type { Decision } from '../guard/decision.ts'
import type { GuardAdapter } from '../guard/adapter.ts'
import type { BudgetedQuestions } from '../guard/questions.ts'
import type { Bill, UsageLine } from '../money/money.ts'
import type { Estimate } from '../money/holds.ts'
import type { Incoming, Outgoing } from './http.ts'
import type {
  Admitted,
  HoldGranted,
  Outcome,
  RequestId,
  UsageFlag,
} from '../state/ledger/ledger.ts'
import type { Download, Step, Usage } from '../plugin.ts'
import type { EffectivePolicy, Instructions } from '../policy/policy.ts'
import type { Grounding } from '../search/search.ts'
import type {
  Charge,
  ErrorResponse,
  ProviderAnswer,
  Receipt,
  Reply,
  ResultFilter,
} from './answer.ts'
import type { ClientAddress, NativeFormat, Operation, ParsedRequest } from './request.ts'
import type { Runtime } from './runtime.ts'

// One door: an importer of the pipeline need not know in which file a type of it is.
export type * from './answer.ts'
export type * from './request.ts'
export type * from './runtime.ts'

/** Runs the rest of the pipeline. */
export type Next = () => Promise<Reply>

/** One layer of the pipeline. It acts before `next()`, on the parts of the Reply, or in place of both. */
export type Stage = (call: Call, next: Next) => Promise<Reply>

/**
 * Folds stages into one function, once per route. The last stage answers and does not call `next`.
 * `next` rejects when the call was aborted, and when a stage calls it a second time.
 */
export function compose(stages: readonly Stage[]): (call: Call) => Promise<Reply> {
  const deepest = async (): Promise<never> => {
    throw new Error('the last stage of a pipeline has to answer, not to call next()')
  }
  return stages.reduceRight<(call: Call) => Promise<Reply>>(
    (inner, stage) => (call) => {
      let called = false
      // Not async: a promise that waits for another one takes three more turns of the queue, at every stage.
      return stage(call, () => {
        if (called) return Promise.reject(new Error(`stage ${stage.name} called next() twice`))
        called = true
        return call.aborted === undefined ? inner(call) : Promise.reject(call.aborted)
      })
    },
    deepest,
  )
}

/** One kind of work in its one normal form. Stages know nothing else of it, and never ask which endpoint they serve. */
export interface Endpoint<In = any, Part = any> {
  readonly operation: Operation
  /** The kind of catalog models that serve it. */
  readonly modality: Modality
  /** `param` of errors about the prompt. */
  readonly errorField: string | null
  /** The first streamed part may take as long as a whole answer. */
  readonly slowStart?: boolean
  /**
   * Compares what the input needs with what the model can do.
   * @param catalog for naming models that can
   * @throws InvalidRequest
   */
  check(input: In, model: Model, catalog: Catalog): void
  /** The input for providers: without members that are the gateway's own business. */
  toUpstream(input: In, model: Model): unknown
  /**
   * What is still needed of the input, or of the request for providers, when the answer has begun and no other deployment can
   * be asked. Absent where that is all of it.
   */
  withoutContent?<Request extends object>(request: Request): Request
  /**
   * Brings a provider's answer, whole or in parts, into normal form. Called once per attempt.
   * @param signal ends the answer
   */
  normalize(call: Call, answer: any, signal: AbortSignal): ProviderAnswer<Part>
  readonly billing: Billing<In, Part>
  /** Absent where a policy's instructions have no meaning. */
  readonly instructions?: {
    /** Puts system text and token ceiling into the outbound request; returns a copy. */
    apply(outbound: any, to: Instructions): unknown
    /** Ends an answer that runs past the token ceiling of the policy. */
    limit(maxOutputTokens: number, input: In): Step<Part, Part>
  }
  /** Absent where a web search has no meaning. */
  readonly grounding?: Grounding<In, Part>
  /** What logs and traces say of a request: numbers and words of a fixed list, no text of the client. */
  exchange?(input: In): ExchangeRequest
  /** Texts that guards check, and the form of a refusal. */
  readonly guard?: GuardAdapter<In, Part>
  /** Addresses that vendors are asked to fetch. Absent where requests have none. */
  readonly addresses?: {
    of(outbound: any): readonly ClientAddress[]
    /** Puts files, by address, in the place of addresses; returns a copy. */
    replace(outbound: any, files: ReadonlyMap<string, Download>): unknown
  }
}

/** What a kind of work costs, and when it is charged. */
export interface Billing<In = any, Part = any> {
  /** What the call will consume, as far as the request tells. */
  estimate(request: ParsedRequest<In>, model: Model): Estimate
  /** What guards are asked that do the work in place of a model. Absent, and undefined, where a model does it. */
  questions?(call: Call): BudgetedQuestions | undefined
  /**
   * Charges when the parts run out (or at the first), and puts a {@link Receipt} on the last part (or the first); on an
   * error that is charged, on the error.
   */
  attach(call: Call, charge: Charge): Step<Part, Part>
}

/** How one path of the API reads requests and writes answers. */
export interface WireFormat<In = any, Part = any> {
  readonly path: string
  /**
   * Reads, bounds and validates the body.
   * @throws InvalidRequest
   */
  read(incoming: Incoming, limits: BodyLimits): Promise<ParsedRequest<In>>
  /** Writes head and parts as they come. Ends the call before the last byte. */
  write(call: Call, reply: Reply<Part>, out: Outgoing): Promise<void>
  /**
   * The error as a response; its body is also that of an error event.
   * @param call absent where none was made
   * @param id of the request
   */
  writeError(error: GatewayError, call: Call | undefined, id: string): ErrorResponse
  /** What its bodies have to be, for the description of the API; absent where there is none. */
  readonly body?: Check
  /** Members of a form that are files; absent where bodies are JSON only. */
  readonly files?: readonly string[]
  /** Absent where no vendor speaks this form. */
  readonly native?: NativeFormat | undefined
}

/** The fixed fields of a call. */
interface CallInit {
  readonly id: RequestId
  /** Of the route: bounded, unlike the path that the client wrote. */
  readonly path: string
  /** Absent for GET routes: their stages need none. */
  readonly endpoint?: Endpoint | undefined
  readonly format: WireFormat
  readonly incoming: Incoming
  readonly runtime: Runtime
}

/** Questions of one call that are kept for logs and traces. */
const MOST_QUESTIONS = 32

/** One request from arrival to end, with its context. */
export class Call {
  readonly id: RequestId
  readonly path: string
  readonly endpoint: Endpoint
  readonly format: WireFormat
  readonly incoming: Incoming
  /** Snapshot of config, catalog and plugins: stable for the whole call. */
  readonly runtime: Runtime
  /** Finalisers of everything the call acquires. */
  readonly scope: Scope
  /** Extra response headers, lower-case names. */
  readonly headers: Record<string, string> = {}
  /** Consumed so far: quantities and price tables, no totals. */
  readonly meter: UsageLine[] = []
  /** ms since epoch */
  readonly startedAt: number = Date.now()
  /** Steady ms, of `performance.now()`: deadlines do not follow a wall clock that is set. */
  readonly #began = performance.now()

  // Each is written once, by the stage it names, before a later stage reads it; undefined until then.
  /** By `enter`, with `account` and `entered`, the answer of the ledger. */
  key!: Key
  account!: Account
  entered!: Admitted
  /** By `read`; without its content from the first part on. */
  request!: ParsedRequest
  /** By `read`. */
  labels!: CallLabels
  /** By `resolve`. */
  model!: Model
  /** By `resolve`: whether the model id carried `:online`. */
  online!: boolean
  /** By `hold`: the window, and whether the call is billed. */
  held!: HoldGranted
  /**
   * By `hold`, for a call that runs while little money is left: grows the hold of a call that has written so many tokens,
   * all choices together. Whatever counts the tokens of an answer calls it.
   */
  grow: ((tokens: number) => void) | undefined = undefined
  /** By `resolve`: the key's policy, tightened by that of the request. */
  policy!: EffectivePolicy

  /** By the endpoint: quantities of the prompt that the vendor reports before the answer ends. */
  promptUsage: Usage | undefined = undefined

  /** By the endpoint: indexes of blocks of reasoning that the vendor has left without a signature. */
  unsignedReasoning: Set<number> | undefined = undefined

  /** By the endpoint: the stop sequence that ended the answer, as the vendor names it. */
  stopSequence: string | undefined = undefined

  /** The request for providers. Replaced by copies, never changed in place. */
  outbound: any = undefined
  /** Set by `guard` and `ground`: what the client gets, or the vendor, differs from what the other one says. */
  requiresNormalForm = false
  /** By `route`: the vendor is asked in the client's own form. */
  native = false
  /** Set by `ground`: path of the vendor's tool in whose place the gateway has searched. */
  searchedFor: string | undefined = undefined
  /** Set by `guard` for `ground`. */
  resultFilter: ResultFilter | undefined = undefined
  /** By `enter`: an operator calls as the key. */
  played = false
  /** Set by `guard`, if any guards are at work. */
  decision: Decision | undefined = undefined
  outcome: Outcome | undefined = undefined
  /** The status the client got, for log and metrics. */
  status = 0
  /** The error that the client got. */
  error: Pick<GatewayError, 'code' | 'message'> | undefined = undefined
  /** By `enter` or `hold`: the limit that refused the call. */
  limit: LimitName | undefined = undefined
  /** ms from arrival until the money was held, by `hold`. */
  admitMs: number | undefined = undefined
  /** ms from arrival until guards had agreed to the input, by `guard`. */
  guardMs: number | undefined = undefined
  /** ms from arrival until the first part of an answer that is sent as it comes. */
  firstMs: number | undefined = undefined
  /** ms from arrival until the charge was booked, by `settle`. */
  settledMs: number | undefined = undefined
  /** Requests to deployments, by `route`. */
  readonly attempts: Attempt[] = []
  /** Questions to guards and search engines, see {@link asked}; undefined where there were none. */
  questions: Question[] | undefined = undefined
  /** By the endpoint, while sinks are told of calls: how the answer ended. */
  answered: ExchangeResponse | undefined = undefined
  /** The trace of the client that the call belongs to. */
  trace: TraceLink | undefined
  /** The deployment that was asked last; shown to operators only. */
  deployment: string | undefined = undefined
  /** Index in the list of running calls. */
  runningIndex = -1
  /** What an operator should look at in the usage of the call. */
  readonly flags = new Set<UsageFlag>()
  /** Figures of vendors that were out of bounds, by deployment. */
  reported: Record<string, unknown> | undefined = undefined
  /** Set when the charge of the call is durable. */
  bill: Bill | undefined = undefined
  #reason: unknown = undefined
  /** Few at a time, so a list is cheaper than a Map. */
  #abortScopes: AbortScope[] | undefined = undefined
  #timeouts: Timeouts | undefined = undefined
  #deadline: number
  /** Finalizers, listeners and timeouts have no caller that could receive their errors. */
  readonly #onThrown: (error: unknown) => void

  constructor({ id, path, endpoint, format, incoming, runtime }: CallInit) {
    this.id = id
    this.path = path
    this.endpoint = endpoint!
    this.format = format
    this.incoming = incoming
    this.runtime = runtime
    this.#onThrown = (error) => runtime.log.error(`${id}: a callback failed`, error)
    this.scope = new Scope(this.#onThrown)
    this.#deadline = this.#began + runtime.config.server.requestTimeout * 1000
  }

  /** The catalog with the prices of the moment at which the call entered, by the clock of the store, or else at which it came. */
  get catalog(): Catalog {
    return this.runtime.catalog.at((this.entered as Admitted | undefined)?.at ?? this.startedAt)
  }

  /** Whole ms since the call arrived. */
  get elapsedMs(): number {
    return Math.round(performance.now() - this.#began)
  }

  /** Why the call was aborted: the client disconnected, a deadline passed, or the gateway shuts down. */
  get aborted(): unknown {
    return this.#reason
  }

  throwIfAborted(): void {
    if (this.#reason !== undefined) throw this.#reason
  }

  /** The first reason counts; a later one ends what survived the first. */
  abort(reason: Error): void {
    this.#reason ??= reason
    this.#abortAll(reason)
  }

  /**
   * A part of the call that is aborted with it, or alone: one attempt, one search. Released with {@link release}.
   * @param survives a class of abort reasons that do not end this part
   */
  abortScope(survives?: new () => Error): AbortScope {
    const scope = new AbortScope(this.#onThrown, survives)
    if (this.#abortScopes) this.#abortScopes.push(scope)
    else this.#abortScopes = [scope]
    if (this.#reason !== undefined) this.#abortAll(this.#reason)
    return scope
  }

  /** Forgets an abort scope that has served. */
  release(scope: AbortScope): void {
    if (this.#abortScopes) removeUnordered(this.#abortScopes, scope)
  }

  #abortAll(reason: unknown): void {
    if (!this.#abortScopes) return
    // A copy: listeners may release scopes.
    for (const scope of this.#abortScopes.toReversed()) {
      const { survives } = scope
      if (!survives || !(reason instanceof survives)) scope.abort(reason)
    }
  }

  /** Frees the content of the request, which is not needed again when the answer has begun. */
  dropContent(): void {
    const { request } = this
    request.rawJson?.release()
    this.incoming.release()
    const { withoutContent } = this.endpoint
    if (!withoutContent) return
    this.request = { ...request, rawJson: undefined, input: withoutContent(request.input) }
    this.outbound = withoutContent(this.outbound)
  }

  /** Notes a question that has ended just now. Of very many the first ones are kept. */
  asked({ ms, ...question }: Omit<Question, 'from'>): void {
    this.questions ??= []
    if (this.questions.length >= MOST_QUESTIONS) return
    const rounded = Math.round(ms)
    this.questions.push({
      ...question,
      ms: rounded,
      from: Math.max(0, this.elapsedMs - rounded),
    })
  }

  /** The receipt of the call for this bill. */
  receipt(bill: Bill): Receipt {
    const guard = this.decision?.report()
    return { bill, meter: this.meter, ...(guard && { guard }) }
  }

  /** The call is given up with `upstream_timeout` so many seconds after its arrival. */
  deadline(seconds: number): void {
    this.#deadline = this.#began + seconds * 1000
  }

  /** Logs an error that the gateway did not foresee; mistakes of clients are not logged. */
  report(error: unknown): void {
    const failure = toGatewayError(error)
    if (failure instanceof InternalError) {
      this.runtime.log.error(`${this.id}: internal error`, failure.cause)
    }
  }

  /**
   * Ends the call: releases everything acquired and charges what was consumed. Idempotent. A `refused` outcome that was set
   * before is kept when the call completes.
   */
  async end(outcome: Outcome): Promise<void> {
    if (this.outcome === undefined || (this.outcome === 'refused' && outcome !== 'completed')) {
      this.outcome = outcome
    }
    await this.scope.close()
  }

  /**
   * Calls back once, up to a quarter of a second after `delayMs`. One shared timer drives all timeouts, so that each is
   * cheap. Restarting one may make it early by as much.
   */
  timeout(delayMs: number, onTimeout: (now: number) => void): Timeout {
    return (this.#timeouts ??= new Timeouts(this.#onThrown)).set(delayMs, onTimeout)
  }

  /** Called by the gateway's one timer. @param now steady ms, of `performance.now()` */
  tick(now: number): void {
    if (now > this.#deadline) {
      this.#deadline = Infinity
      this.abort(new UpstreamFailure('timeout', 'The model did not answer before the deadline.'))
    }
    this.#timeouts?.tick(now)
  }
}

/** The client closed the connection before the answer was complete. */
export class ClientDisconnected extends Error {
  constructor() {
    super('the client closed the connection')
    this.name = 'ClientDisconnected'
  }
}
