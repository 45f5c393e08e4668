/**
 * The pipeline: a request becomes a Call; stages, in layers, take the Call in and hand a Reply back. A Reply is a pulled
 * sequence of parts, so that streamed and whole answers of every endpoint take the same way.
 */
import type { ConsolaInstance } from 'consola'
import type { Account, Key } from '../accounts/stored.ts'
import type {
  CallLabels,
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
import type { BodyLimits, Config } from '../config/config.ts'
import type { Check } from '../errors/checks.ts'
import {
  InternalError,
  UpstreamFailure,
  toGatewayError,
  type GatewayError,
  type InvalidRequest,
} from '../errors/errors.ts'
import type { Decision, GuardReport } from '../guard/decision.ts'
import type { GuardAdapter } from '../guard/adapter.ts'
import type { BudgetedQuestions } from '../guard/questions.ts'
import type { Bill, UsageLine } from '../money/money.ts'
import type { Estimate, HoldEstimator } from '../money/holds.ts'
import type {
  Admitted,
  HoldGranted,
  Outcome,
  RequestId,
  UsageFlag,
  Settled,
  Ledger,
} from '../state/ledger/ledger.ts'
import type {
  Download,
  Step,
  Usage,
  Flow,
  SearchResult,
  NativeInput,
  ChatCompletion,
  Provider,
} from '../plugin.ts'
import type { EffectivePolicy, Instructions, Policy } from '../policy/policy.ts'
import type { Grounding, Search } from '../search/search.ts'
import type { UsageReport } from '../money/plausible.ts'
import type { RawJson } from '../stream/raw-json.ts'
import type { Accounts } from '../accounts/accounts.ts'
import type { Labels } from '../accounts/labels.ts'
import type { AccessLog } from '../observe/access-log.ts'
import type { ContentLog } from '../observe/content/content-log.ts'
import type { RequestLog } from '../observe/log/request-log.ts'
import type { LiveEvents } from '../observe/live-events.ts'
import type { Sinks } from '../observe/sinks/sinks.ts'
import type { Spending } from '../observe/spending.ts'
import type { UsageIndex } from '../observe/usage/usage.ts'
import type { GuardModelRequest } from '../guard/host.ts'
import type { Escalations } from '../guard/escalations.ts'
import type { GuardRegistry } from '../guard/plan.ts'
import type { UsageFindings } from '../observe/usage-findings.ts'
import type { Audit } from '../state/audit.ts'
import type { PriceRecords } from '../state/prices.ts'
import type { Records } from '../state/records.ts'
import type { Alerts } from '../observe/alerts.ts'
import type { AuthFailures } from '../observe/auth-failures.ts'
import type { Faults } from '../observe/faults.ts'
import type { LoopWatch } from '../observe/loop-watch.ts'
import type { Mask } from '../observe/mask.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { Routing } from '../models/routing.ts'
import type { Downloader } from '../upstream/download.ts'

// One door: an importer of the pipeline need not know in which file a type of it is.

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

// What comes back: of a provider, up through the stages, and to the client with its price.

/** What comes back up. Parts are pulled by the client's socket; nothing is produced ahead of demand. */
export interface Reply<Part = any> {
  readonly parts: Flow<Part>
}

/** The answer of a provider: parts in the endpoint's normal form, and the quantities that pass with them. */
export interface ProviderAnswer<Part = any> {
  /** A list when the answer is complete. */
  readonly parts: Flow<Part> | readonly Part[]
  /** Consumed so far: what the vendor has reported, and what is known without it. */
  usage(): UsageReport
  /**
   * Characters and bytes of content so far. An answer without new content has stalled, whatever else arrives. Absent where an
   * answer comes whole.
   */
  received?(): number
  /** The vendor has said why the answer ends, and what all of it consumed. Only the end of the stream is outstanding. */
  complete?(): boolean
  /** The whole answer is consumed when its first part arrives, and is charged then. */
  readonly chargeAtFirstPart?: boolean
  /**
   * Provider-specific token, such as a reasoning signature, that pins the conversation to its deployment. Known when all
   * parts were read.
   */
  affinityToken?: (() => string | undefined) | undefined
}

/** The result of a charge, as data: each wire form writes it in its own way. */
export interface Receipt {
  readonly bill: Bill
  /** Quantities of the call, by source. */
  readonly meter: readonly UsageLine[]
  /** Decisions of the guards, if any were at work. */
  readonly guard?: GuardReport
}

/**
 * Books the meter in the ledger, once; later calls get the same answer. Never rejects.
 * @param pays whether the client owes it; by default not for a failed call
 */
export type Charge = (outcome?: Outcome, pays?: boolean) => Promise<Charged>

/** What became of a charge. */
export interface Charged {
  readonly bill: Bill
  /** `deferred`: it is durable nowhere yet, so the client must not be told a cost. */
  readonly state: Settled['state']
  /** Makes a deferred charge cost nothing, because its answer was not sent. */
  waive(): void
}

/** Checks search results before the model or the client sees them. */
export interface ResultFilter {
  /** @returns the results that may be shown to the model and cited */
  filterResults(
    results: readonly SearchResult[],
  ): readonly SearchResult[] | Promise<readonly SearchResult[]>
}

/** An error in the form of the wire. */
export interface ErrorResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** To be serialised as JSON. */
  readonly body: unknown
}

