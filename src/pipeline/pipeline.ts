/**
 * The pipeline: a request becomes a Call; stages act on it in their order, until one puts a source of the answer.
 * Its parts, streamed or whole, are pushed through the steps of the stages to the writer.
 */
import type { Account, Key, Team } from '../accounts/stored.ts'
import type { Recall } from '../answers/items.ts'
import type { AnswerCopy } from '../answers/repeats.ts'
import type {
  CallLabels,
  Attempt,
  SkippedModel,
  ExchangeRequest,
  ExchangeResponse,
  LimitName,
  Question,
  TraceLink,
} from '../observe/record.ts'
import { Timeouts, type Timeout, AbortScope, removeUnordered, Scope } from '../lifetime/scope.ts'
import type { Catalog, Model } from '../models/catalog.ts'
import type { Modality } from '../models/entry.ts'
import type { When } from '../models/fallback-list.ts'
import type { BodyLimits } from '../config/config.ts'
import type { Check } from '../errors/checks.ts'
import {
  InternalError,
  UpstreamFailure,
  toGatewayError,
  type GatewayError,
  type InvalidRequest,
} from '../errors/errors.ts'
import type { ChangeTexts, Masking } from '../masking/masking.ts'
import type { Decision } from '../guard/decision.ts'
import type { GuardAdapter } from '../guard/adapter.ts'
import type { Bill, Pico, UsageLine } from '../money/money.ts'
import type { Estimate } from '../money/holds.ts'
import type {
  Admitted,
  HoldGranted,
  Outcome,
  RequestId,
  UsageFlag,
} from '../state/ledger/ledger.ts'
import type { Download, NativeInput } from '../plugin.ts'
import type { EffectivePolicy, Instructions, Policy } from '../policy/policy.ts'
import type { ResultFilter } from '../search/results.ts'
import type { Grounding } from '../search/search.ts'
import type { Hidden, UsageReport } from '../money/plausible.ts'
import { Chain, type ChainStep, type Feed, type Sink } from '../stream/chain.ts'
import type { RawJson } from '../stream/raw-json.ts'
import type { Charge, Receipt } from './charge.ts'
import type { ErrorResponse, Incoming, Outgoing } from './http.ts'
import type { BudgetedQuestions } from '../guard/plan.ts'
import type { Runtime } from './runtime.ts'

/**
 * One stage in the life of a call. The order of `gateway/routes.ts` is the order in which calls pass them. Stages
 * are plain objects: their inputs are on the call.
 */
export interface Stage {
  readonly name: string
  /**
   * Acts on the way in. Throws to refuse; adds its part of the way out with {@link Call.through}; may put the source
   * of the answer on the call, and the stages behind it are not asked then. One that returns nothing costs no turn
   * of the queue.
   */
  before?(call: Call): void | Promise<void>
  /**
   * Releases what `before` acquired. Called once for each stage that the call has entered, in reverse order, on every path.
   * @param error what ended the call before it had an answer
   */
  end?(call: Call, error?: unknown): void | Promise<void>
}

/**
 * Takes a call through its stages and its answer to the client. Makes no promise of its own, and waits only for
 * those of stages.
 * @param done called when the response is complete, or the call has ended without one; with the error of a stage
 * that refused, or that failed before the head of the response was sent. May be called again, without a meaning.
 */
export function run(call: Call, stages: readonly Stage[], out: Outgoing, done: Done): void {
  new Run(call, stages, out, done).begin()
}

/** The way in of one call. Its methods are bound, not closures: see `lifetime/README.md`. */
class Run {
  readonly #call: Call
  readonly #out: Outgoing
  readonly #done: Done
  #stages: readonly Stage[]
  #at = 0

  constructor(call: Call, stages: readonly Stage[], out: Outgoing, done: Done) {
    this.#call = call
    this.#stages = stages
    this.#out = out
    this.#done = done
  }

  begin(): void {
    this.#call.scope.defer(this.#ended.bind(this))
    this.goOn()
  }

  /** A call whose client has left ends without a word of its writer. Any other writer has its last bytes still to send. */
  #ended(): void {
    if (this.#call.answer.outcome === 'cancelled') this.#done()
  }

