/** What the gateway is made of, as calls see it. */
import type { ConsolaInstance } from 'consola'
import type { Account } from '../accounts/stored.ts'
import type { AnswerCache } from '../answers/cache.ts'
import type { ItemMemory } from '../answers/items.ts'
import type { Repeats } from '../answers/repeats.ts'
import type { Catalog } from '../models/catalog.ts'
import type { Config } from '../config/config.ts'
import type { HoldEstimator } from '../money/holds.ts'
import type { RequestId, UsageFlag, Ledger } from '../state/ledger/ledger.ts'
import type { ChatCompletion, Provider } from '../plugin.ts'
import type { Search } from '../search/search.ts'
import type { Incoming } from './http.ts'
import type { Members } from '../access/members.ts'
import type { Credentials } from '../access/credentials.ts'
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
import type { PaymentOrders, PaymentProvider } from '../payments/orders.ts'
import type { Routing } from '../models/routing.ts'
import type { Unserved } from '../models/unserved.ts'
import type { Downloader } from '../upstream/download.ts'
import type { Egress } from '../upstream/egress.ts'

/** Everything a stage may use, frozen at one moment. A hot reload builds a new one; running calls keep theirs. */
export interface Runtime {
  readonly config: Config
  readonly catalog: Catalog
  readonly providers: ReadonlyMap<string, Provider>
  /** Providers whose addresses are inside the operator's network. */
  readonly privateProviders: ReadonlySet<string>
  /** Built-in providers, whose input is not frozen: their tests run with frozen input. */
  readonly trustedProviders: ReadonlySet<string>
  readonly download: Downloader
  readonly egress: Egress
  /** It is undefined without a configured search engine. */
  readonly search: Search | undefined
  readonly guards: GuardRegistry
  /** Asks a chat model on behalf of a guard: without policy, guards or limits of the key. */
  readonly internalChat: (
    caller: CallerContext,
    request: GuardModelRequest,
  ) => Promise<ChatCompletion>
  readonly accounts: Accounts
  readonly credentials: Credentials
  readonly members: Members
  readonly labels: Labels
  readonly ledger: Ledger
  readonly audit: Audit
  readonly records: Records
  /** It is undefined where no answers are stored for equal requests. */
  readonly answers: AnswerCache | undefined
  /** Items of answers that clients may refer to. */
  readonly items: ItemMemory
  /** Requests that clients may repeat. */
  readonly repeats: Repeats
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
  /** It is undefined when the operator switched the access log off. */
  readonly access: AccessLog | undefined
  /** It is undefined when the operator switched the request log off. */
  readonly requests: RequestLog | undefined
  /** Stores the contents of calls whose key wants that, where the operator allows it. */
  readonly contents: ContentLog
  /** It is undefined when the operator switched the index of usage off. */
  readonly usage: UsageIndex | undefined
  readonly spending: Spending
  readonly payments: PaymentOrders
  /** It is undefined where customers do not pay. */
  readonly paymentProvider: PaymentProvider | undefined
  /** Gets events while a console watches. */
  readonly events: LiveEvents
  /** Names that clients ask for and that mean no model. */
  readonly unserved: Unserved
  /** It is undefined without configured sinks. */
  readonly sinks: Sinks | undefined
  readonly alerts: Alerts
  /** Distinguishes this gateway from others on the same ledger. */
  readonly gatewayId: string
  readonly log: ConsolaInstance
}

export interface CallerContext {
  readonly id: RequestId
  readonly path: string
  readonly incoming: Incoming
  readonly runtime: Runtime
  /** Names the model that is asked. */
  readonly catalog: Pick<Catalog, 'get'>
  readonly account: Account
  /** It is absent where no call is answered. */
  readonly answer?: {
    readonly flags: Set<UsageFlag>
    reported: Record<string, unknown> | undefined
  }
}
