/** Reasons for the end of a gateway's process: signals, faults, and the end of the npm that started it. */
import type { ConsolaInstance } from 'consola'
import { readFileSync } from 'node:fs'
import type { Config } from '../config/config.ts'
import type { FaultAction, FaultKind } from '../observe/faults.ts'
import { logEvent } from '../observe/events.ts'
import type { Closed } from '../server/server.ts'
import { fatalLine } from './fatal.ts'

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
/** What closing takes at most once settlements are not sent any more. */
const CLOSE_MS = 5000

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

  /** It is aborted by a second signal: running calls are not awaited any more. */
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

/**
 * Ends the process where its stop takes too long.
 * @param hurry see {@link Stop.hurry}. @returns how long settlements that wait may be sent again
 */
export function limitStop(
  { shutdownDelay, shutdownGrace }: Config['server'],
  hurry: AbortSignal,
): AbortSignal {
  const limitMs = (shutdownDelay + shutdownGrace) * 1000 + LIMIT_MS
  const giveUp = () => {
    const late = new Error('The gateway could not be ended in time.')
    process.stderr.write(fatalLine(late, late.message))
    process.exit(70)
  }
  setTimeout(giveUp, limitMs).unref()
  return AbortSignal.any([hurry, AbortSignal.timeout(limitMs - CLOSE_MS)])
}

/** Begins to measure a stop. @returns logs the end of it */
export function stopTeller(log: ConsolaInstance): (calls: Closed) => void {
  const begin = performance.now()
  return ({ ended, cut }) => {
    const ms = Math.round(performance.now() - begin)
    logEvent(log, 'info', {
      event: 'stopped',
      message: `stopped: ${ended} calls ended, ${cut} cut, ${(ms / 1000).toFixed(1)} s`,
      members: { ended, cut, ms },
    })
  }
}

export function logWarnings(log: ConsolaInstance): void {
  process.removeAllListeners('warning')
  process.on('warning', ({ name, message }) => {
    logEvent(log, 'warn', { event: 'process.warning', message: `${name}: ${message}` })
  })
}

// The npm that started this process, which may end without a signal for it: npm passes no SIGTERM on.

const LOOK_MS = 1000

/** A process, not to be confused with a later one of the same number. */
interface Identity {
  readonly pid: number
  readonly started: string
}

/**
 * Calls back once when the npm above this process has ended. Does nothing for a process that npm did not start.
 * @returns ends the watch
 */
function watchParent(onGone: () => void): () => void {
  if (process.env.npm_execpath === undefined) return () => {}
  const isAlive = npmAbove() ?? sameParent()
  const timer = setInterval(() => {
    if (isAlive()) return
    clearInterval(timer)
    onGone()
  }, LOOK_MS)
  timer.unref()
  return () => clearInterval(timer)
}

/** Whether the next npm above this process lives; undefined where there is none, or no `/proc`. */
function npmAbove(): (() => boolean) | undefined {
  for (let pid = process.ppid; pid > 1;) {
    const status = statusOf(pid)
    if (!status) return undefined
    const npm = { pid, started: status.started }
    if (isNpm(pid)) return () => lives(npm)
    pid = status.parent
  }
  return undefined
}

function lives({ pid, started }: Identity): boolean {
  return statusOf(pid)?.started === started
}

function sameParent(): () => boolean {
  const parent = process.ppid
  return () => process.ppid === parent
}

/** Parent and start time of a process (proc_pid_stat(5), fields 4 and 22); undefined after its end. */
function statusOf(pid: number): { readonly parent: number; readonly started: string } | undefined {
  const text = read(`/proc/${pid}/stat`)
  if (text === undefined) return undefined
  // The name in the second field may hold blanks and parentheses.
  const [state, parent, ...fields] = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return state === 'Z' ? undefined : { parent: Number(parent), started: fields[17] ?? '' }
}

/**
 * Whether npm runs a process. It names its process after what it runs, such as "npm start"; before that, its script
 * is among the arguments.
 */
function isNpm(pid: number): boolean {
  const words = (read(`/proc/${pid}/cmdline`) ?? '').split(/[\0 ]/)
  return words.some((word) => /(?:^|[/\\])np[mx](?:-cli\.js)?$/.test(word))
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}