// A request as the pipeline takes it: validated, and in the form that a vendor gets.

/** A kind of work; also the name of the provider's method. */
type Operation =
  | 'chat'
  | 'complete'
  | 'countTokens'
  | 'generateImage'
  | 'editImage'
  | 'ocr'
  | 'speech'
  | 'transcribe'
  | 'embed'
  | 'rerank'
  | 'moderate'

/** A validated request. */
export interface ParsedRequest<In = any> {
  /** In the endpoint's normal form; never changed. */
  readonly input: In
  /** As the client wrote it. */
  readonly model: string
  /** Whether the answer is sent as it comes. */
  readonly stream: boolean
  readonly policy: Policy | undefined
  /** Ties calls of one conversation together. */
  readonly session: string | undefined
  /** Has a meaning only for the deployment that gave it. */
  readonly affinityToken: string | undefined
  /** Paths of what has no counterpart in the normal form; the client is told in a header. */
  readonly ignored?: readonly string[]
  /** Headers of the client for a vendor that speaks its form. */
  readonly nativeHeaders?: Readonly<Record<string, string>>
  /** The error where the request means nothing in the normal form. */
  readonly untranslatable?: InvalidRequest | undefined
  /** What the writer of the format has to know of the request. */
  readonly answerOptions?: unknown
  /** Size of the decoded body in bytes, where the prompt is estimated by it. */
  readonly bodyBytes?: number
  /** The source text behind the input, where members of it are copied upstream; released when the first part has arrived. */
  readonly rawJson?: RawJson | undefined
}

/** How a request goes to a vendor that speaks the client's own form. */
export interface NativeFormat {
  /** The provider's method. */
  readonly method: 'messages' | 'responses'
  /** @returns undefined for a request that has to be translated */
  prepare(request: ParsedRequest, to: NativeTarget): NativeRequest | undefined
}

/** What a request is prepared for. */
export interface NativeTarget extends Instructions {
  readonly model: Model
  /** The name of the model at the vendor. */
  readonly upstreamModel: string
  /** Guards may block the call: the vendor runs no tools of its own then, whose results no guard has read. */
  readonly guarded: boolean
  /** An opaque name for an end user of the client's. */
  label(value: string): string
}

/** A request in the vendor's form, and the paths of what was left out. */
export interface NativeRequest {
  readonly input: NativeInput
  readonly ignored: readonly string[]
}

/** An address in a request. */
export interface ClientAddress {
  readonly url: string
  /** Path of its member. */
  readonly param: string
}

// The pipeline's view of an HTTP request and its response.

