/** Reasons for the end of a gateway's process: signals, faults, and the end of the npm that started it. */
import type { ConsolaInstance } from 'consola'
import type { Config } from '../config/config.ts'
import type { FaultAction, FaultKind } from '../observe/faults.ts'
import { logEvent } from '../observe/events.ts'
import { fatalLine } from './fatal.ts'
import { watchParent } from './parent.ts'

export interface StopReason {
  readonly why: string
  readonly status: 0 | 70 | 74
}

interface StopOptions {
  /** Resolves when a resource that the process needs is lost, and the rest can only be closed. */
  readonly lost: Promise<StopReason>
  readonly onFault: (error: unknown, kind: FaultKind) => FaultAction
  /** Handles SIGHUP, unless the output is a terminal that was closed. Without it, signals are left to the caller. */
  readonly onReload?: () => void
}

/** Terminals signal a whole group, and npm signals its child again: signals within this time are one. */
const ONE_SIGNAL_MS = 1000
/** ms after the grace within which the process has to end. */
const LIMIT_MS = 12_000

/** Waits for a reason to stop. Its owner calls {@link Stop.release}. */
export class Stop {
  readonly requested: Promise<StopReason>
  readonly #request: (reason: StopReason) => void
  readonly #hurry = new AbortController()
  readonly #releases: (() => void)[] = []
  /** Steady ms of the last signal that counted. */
  #signalled = -Infinity
  #orders = 0

  constructor({ lost, onFault, onReload }: StopOptions) {
    const { promise, resolve } = Promise.withResolvers<StopReason>()
    this.requested = promise
    this.#request = resolve
    void lost.then(resolve)
    if (onReload) this.#obeySignals(onReload)
    // Without a listener it would end the process, or open a debugger.
    this.#on('SIGUSR1', () => {})
    for (const kind of ['uncaughtException', 'unhandledRejection'] as const) {
      this.#on(kind, (error: unknown) => {
        if (onFault(error, kind) === 'stop') resolve({ why: 'a fault of the program', status: 70 })
      })
    }
  }

  /** Aborted by a second signal: running calls are not awaited any more. */
  get hurry(): AbortSignal {
    return this.#hurry.signal
  }

  /** An order to stop, which is no fault. The second ends the wait for running calls, the third the process. */
  order(why: string): void {
    this.#orders++
    if (this.#orders === 1) this.#request({ why, status: 0 })
    else if (this.#orders === 2) this.#hurry.abort()
    else process.exit(1)
  }

  release(): void {
    for (const release of this.#releases) release()
  }

  #obeySignals(onReload: () => void): void {
    const signal = (name: string) => this.#onSignal(name)
    for (const name of ['SIGINT', 'SIGTERM']) this.#on(name, () => signal(name))
    this.#on('SIGHUP', () => (process.stdout.isTTY ? signal('SIGHUP') : onReload()))
    this.#releases.push(watchParent(() => this.#request({ why: 'npm has ended', status: 0 })))
  }

  #on(event: string, listener: (...args: any[]) => void): void {
    process.on(event, listener)
    this.#releases.push(() => process.off(event, listener))
  }

  #onSignal(why: string): void {
    const now = performance.now()
    if (now - this.#signalled < ONE_SIGNAL_MS) return
    this.#signalled = now
    this.order(why)
  }
}

export function limitStop({ shutdownDelay, shutdownGrace }: Config['server']): void {
  const giveUp = () => {
    const late = new Error('The gateway could not be ended in time.')
    process.stderr.write(fatalLine(late, late.message))
    process.exit(70)
  }
  setTimeout(giveUp, (shutdownDelay + shutdownGrace) * 1000 + LIMIT_MS).unref()
}

export function logWarnings(log: ConsolaInstance): void {
  process.removeAllListeners('warning')
  process.on('warning', ({ name, message }) => {
    logEvent(log, 'warn', { event: 'process.warning', message: `${name}: ${message}` })
  })
}