  goOn(): void {
    try {
      const call = this.#call
      for (;;) {
        call.throwIfAborted()
        if (call.source) return this.#answer(call.source)
        if (call.rest) {
          this.#stages = call.rest
          call.rest = undefined
          this.#at = 0
        }
        const stage = this.#stages[this.#at++]
        if (!stage) throw new Error('the last stage of a route has to answer')
        const pending = call.enter(stage)
        if (pending) {
          return void pending.then(this.#entered.bind(this), this.#refused.bind(this))
        }
      }
    } catch (error) {
      this.#done(error)
    }
  }

  #entered(): void {
    this.#call.entered()
    this.goOn()
  }

  #refused(error: unknown): void {
    this.#call.entered()
    this.#done(error)
  }

  /** Sends an answer through the steps of the stages to the writer. */
  #answer(source: Feed<unknown>): void {
    const call = this.#call
    const writer = call.writer?.(this.#out, this.#done)
    call.chainTo(writer ?? call.format.write(call, this.#out, this.#done)).start(source)
  }
}

/** One kind of work in its one normal form. Stages know nothing else of it, and never ask which endpoint they serve. */
export interface Endpoint<In = unknown, Out = unknown, Part = unknown> {
  readonly operation: Operation
  /** The kind of catalog models that serve it. */
  readonly modality: Modality
  /** `param` of errors about the prompt. */
  readonly errorField: string | null
  /** Whether the first streamed part may take as long as a whole answer. */
  readonly slowStart?: boolean
  /**
   * Compares what the input needs with what the model can do.
   * @param catalog the catalog for naming models that can
   * @throws InvalidRequest
   */
  check(input: In, model: Model, catalog: Catalog): void
  /** The input for providers: without members that are the gateway's own business. */
  toUpstream(input: In): Out
  /**
   * The same for one model: with its defaults and within its limits. Absent where it is the same for all.
   * @param input the request of the client
   * @param thinks the name of the model asks for reasoning
   */
  fit?(outbound: Out, model: Model, input: In, thinks: boolean): Out
  /** What {@link fit} leaves out because the model does not have it; absent where that is nothing. */
  drops?(input: In, model: Model): readonly Dropped[]
  /**
   * The part of the input, or of the request for providers, that is still needed when the answer has begun and no
   * other deployment can be asked. Absent where that is all of it.
   */
  withoutContent?<Request extends object>(request: Request): Request
  /**
   * Brings the answer of one attempt into normal form. Called once per attempt, when its provider has answered.
   * @param signal ends the answer
   */
  normalize(call: Call, signal: AbortSignal): ProviderAnswer<Part>
  readonly billing: Billing<In, Part>
  /** It is absent where a policy's instructions have no meaning. */
  readonly instructions?: {
    /** Puts system text and token ceiling into the outbound request; returns a copy. */
    apply(outbound: Out, to: Instructions): Out
    /** Ends an answer that runs past the token ceiling of the policy. */
    limit(maxOutputTokens: number, input: In): ChainStep<Part, Part>
  }
  /** It is absent where a web search has no meaning. */
  readonly grounding?: Grounding<In, Part>
  /** Numbers and words of a fixed list about a request, for logs and traces; no text of the client. */
  exchange?(input: In): ExchangeRequest
  readonly guard?: GuardAdapter<In, Part>
  /** Loads what masks its texts. Absent where nothing can be put back: there personal data is refused. */
  readonly mask?: () => Promise<MaskedTexts<In, Part>>
  /** The parts of answers that equal requests may get again. Absent where no answer is stored. */
  readonly stored?: StoredParts<Part>
  /** Addresses that vendors are asked to fetch. Absent where requests have none. */
  readonly addresses?: {
    of(outbound: Out): readonly ClientAddress[]
    /** Replaces addresses by their files; returns a copy. */
    replace(outbound: Out, files: ReadonlyMap<string, Download>): Out
  }
}

/** The texts of an endpoint that are masked for vendors. */
export interface MaskedTexts<In = any, Part = any> {
  /** A copy of an input with all texts changed that go to a vendor; walks them in the same order each time. */
  map(input: In, change: ChangeTexts): In
  /** Puts values back into an answer. Absent where answers have no text of a model. */
  restoring?(call: Call, masking: Masking, input: In): ChainStep<Part, Part>
}

/** Answers of an endpoint as values of JSON. */
interface StoredParts<Part = unknown> {
  /** It is undefined for an answer that is not whole and well. @param streamed whether it came as chunks */
  pack(parts: readonly Part[], streamed: boolean): unknown
  /** Whether equal requests are meant to get different answers. */
  varies?(outbound: any): boolean
  /** The same parts for another call. */
  unpack(call: Call, packed: any): readonly Part[]
}

/** The cost of a kind of work, and the time of its charge. */
export interface Billing<In = unknown, Part = unknown> {
  /** The consumption of the call, as far as the request tells. */
  estimate(request: ParsedRequest<In>, model: Model): Estimate
  /** Whether the answer may have tokens that its client does not see; absent, and undefined, where all pass. */
  hidden?(call: Call): Hidden | undefined
  /** The questions of guards that do the work instead of a model. Absent, and undefined, where a model does it. */
  questions?(call: Call): BudgetedQuestions | undefined
  /**
   * Charges when the parts run out (or at the first), and puts a {@link Receipt} on the last part (or the first); on an
   * error that is charged, on the error. Streamed and whole answers alike.
   */
  attach(call: Call): ChainStep<Part, Part>
}

/** It is called by a writer when its response is complete, or with the error that needs a status. */
export type Done = (error?: unknown) => void

/**
 * The last link of the chain: prints parts to the client. It owns the response once it has sent the head. All text of one
 * turn goes out in one write. It ends the call before the last byte: a client that has read the end finds its balance charged
 * and its concurrency slot free.
 */
export type Writer<Part = unknown> = Sink<Part>

/** How one path of the API reads requests and writes answers. */
export interface WireFormat<In = unknown, Part = unknown> {
  readonly path: string
  /**
   * Reads, bounds and validates the body.
   * @param recall finds items of earlier answers to the caller
   * @throws InvalidRequest
   */
  read(incoming: Incoming, limits: BodyLimits, recall: Recall): Promise<ParsedRequest<In>>
  /**
   * Makes the writer of one answer, whose head timer runs from now on.
   * @param done called once, unless the call ends before
   */
  write(call: Call, out: Outgoing, done: Done): Writer<Part>
  /**
   * The error as a response; its body is also that of an error event.
   * @param call absent where none was made
   * @param id the id of the request
   */
  writeError(error: GatewayError, call: Call | undefined, id: string): ErrorResponse
  /** The form of its bodies, for the description of the API; absent where there is none. */
  readonly body?: Check
  /** Members of a form that are files; absent where bodies are JSON only. */
  readonly files?: readonly string[]
  /** It is absent where no vendor speaks this form. */
  readonly native?: NativeFormat | undefined
  /** What the client wrote of something that is dropped, by its own names; absent where there is nothing of that kind. */
  readonly droppedNames?: ((what: Dropped, request: ParsedRequest) => readonly string[]) | undefined
}

/** The caller, and the grants of the ledger. Made by `enter`, as soon as the key is known. */
export interface Admission {
  readonly key: Key
  readonly team?: Team
  readonly account: Account
  /** Whether an operator calls as the key. */
  readonly played: boolean
  /** The answer of the ledger; absent where it refused. */
  entered?: Admitted
  /** The window, and whether the call is billed; set by `hold`. */
  held?: HoldGranted
  /** The consumption of the call, estimated by its request; set by `hold`. */
  estimate?: Estimate
  /**
   * Exchanges the hold for that of another model, as far as the limits allow; set by `hold`.
   * @param share the share of the figures that is held, from 0 to 1
   * @returns the refusal of the ledger, in which case nothing has changed
   */
  rehold?: (model: Model, share?: number) => Promise<Error | undefined>
  limit?: LimitName | undefined
  /**
   * Grows the hold of a call that has written so many tokens, all choices together; set by `hold`, for a call that
   * runs while little money is left. The counter of an answer's tokens calls it.
   */
  grow?: (tokens: number) => void
}

/** What a request asks of reasoning: hints of how to reason, and thoughts of earlier turns. */
export type Dropped = 'reasoning' | 'thoughts'

/** The model, its rules, and its input. Made by `resolve`; `outbound` is set by `constrain`. */
export interface Target {
  /** The model that is asked; `route` may replace it until the first part. */
  model: Model
  /** The model that the client asked for, where another one is asked in its place, and why; set by `route`. */
  replaced?: { readonly asked: Model; readonly reason: When } | undefined
  /** Whether the model id carried `:online`. */
  readonly online: boolean
  /** Whether the name of the model asks for reasoning. */
  readonly thinks: boolean
  /** The key's policy, tightened by that of the request. */
  readonly policy: EffectivePolicy
  /** The request for providers. Replaced by copies, never changed in place. */
  outbound: unknown
  /** What `outbound` lacks because the model does not have it; set by `fitTo`. */
  dropped?: readonly Dropped[]
  /** Whether the client, or the vendor, gets something else than the other one sends; set by `guard` and `ground`. */
  requiresNormalForm: boolean
  /** Whether the vendor is asked in the client's own form; set by `route`. */
  native: boolean
  /** Whether turns that were refused before are left out; set by `guard`. */
  withheld?: boolean
  /** The personal data of the request, and what is told of it; set by `mask`. */
  masked?: MaskedRequest
  /** What the cache of answers does with the call; set by `reuse`. */
  reuse?: {
    readonly result: 'hit' | 'joined' | 'miss' | 'pass'
    readonly age?: number
    end(): void | Promise<void>
  }
  /** The path of the vendor's tool that the gateway's search has replaced; set by `ground`. */
  searchedFor?: string
  resultFilter?: ResultFilter
}

/** A request whose personal data is replaced for vendors. */
interface MaskedRequest {
  /** The input as the client sent it: banned patterns read it, and nothing else. */
  readonly original: unknown
  readonly masking: Masking
  /** Puts values back into the answer; undefined where nothing was replaced. */
  readonly restoring: ChainStep | undefined
}

/** The requests to vendors, their answers, and the end of the call. Filled in place. */
interface Answer {
  /** The consumption so far: quantities and price tables, no totals. */
  readonly meter: UsageLine[]
  readonly attempts: (Attempt | SkippedModel)[]
  /** Hints for an operator about the usage of the call. */
  readonly flags: Set<UsageFlag>
  /** The deployment that was asked last; shown to operators only. */
  deployment: string | undefined
  state: unknown
  /** The decision of the guards, if any are at work; set by `guard`. */
  decision: Decision | undefined
  outcome: Outcome | undefined
  /** The status the client got, for log and metrics; 0 without one. */
  status: number
  error: Pick<GatewayError, 'code' | 'message'> | undefined
  /** It is set when the call is priced: what comes on the meter later is not charged. */
  priced: Bill | undefined
  /** What its vendors are paid, once it is priced; undefined where that is not known. */
  vendor: Pico | undefined
  /** It is set when the charge of the call is durable. */
  bill: Bill | undefined
  /** Whether the charge is durable nowhere, so that the client must not be told a cost. */
  unbooked: boolean
  /** Whether a part with content has passed all steps; set by those of `settle`. */
  produced: boolean
  /** Whether the writer has sent parts; set by writers of streams. */
  written: boolean
  /** Figures of vendors that were out of bounds, by deployment. */
  reported: Record<string, unknown> | undefined
  /** Questions to guards and search engines, see {@link Call.addQuestion}; undefined where there were none. */
  questions: Question[] | undefined
  /** The end of the answer; set by the endpoint, while sinks are told of calls. */
  exchange: ExchangeResponse | undefined
}

/** Times of the steps of a call, in ms from its arrival. */
interface Marks {
  /** When the money was held. */
  admitMs?: number
  /** When guards had agreed to the input. */
  guardMs?: number
  /** When the first part of a streamed answer went out. */
  firstMs?: number
  /** When the charge was booked. */
  settledMs?: number
}

interface CallInit {
  readonly id: RequestId
  /** The path of the route: bounded, unlike the path that the client wrote. */
  readonly path: string
  /** It is absent for GET routes: their stages need none. */
  readonly endpoint?: Endpoint | undefined
  readonly format: WireFormat
  readonly incoming: Incoming
  readonly runtime: Runtime
}

interface Groups {
  admission?: Admission
  request?: ParsedRequest
  target?: Target
}

/** Questions of one call that are kept for logs and traces. */
const MOST_QUESTIONS = 32

/**
 * One request from arrival to end, with its context. `admission`, `request` and `target` each throw until a stage has made
 * them; {@link Call.made} has them where that is not certain.
 */
export class Call {
  readonly id: RequestId
  readonly path: string
  readonly endpoint: Endpoint
  readonly format: WireFormat
  readonly incoming: Incoming
  /** Snapshot of config, catalog and plugins: stable for the whole call. */
  readonly runtime: Runtime
  /** Finalisers of resources that are no stage's: sockets, timers. */
  readonly scope: Scope
  /** Extra response headers, lower-case names. */
  readonly headers: Record<string, string> = {}
  readonly made: Groups = {}
  readonly answer: Answer = {
    meter: [],
    attempts: [],
    flags: new Set(),
    deployment: undefined,
    state: undefined,
    decision: undefined,
    outcome: undefined,
    status: 0,
    error: undefined,
    priced: undefined,
    vendor: undefined,
    bill: undefined,
    unbooked: false,
    produced: false,
    written: false,
    reported: undefined,
    questions: undefined,
    exchange: undefined,
  }
  readonly marks: Marks = {}
  /** The source of the answer: put by a stage, started by {@link run}. */
  source: Feed<unknown> | undefined = undefined
  rest: readonly Stage[] | undefined = undefined
  /** Keeps the contents of the call, once it has ended; set by `read`. */
  contents: (() => void) | undefined = undefined
  chain: Chain | undefined = undefined
  /** Makes the writer in place of that of the format; set by `claim` for an answer that is sent again. */
  writer: ((out: Outgoing, done: Done) => Writer) | undefined = undefined
  /** Takes a copy of the answer for a client that may ask again; set by `claim`. Such a call goes on without its client. */
  copy: AnswerCopy | undefined = undefined
  /** Keeps the answer or gives the claim back; set by `claim`. */
  keeping: ((outcome: Outcome | undefined) => Promise<void>) | undefined = undefined
  /** It is set by `settle`. */
  charge: Charge | undefined = undefined
  /** The trace of the client that the call belongs to. */
  trace: TraceLink | undefined
  /** ms since epoch */
  readonly startedAt: number = Date.now()
  runningIndex = -1
  /** Steady ms, of `performance.now()`: deadlines do not follow a wall clock that is set. */
  readonly #began = performance.now()
  readonly #stages: Stage[] = []
  readonly #steps: ChainStep[] = []
  /** The stage whose `before` is under way. */
  #entering: Promise<void> | undefined = undefined
  #ending: Promise<void> | undefined = undefined
  #ended = false
  #reason: unknown = undefined
  /** A list, which is cheaper than a Map for few entries. */
  #abortScopes: AbortScope[] | undefined = undefined
  #timeouts: Timeouts | undefined = undefined
  #deadline: number
  /** Receives errors of finalizers, listeners and timeouts, which have no caller. */
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

  get admission(): Admission {
    return this.made.admission ?? notMade('admission')
  }

  get request(): ParsedRequest {
    return this.made.request ?? notMade('request')
  }

  get target(): Target {
    return this.made.target ?? notMade('target')
  }

  /** The catalog at the prices of the account, of the moment at which the call entered, by the clock of the store, or else of its arrival. */
  get catalog(): Catalog {
    const { admission } = this.made
    const then = this.runtime.catalog.at(admission?.entered?.at ?? this.startedAt)
    const list = admission?.account.priceList
    return list === undefined ? then : then.withList(list)
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

  /**
   * Lets a stage act. What it acquires is released when the call ends, also where it ends before the stage has it. Where it
   * returns a promise, {@link entered} is called once that is settled.
   */
  enter(stage: Stage): void | Promise<void> {
    this.#stages.push(stage)
    const pending = stage.before?.(this)
    if (pending) this.#entering = pending
    return pending
  }

  /** Continues after a stage whose promise has settled. */
  entered(): void {
    this.#entering = undefined
  }

  /** The way out: the steps of all stages, from the last to the first, and their sink. */
  chainTo(sink: Sink<any>): Chain {
    return (this.chain = new Chain(this.#steps, sink))
  }

  /**
   * Adds steps of the stage that acts: the parts of an answer pass them in this order, before those of the stages
   * outside.
   */
  through(...steps: readonly ChainStep[]): void {
    this.#steps.unshift(...steps)
  }

  /** Aborts the call. The first reason counts; a later one ends the parts that survived the first. */
  abort(reason: Error): void {
    this.#reason ??= reason
    if (reason instanceof ClientDisconnected) this.#note('cancelled')
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
    const { request, target } = this
    request.rawJson?.release()
    this.incoming.release()
    const { withoutContent } = this.endpoint
    if (!withoutContent) return
    const input = withoutContent(request.input as object)
    this.made.request = { ...request, rawJson: undefined, input }
    target.outbound = withoutContent(target.outbound as object)
  }

  /** Records a question that has ended just now. Of very many the first ones are kept. */
  addQuestion({ ms, ...question }: Omit<Question, 'from'>): void {
    const questions = (this.answer.questions ??= [])
    if (questions.length >= MOST_QUESTIONS) return
    const rounded = Math.round(ms)
    questions.push({
      ...question,
      ms: rounded,
      from: Math.max(0, this.elapsedMs - rounded),
    })
  }

  receipt(bill: Bill): Receipt {
    const { decision, meter } = this.answer
    const guard = decision?.report()
    const answeredBy = this.made.target?.replaced && this.target.model.id
    return { bill, meter, ...(answeredBy && { answeredBy }), ...(guard && { guard }) }
  }

  /** Aborts the call with `upstream_timeout` so many seconds after its arrival. */
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
   * Ends the call: closes what answers, which puts its usage on the meter, then has every stage that was entered release what
   * it has, last in, first out. Idempotent. A `refused` outcome that was set before is kept when the call completes. A promise
   * only while something needs time.
   * @param error what ended the call before it had an answer
   */
  end(outcome: Outcome, error?: unknown): void | Promise<void> {
    this.#note(outcome)
    if (this.#ended) return this.#ending
    this.#ended = true
    return (this.#ending = this.#release(error) ?? undefined)
  }

  /**
   * Sets the outcome. The first one counts, but for a refusal that does not reach the client. An abort by a leaving
   * client is no failure.
   */
  #note(outcome: Outcome): void {
    const { answer } = this
    const isLost = answer.outcome === 'refused' && outcome !== 'completed'
    if (answer.outcome === undefined || isLost) answer.outcome = outcome
  }

  /** Closes what answers, which puts its usage on the meter. Idempotent. */
  stop(): void | Promise<void> {
    return this.#guarded(() => (this.chain ? this.chain.close() : this.source?.discard()))
  }

  #release(error: unknown): void | Promise<void> {
    const closing = this.stop()
    const end = () => this.#leaveStages(error)
    // The answer is kept before it is booked: one that is charged can be sent again.
    const keep = () => this.keep()?.then(end) ?? end()
    return closing?.then(keep) ?? keep()
  }

  /** Keeps the answer for repetitions, or gives their claim back, once. */
  keep(): Promise<void> | undefined {
    const { keeping } = this
    this.keeping = undefined
    return keeping && this.#guarded(() => keeping(this.answer.outcome))
  }

  #leaveStages(error: unknown): void | Promise<void> {
    for (let stage = this.#stages.pop(); stage; stage = this.#stages.pop()) {
      const leaving = this.#leave(stage, error)
      if (!leaving) continue
      const goOn = () => this.#leaveStages(error)
      return leaving.then(goOn, (thrown: unknown) => {
        this.#onThrown(thrown)
        return goOn()
      })
    }
    return this.scope.close()
  }

  #leave(stage: Stage, error: unknown): void | Promise<void> {
    const entering = this.#entering
    if (!stage.end) return undefined
    this.#entering = undefined
    try {
      // What it acquires comes late, and is given back all the same.
      if (!entering) return stage.end(this, error)
      const leave = () => stage.end!(this, error)
      return entering.then(leave, leave)
    } catch (thrown) {
      this.#onThrown(thrown)
      return undefined
    }
  }

  /** Reports errors at the end of the call, which stop nothing. */
  #guarded(act: () => void | Promise<void>): Promise<void> | undefined {
    try {
      const acting = act()
      return acting instanceof Promise ? acting.catch(this.#onThrown) : undefined
    } catch (error) {
      this.#onThrown(error)
      return undefined
    }
  }

  /**
   * Calls back once, up to a quarter of a second after `delayMs`. One shared timer drives all timeouts, so that each is
   * cheap. Restarting one may make it early by as much.
   */
  timeout(delayMs: number, onTimeout: (now: number) => void): Timeout {
    return (this.#timeouts ??= new Timeouts(this.#onThrown)).set(delayMs, onTimeout)
  }

  /** It is called by the gateway's one timer. @param now steady ms, of `performance.now()` */
  tick(now: number): void {
    if (now > this.#deadline) {
      this.#deadline = Infinity
      this.abort(new UpstreamFailure('timeout', 'The model did not answer before the deadline.'))
    }
    this.#timeouts?.tick(now)
  }
}

/** @throws Error where a stage reads a group that none before it has made */
function notMade(name: keyof Groups): never {
  throw new Error(`no stage has made the ${name} of this call`)
}

/** The client closed the connection before the answer was complete. */
export class ClientDisconnected extends Error {
  constructor() {
    super('the client closed the connection')
    this.name = 'ClientDisconnected'
  }
}

/** The state of one answer: it brings a provider's answer into the endpoint's normal form, and counts it. */
export interface ProviderAnswer<Part = unknown> {
  /** The sequence of parts, where it is a member of the provider's answer. Called first, before `steps` is read. */
  open?(answer: any): AsyncIterable<unknown>
  /** Steps that bring streamed parts into normal form. */
  readonly steps: readonly ChainStep[]
  /** The parts of an answer that came whole, one for each choice; images and transcripts have one part. @throws UpstreamFailure */
  whole(answer: any): readonly Part[]
  /** The consumption so far: the vendor's report, and the facts known without it. */
  usage(): UsageReport
  /**
   * Characters and bytes of content so far. An answer without new content has stalled, whatever else arrives. Absent where an
   * answer comes whole.
   */
  received?(): number
  /** Whether the vendor has given the reason of the end, and the usage. Only the end of the stream is outstanding. */
  complete?(): boolean
  /** Whether the whole answer is consumed when its first part arrives, and is charged then. */
  readonly chargeAtFirstPart?: boolean
  /**
   * Provider-specific token, such as a reasoning signature, that pins the conversation to its deployment. Known when
   * all parts were read.
   */
  affinityToken?: (() => string | undefined) | undefined
}

export type { Receipt } from './charge.ts'
export type { CallerContext, Runtime } from './runtime.ts'

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

export interface ParsedRequest<In = unknown> {
  readonly input: In
  /** The name as the client wrote it. */
  readonly model: string
  /** Whether the answer is sent as it comes. */
  readonly stream: boolean
  readonly policy: Policy | undefined
  /** The id that ties calls of one conversation together. */
  readonly session: string | undefined
  /** A token with a meaning only for the deployment that gave it. */
  readonly affinityToken: string | undefined
  /** Paths of members without a counterpart in the normal form; a header tells the client. */
  readonly ignored?: readonly string[]
  /** Headers of the client for a vendor that speaks its form. */
  readonly nativeHeaders?: Readonly<Record<string, string>>
  /** The error where the request means nothing in the normal form. */
  readonly untranslatable?: InvalidRequest | undefined
  /** Facts about the request that the writer of the format needs. */
  readonly answerOptions?: unknown
  /** Size of the decoded body in bytes, where the prompt is estimated by it. */
  readonly bodyBytes?: number
  /** The source text behind the input, where members of it are copied upstream; released when the first part has arrived. */
  readonly rawJson?: RawJson | undefined
  /** Names of the caller in logs; set by `read`. */
  readonly labels?: CallLabels
}

/** How a request goes to a vendor that speaks the client's own form. */
export interface NativeFormat {
  readonly method: 'messages' | 'responses'
  /** @returns undefined for a request that has to be translated */
  prepare(request: ParsedRequest, to: NativeTarget): NativeRequest | undefined
}

export interface NativeTarget extends Instructions {
  readonly model: Model
  readonly upstreamModel: string
  /** Whether guards may block the call: the vendor runs no tools of its own then, whose results no guard has read. */
  readonly guarded: boolean
  /** Further members of a body that the provider gets. */
  readonly passes: readonly string[]
  label(value: string): string
}

/** A request in the vendor's form, and the paths of omitted members. */
export interface NativeRequest {
  readonly input: NativeInput
  readonly ignored: readonly string[]
  /** Addresses in it that the vendor would fetch. */
  readonly addresses: readonly ClientAddress[]
}

export interface ClientAddress {
  readonly url: string
  readonly param: string
}