/** A thin view of the Node request. */
export interface Incoming {
  readonly method: string
  /** Path and query as they were sent, with a mis-set base URL put right. */
  readonly url: string
  header(name: string): string | undefined
  /**
   * The whole body, decoded by its content coding, so far bounded that `JSON.parse` is not dear: its size, its ratio to what
   * was sent, and its structure are checked while it is read.
   * @throws InvalidRequest `request_too_large`, `unsupported_content_encoding`, `request_timeout`, and `invalid_json`
   * when it cannot be decoded, nests too deeply, or has too long a number or name; Unavailable and
   * TooManyRequests without memory for it
   */
  json(limitBytes: number): Promise<Buffer>
  /**
   * A body that is no JSON, decoded, in pieces as they arrive; its size and ratio are bounded. An error of `take` ends the
   * reading.
   * @throws as `json`, with `invalid_multipart` in place of `invalid_json`
   */
  pieces(limitBytes: number, take: (piece: Buffer) => void): Promise<void>
  /** Gives back the memory that was set aside for the body: nothing needs it any more. Idempotent. */
  release(): void
  /** @throws ClientDisconnected when the client has left */
  throwIfGone(): void
}

/** A thin view of the Node response. */
export interface Outgoing {
  /** Sets the head, once. It is sent with the first bytes. */
  head(status: number, headers: Readonly<Record<string, string>>): void
  /** Sends the head before there are bytes. */
  flush(): void
  readonly headSent: boolean
  /** Returns a promise only while the socket is full. */
  write(bytes: Uint8Array | string): void | Promise<void>
  /** @param ascii the text is ASCII, which is cheaper to send */
  end(bytes?: Uint8Array | string, ascii?: boolean): void
  /** Breaks the connection: the only sign of failure in a byte stream. */
  destroy(): void
}

// What all calls of one configuration share.

/** Everything a stage may use, frozen at one moment. A hot reload builds a new one; running calls keep theirs. */
export interface Runtime {
  readonly config: Config
  readonly catalog: Catalog
  readonly providers: ReadonlyMap<string, Provider>
  /** Providers that are inside the operator's network by their addresses. */
  readonly privateProviders: ReadonlySet<string>
  readonly download: Downloader
  /** Undefined without a configured search engine. */
  readonly search: Search | undefined
  readonly guards: GuardRegistry
  /** Undefined unless the operator configured a receiver of escalations. */
  readonly escalations: Escalations | undefined
  /** Asks a chat model on behalf of a guard: without policy, guards or limits of the key. */
  readonly internalChat: (
    caller: CallerContext,
    request: GuardModelRequest,
  ) => Promise<ChatCompletion>
  readonly accounts: Accounts
  readonly labels: Labels
  readonly ledger: Ledger
  /** Takes the changes of the admin API. */
  readonly audit: Audit
  /** Small objects that all gateways of one state share. */
  readonly records: Records
  /** Keeps the prices of charges. */
  readonly prices: PriceRecords
  readonly routing: Routing
  readonly holds: HoldEstimator
  readonly metrics: Metrics
  readonly faults: Pick<Faults, 'caught' | 'warn'>
  readonly authFailures: AuthFailures
  readonly loop: LoopWatch
  /** Takes the secrets of the configuration out of texts of vendors and plugins. */
  readonly mask: Mask
  readonly usageFindings: UsageFindings
  /** Undefined when the operator switched the access log off. */
  readonly access: AccessLog | undefined
  /** Undefined when the operator switched the request log off. */
  readonly requests: RequestLog | undefined
  /** Takes the contents of calls whose key wants that, where the operator allows it. */
  readonly contents: ContentLog
  /** Undefined when the operator switched the index of usage off. */
  readonly usage: UsageIndex | undefined
  /** Learns of accounts whose balance changes. */
  readonly spending: Spending
  /** Gets events while a console watches. */
  readonly events: LiveEvents
  /** Undefined without configured sinks. */
  readonly sinks: Sinks | undefined
  /** What is wrong, and for how long. */
  readonly alerts: Alerts
  /** Tells this gateway from others on the same ledger. */
  readonly gatewayId: string
  readonly log: ConsolaInstance
}

/** The call for which a guard asks a model. */
export interface CallerContext {
  readonly id: RequestId
  readonly path: string
  readonly incoming: Incoming
  readonly runtime: Runtime
  readonly catalog: Catalog
  readonly account: Account
  readonly flags?: Set<UsageFlag>
  reported?: Record<string, unknown> | undefined
}
