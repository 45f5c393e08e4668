/** The shape of a call. It imports nothing: pages of the console read it too. */

/** A call that has ended, as sinks, logs, metrics and `GET /admin/requests` get it. null is "unknown", for a quantity "not reported". */
export interface EndedCall {
  readonly id: string
  /** When the call arrived, ISO 8601. */
  readonly at: string
  /** The date of that moment in the time zone of the account, `YYYY-MM-DD`. */
  readonly day: string
  readonly method: string
  readonly endpoint: string
  readonly account_id: string | null
  /** The team of the key when the call arrived. */
  readonly team_id: string | null
  readonly key_id: string | null
  readonly model: string | null
  /** The deployment of the last request: provider, slash, the vendor's name of the model. */
  readonly deployment: string | null
  /** 0 if the client left before the status was sent. */
  readonly status: number
  readonly code: string | null
  /** The limit that refused the call. */
  readonly limited_by: string | null
  readonly outcome: 'completed' | 'refused' | 'cancelled' | 'failed' | 'replayed'
  readonly stream: boolean | null
  /**
   * ms from the arrival until the money was held, guards had agreed to the input, the first part was sent, the charge was
   * booked, and the last byte.
   */
  readonly times: {
    readonly admit_ms: number | null
    readonly guard_ms: number | null
    readonly first_ms: number | null
    readonly settled_ms: number | null
    readonly total_ms: number
  }
  /** Quantities by name, such as `prompt_tokens`. */
  readonly usage: Readonly<Record<string, number | null>>
  readonly estimated: boolean | null
  /** USD as exact decimal text. */
  readonly cost_usd: string | null
  /** Parts of the cost by name: USD as exact decimal text. */
  readonly cost_details: Readonly<Record<string, string>> | null
  /** What vendors are paid for the call: USD as exact decimal text. */
  readonly vendor_cost_usd: string | null
  readonly rate: { readonly limit: number; readonly left: number } | null
  /** Other limits of key and account that were in force, by name such as `key.concurrency`; caps are exact decimal text in USD. */
  readonly limits: Readonly<Record<string, number | string>> | null
  /** `policy`: a hash, equal for equal policies of keys. */
  readonly guard: {
    readonly outcome: string
    readonly rules: readonly string[]
    readonly policy: string | null
  } | null
  /** Treatment of the texts of one side that violate a rule. Side `all` and an empty rule: no rule was violated. */
  readonly decided:
    | readonly {
        readonly mode: string
        readonly side: string
        readonly rule: string
        readonly outcome: string
      }[]
    | null
  readonly tag: string | null
  readonly user: string | null
  readonly gateway: string | null
  /** `play`: an operator called as the key. */
  readonly origin: 'api' | 'play' | 'test'
  /** Hash of the session that the client named. */
  readonly session: string | null
  readonly agent: string | null
  /** Requests to deployments, if there was more than one or it failed, and fallback models that were passed over. */
  readonly attempts: readonly (
    | {
        readonly deployment: string
        readonly ms: number
        /** `ok`, or the class of the failure. */
        readonly result: string
        /** The HTTP status of the vendor, where a failure had one. */
        readonly status: number | null
        /** The vendor's message about the failure, without credentials and long quotations. */
        readonly message: string | null
      }
    | {
        readonly model: string
        /** Why it was not asked: `not_allowed`, `lacks`, `window`, `out` or `money`. */
        readonly skipped: string
      }
  )[]
  /** What the cache of answers did: `hit`, `joined` (waited for an equal call), `miss` or `pass`. */
  readonly cache: string | null
  /** Seconds since the answer was stored, of a hit. */
  readonly cache_age: number | null
  /** Values of personal data that were replaced in the request, by kind; null where the key masks none. */
  readonly masked: Readonly<Record<string, number>> | null
  /** How many times a value was put back into the answer, and how many of these from a name that the model had altered. */
  readonly restored: number | null
  readonly altered: number | null
  /** The model that the client asked for, where a fallback was asked in its place. */
  readonly asked_model: string | null
  /** The reason of it: `down`, `context` or `filter`. */
  readonly fallback: string | null
  /** Questions to remote guards and to search engines, the first 32. */
  readonly questions: readonly {
    readonly to: 'guard' | 'search'
    readonly name: string
    /** Side of the call that a guard judged; null for a search. */
    readonly side: 'input' | 'output' | null
    /** Start, in ms since the arrival of the call. */
    readonly at_ms: number
    readonly ms: number
    /** `passed` or `blocked` for a guard, `ok` for a search; else why there was no answer, or `cancelled`. */
    readonly result: string
    /** Rules that the guard reported as violated. */
    readonly rules: readonly string[]
  }[]
  readonly retry: number | null
  /** The message of the error that the client got. */
  readonly error: string | null
  /** The W3C `traceparent` and `tracestate` that the client sent, and the id of the span that was named to it. */
  readonly trace: {
    readonly parent: string
    readonly span: string
    readonly state?: string
  } | null
  /** Parameters of a chat; null for other calls. */
  readonly request: {
    readonly max_tokens?: number
    readonly temperature?: number
    readonly top_p?: number
    readonly seed?: number
    readonly choices?: number
    readonly reasoning?: string
  } | null
  /** How the answer of a chat ended. */
  readonly response: {
    readonly id?: string
    readonly model?: string
    readonly finish_reasons: readonly string[]
  } | null
  /** Request and answer: only with `telemetry.content`, of keys with `log_content`. */
  readonly content: CallText | null
}

/** Request and answer of a call, without files and credentials. */
export interface CallText {
  /** The request in the gateway's own form. */
  readonly input: unknown
  /** Texts of the answer; `channel` is `content`, `reasoning`, `tool_call` or another of the contract with guards. */
  readonly output: readonly {
    readonly choice: number
    readonly channel: string
    readonly text: string
  }[]
  /** Whether one of them was longer than 256 KiB. */
  readonly cut: boolean
}
