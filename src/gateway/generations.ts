import { isDeepStrictEqual } from 'node:util'
import type { Config, LoadedConfig } from '../config/config.ts'
import type { Call, Runtime } from '../pipeline/pipeline.ts'
import { RunningCalls } from '../pipeline/running-calls.ts'
import { completable, useOwnToken } from './admin-token.ts'
import { raisePriceAlerts } from './alert-findings.ts'
import { assemble, type Assembled } from './assemble.ts'
import { secretsOf, type Shared } from './shared.ts'

/** A configuration whose plugins are set up. Its owner calls one of these. */
export interface PreparedConfig {
  /** What serves once it is used. */
  readonly runtime: Runtime
  use(): void
  discard(): Promise<void>
}

/** The snapshot of one configuration, with the number of calls that use it. */
interface Generation {
  readonly loaded: LoadedConfig
  readonly runtime: Runtime
  calls: number
  close(): Promise<void>
}

/** Time between two looks for vendors that are to be asked for their models again, in ms. */
const LOOK_MS = 5000

export class Generations {
  /** Running calls of all configurations. */
  readonly running = new RunningCalls()
  readonly #retired = new Set<Generation>()
  readonly #closing = new Set<Promise<void>>()
  readonly #watchers = new Set<() => void>()
  #shared!: Shared
  #token: string | undefined
  #current!: Generation
  #looking: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined

  /** Sets the first configuration. @param assembled its set-up parts. @param token the gateway's own admin token, if it has one */
  begin(loaded: LoadedConfig, assembled: Assembled, shared: Shared, token?: string): void {
    this.#shared = shared
    this.#token = token
    this.#current = this.#generationOf(loaded, assembled)
    shared.metrics.guard.circuits = this.runtime.guards.circuits
    const look = () => (this.#looking ??= this.#look().finally(() => (this.#looking = undefined)))
    this.#timer = setInterval(look, LOOK_MS).unref()
    void look()
  }

  get runtime(): Runtime {
    return this.#current.runtime
  }

  get loaded(): LoadedConfig {
    return this.#current.loaded
  }

  track(call: Call): void {
    const own = this.#current
    own.calls++
    this.running.add(call)
    call.scope.defer(() => {
      this.running.delete(call)
      own.calls--
      if (own.calls === 0 && this.#retired.has(own)) this.#retire(own)
    })
  }

  /** Sets up the plugins of a configuration. @throws ConfigError */
  async prepare(read: LoadedConfig): Promise<PreparedConfig> {
    const next = completable(read)
    useOwnToken(next.config, this.#token)
    // Calls of the previous configuration may still fail.
    this.#shared.mask.use([...secretsOf(this.loaded), ...secretsOf(next)])
    const fresh = this.#generationOf(next, await assemble(next, this.#shared))
    const use = () => this.#replaceBy(fresh)
    return { runtime: fresh.runtime, use, discard: () => fresh.close() }
  }

  /** Calls a function after each change of the configuration. @returns ends that */
  whenReplaced(watch: () => void): () => void {
    this.#watchers.add(watch)
    return () => void this.#watchers.delete(watch)
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    this.#shared.discovery.close()
    await this.#looking
    const open = [...this.#retired, this.#current].map((one) => one.close())
    await Promise.all([...this.#closing, ...open])
  }

  /** Builds the catalog again where a vendor offers other models than before. Never rejects. */
  async #look(): Promise<void> {
    const { loaded, runtime } = this
    const { discovery, log } = this.#shared
    try {
      if (!(await discovery.look(runtime.config, runtime.providers))) return
      const prepared = await this.prepare(loaded)
      // A configuration that has come meanwhile was built with the same answers.
      if (this.loaded === loaded) prepared.use()
      else await prepared.discard()
    } catch (error) {
      log.error('the models that vendors offer could not be taken over', error)
    }
  }

  #generationOf(loaded: LoadedConfig, { own, close }: Assembled): Generation {
    const usage = own.config.log.usage ? this.#shared.usage : undefined
    return { loaded, runtime: { ...this.#shared, ...own, usage }, calls: 0, close }
  }

  #replaceBy(fresh: Generation): void {
    const old = this.#current
    const { accounts, routing, metrics, spending } = this.#shared
    this.#current = fresh
    metrics.guard.circuits = fresh.runtime.guards.circuits
    raisePriceAlerts(old.runtime, fresh.runtime)
    accounts.refresh()
    const [before, after] = [old.runtime.config, fresh.runtime.config]
    const boundsOf = ({ alerts, prices }: Config) => [alerts.balance, ...Object.keys(prices.lists)]
    if (String(boundsOf(before)) !== String(boundsOf(after))) spending.again()
    routing.retain(fresh.runtime.catalog, (provider) =>
      isDeepStrictEqual(before.providers[provider], after.providers[provider]),
    )
    for (const changed of this.#watchers) changed()
    this.#retired.add(old)
    if (old.calls === 0) this.#retire(old)
  }

  #retire(old: Generation): void {
    this.#retired.delete(old)
    const done = old.close().finally(() => this.#closing.delete(done))
    this.#closing.add(done)
  }
}
