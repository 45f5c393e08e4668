/** Which configuration calls get, and the end of configurations that were replaced. */
import { isDeepStrictEqual } from 'node:util'
import type { LoadedConfig } from '../config/config.ts'
import type { Call, Runtime } from '../pipeline/pipeline.ts'
import { RunningCalls } from '../pipeline/running-calls.ts'
import { completable, useOwnToken } from './admin-token.ts'
import { tellOfPrices } from './alert-findings.ts'
import { assemble, type Assembled } from './assemble.ts'
import { warnOfRestart } from './restart-settings.ts'
import { secretsOf, type Shared } from './shared.ts'

/** A configuration whose plugins are set up. Its owner calls one of these. */
export interface PreparedConfig {
  /** Calls that come from now on use it. */
  use(): void
  /** Closes its plugins. */
  discard(): Promise<void>
}

/** The snapshot of one configuration, with the number of calls that use it. */
interface Generation {
  readonly loaded: LoadedConfig
  readonly runtime: Runtime
  calls: number
  close(): Promise<void>
}

/** The configurations of one gateway. Its owner calls `begin` before anything else, and `close` at the end. */
export class Generations {
  /** Calls under way, of all configurations. */
  readonly running = new RunningCalls()
  readonly #retired = new Set<Generation>()
  readonly #closing = new Set<Promise<void>>()
  #shared!: Shared
  #token: string | undefined
  #current!: Generation

  /**
   * Takes the first configuration.
   * @param assembled what it has set up @param token the gateway's own admin token, if it has one
   */
  begin(loaded: LoadedConfig, assembled: Assembled, shared: Shared, token?: string): void {
    this.#shared = shared
    this.#token = token
    this.#current = this.#generationOf(loaded, assembled)
    shared.metrics.guard.circuits = this.runtime.guards.circuits
  }

  /** The current snapshot. */
  get runtime(): Runtime {
    return this.#current.runtime
  }

  /** The current configuration as it was read. */
  get loaded(): LoadedConfig {
    return this.#current.loaded
  }

  /** Adds a call to the running ones until it ends. */
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

  /** Sets up what a configuration names. @throws ConfigError */
  async prepare(read: LoadedConfig): Promise<PreparedConfig> {
    const next = completable(read)
    useOwnToken(next.config, this.#token)
    // Calls of the configuration before may still fail.
    this.#shared.mask.use([...secretsOf(this.loaded), ...secretsOf(next)])
    const fresh = this.#generationOf(next, await assemble(next, this.#shared))
    return { use: () => this.#replaceBy(fresh), discard: () => fresh.close() }
  }

  /** Replaces the configuration. @throws ConfigError without having changed anything */
  async reload(next: LoadedConfig): Promise<void> {
    const { log, config } = this.runtime
    ;(await this.prepare(next)).use()
    warnOfRestart(log, config, next.config)
  }

  /** Closes the plugins of all configurations. */
  async close(): Promise<void> {
    const open = [...this.#retired, this.#current].map((one) => one.close())
    await Promise.all([...this.#closing, ...open])
  }

  #generationOf(loaded: LoadedConfig, { own, close }: Assembled): Generation {
    const usage = own.config.log.usage ? this.#shared.usage : undefined
    return { loaded, runtime: { ...this.#shared, ...own, usage }, calls: 0, close }
  }

  #replaceBy(fresh: Generation): void {
    const old = this.#current
    const { accounts, routing, metrics } = this.#shared
    this.#current = fresh
    metrics.guard.circuits = fresh.runtime.guards.circuits
    tellOfPrices(old.runtime, fresh.runtime)
    accounts.refresh()
    const [before, after] = [old.runtime.config.providers, fresh.runtime.config.providers]
    routing.retain(fresh.runtime.catalog, (provider) =>
      isDeepStrictEqual(before[provider], after[provider]),
    )
    this.#retired.add(old)
    if (old.calls === 0) this.#retire(old)
  }

  /** Closes a generation in the background: its plugins may take their time. */
  #retire(old: Generation): void {
    this.#retired.delete(old)
    const done = old.close().finally(() => this.#closing.delete(done))
    this.#closing.add(done)
  }
}
