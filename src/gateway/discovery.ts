/** Asks vendors for their models, for entries `vendor/*` with `discover`, and remembers their last answers. */
import { isDeepStrictEqual } from 'node:util'
import { VENDORS } from '../../providers/vendors.ts'
import type { Config } from '../config/config.ts'
import { UpstreamFailure } from '../errors/errors.ts'
import { inTime } from '../lifetime/scope.ts'
import { providerOf, readOffers, type Offers } from '../models/offers.ts'
import type { Provider } from '../plugin.ts'

type ProviderSettings = Config['providers'][string]
type Providers = ReadonlyMap<string, Provider>

/** Time that a start waits for a server of the operator's own, in ms. */
const FIRST_MS = 300
/** Time-out of one question, in ms. */
const LIMIT_MS = 15_000
/** Time between two questions, in ms: to servers of the operator's own, and to others. */
const LOCAL_EVERY_MS = 60_000
const EVERY_MS = 3_600_000

/** Profiles of servers that operators run themselves. */
const LOCAL_ROWS: ReadonlySet<unknown> = new Set(
  VENDORS.flatMap(({ local, row }) => (local && row !== undefined ? [row] : [])),
)

/** Whether a provider is a server of the operator's own. */
function isLocal({ options }: Pick<ProviderSettings, 'options'>): boolean {
  return LOCAL_ROWS.has((options as Readonly<Record<string, unknown>>).quirks)
}

/**
 * Asks one vendor for its models.
 * @throws Error whose message tells the operator why there is no answer
 */
export async function askForModels(
  provider: Provider,
  settings: ProviderSettings,
  limitMs = LIMIT_MS,
  closing?: AbortSignal,
): Promise<Offers> {
  const limit = new AbortController()
  const signal = closing ? AbortSignal.any([limit.signal, closing]) : limit.signal
  try {
    const late = () => new Error(`there was no answer within ${limitMs / 1000} seconds`)
    const models = await inTime(provider.models!(signal), limitMs, late)
    return { isLocal: isLocal(settings), models: readOffers(models) }
  } catch (error) {
    throw new Error(reasonOf(error), { cause: error })
  } finally {
    limit.abort()
  }
}

/** The cause of a failure is for the operator, its message for the client. */
function reasonOf(error: unknown): string {
  if (!UpstreamFailure.is(error)) return error instanceof Error ? error.message : String(error)
  const { cause, failure } = error
  const why = cause instanceof Error ? cause.message : error.message
  const sentence = SENTENCES[failure]
  return sentence === undefined ? why : `${sentence} (${why})`
}

const SENTENCES: Readonly<Record<string, string>> = {
  upstream_auth: 'it refused the key, which may be wrong or expired',
  upstream_balance: 'the account has no credit',
  upstream_rate: 'it was asked too often',
  overloaded: 'it is overloaded',
  timeout: 'there was no answer in time',
  not_found: 'there is no list of models at its address',
}

interface Answer {
  /** The settings with which it was asked: an answer of another address or key counts no more. */
  readonly settings: ProviderSettings
  /** The last answer; undefined where there was none. */
  offers: Offers | undefined
  /** When it is asked again, by `performance.now()`. */
  dueAt: number
  /** Why it did not answer the last time. */
  failure?: string
}

export class Discovery {
  readonly #answers = new Map<string, Answer>()
  readonly #closing = new AbortController()
  readonly #warn: (message: string) => void

  /** @param warn gets a sentence about each question that a vendor does not answer */
  constructor(warn: (message: string) => void) {
    this.#warn = warn
  }

  /** Ends the questions that are on their way. */
  close(): void {
    this.#closing.abort()
  }

  /** The last answer of a provider with these settings. */
  offersOf(config: Config): (provider: string) => Offers | undefined {
    return (name) => {
      const answer = this.#answers.get(name)
      const settings = config.providers[name]
      return answer && isDeepStrictEqual(answer.settings, settings) ? answer.offers : undefined
    }
  }

  /** Waits for a moment for the servers of the operator's own that have not been asked. */
  async begin(config: Config, providers: Providers): Promise<void> {
    const unasked = discoverable(config, providers).filter(
      ([name, settings]) => isLocal(settings) && this.#isDue(name, settings, -Infinity),
    )
    const some = unasked.map(([name, settings, provider]) =>
      this.#ask(name, settings, provider, FIRST_MS),
    )
    await Promise.all(some)
  }

  /** Asks those whose time has come. @returns whether one of them offers other models than before */
  async look(config: Config, providers: Providers): Promise<boolean> {
    const now = performance.now()
    const due = discoverable(config, providers).filter(([name, settings]) =>
      this.#isDue(name, settings, now),
    )
    const changes = await Promise.all(
      due.map(([name, settings, provider]) => this.#ask(name, settings, provider, LIMIT_MS)),
    )
    return changes.includes(true)
  }

  #isDue(name: string, settings: ProviderSettings, now: number): boolean {
    const answer = this.#answers.get(name)
    return !answer || !isDeepStrictEqual(answer.settings, settings) || answer.dueAt <= now
  }

  async #ask(
    name: string,
    settings: ProviderSettings,
    provider: Provider,
    limitMs: number,
  ): Promise<boolean> {
    const last = this.#answers.get(name)
    const before = last && isDeepStrictEqual(last.settings, settings) ? last.offers : undefined
    const everyMs = isLocal(settings) ? LOCAL_EVERY_MS : EVERY_MS
    const answer: Answer = { settings, offers: before, dueAt: performance.now() + everyMs }
    this.#answers.set(name, answer)
    try {
      answer.offers = await askForModels(provider, settings, limitMs, this.#closing.signal)
    } catch (error) {
      if (this.#closing.signal.aborted) return false
      if (limitMs === FIRST_MS) {
        // A start does not wait for a slow server; it is asked again soon.
        answer.dueAt = performance.now()
      } else {
        answer.failure = (error as Error).message
        // A server that is away for a day is reported once.
        if (answer.failure !== last?.failure)
          this.#warn(`${name} did not name its models: ${answer.failure}`)
      }
    }
    return !isDeepStrictEqual(before?.models, answer.offers?.models)
  }
}

/** The providers of wildcards with `discover` that can be asked. */
function discoverable(
  { wildcards = {}, providers: configured }: Config,
  providers: Providers,
): (readonly [name: string, settings: ProviderSettings, provider: Provider])[] {
  const names = Object.entries(wildcards).flatMap(([id, wildcard]) =>
    wildcard.enabled && wildcard.discover ? [providerOf(id, wildcard)] : [],
  )
  return [...new Set(names)].flatMap((name) => {
    const [provider, settings] = [providers.get(name), configured[name]]
    return provider?.models && settings ? [[name, settings, provider] as const] : []
  })
}
