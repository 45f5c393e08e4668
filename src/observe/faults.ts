/** Errors that reached no call: which code they come from, and whether the process can go on. */
import { sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { logEvent, type EventLog } from './events.ts'
import { LineLimit } from './access-log.ts'
import type { Metrics } from './metrics.ts'

/** The event of Node.js that brought an error. */
export type FaultKind = 'uncaughtException' | 'unhandledRejection'

/** `stop`: code of the gateway was left half-run, so the process has to stop in an orderly way and be started anew. */
export type FaultAction = 'continue' | 'stop'

interface Fault {
  /** Instances of the plugin that threw it; empty if the error comes from elsewhere. */
  readonly instances: readonly string[]
  readonly action: FaultAction
}

interface FaultLog extends Pick<EventLog, 'error' | 'warn'> {
  debug(message: string): void
}

interface FaultsOptions {
  readonly log: FaultLog
  readonly metrics: Pick<Metrics, 'faulted'>
  /** Returns a text without the secrets of the configuration. */
  readonly clean: (text: string) => string
  /** Steady ms. */
  readonly now?: () => number
}

interface Frame {
  readonly file: string
  /** File, line and column. */
  readonly place: string
}

/** Folder of the gateway's own code. */
const CORE = fileURLToPath(new URL('..', import.meta.url))
const FRAME = /^\s+at (?:.* \()?((?:file:\/\/|\/|[A-Za-z]:\\)[^()]*?)(:\d+:\d+)\)?$/gm
const SOCKET = /^(?:ECONNRESET|EPIPE|ETIMEDOUT|ERR_STREAM_\w+)$/
const MESSAGE_LIMIT = 500
/** A plugin with this many exceptions within {@link WINDOW_MS} counts as broken. */
const EXCEPTION_LIMIT = 10
const WINDOW_MS = 60_000

export class Faults {
  readonly #options: FaultsOptions
  readonly #now: () => number
  /** Instances by the file or folder of their plugin. */
  readonly #roots = new Map<string, Set<string>>()
  readonly #exceptions = new Map<string, Recent>()
  /** Lines by event, origin and message, so that a plugin that floods the log hides neither other plugins nor its own other messages. */
  readonly #lines: LineLimit

  constructor(options: FaultsOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
    this.#lines = new LineLimit((count, line) => {
      attempt(() => options.log.warn(`${line} (${count} more within a minute were not logged)`))
    })
  }

  tick(): void {
    this.#lines.tick(this.#now())
  }

  /** Registers a file, or a folder, as code of a plugin. @param instance name of a configured plugin */
  own(path: string, instance: string): void {
    const root = path.endsWith(sep) ? path.slice(0, -1) : path
    const instances = this.#roots.get(root) ?? new Set()
    this.#roots.set(root, instances.add(instance))
  }

  /** Counts and logs an error, and decides what follows from it. */
  report(error: unknown, kind: FaultKind): Fault {
    const { origin, instances, frame } = this.#attribute(error)
    this.#options.metrics.faulted(kind, origin)
    const ofSocket = origin === 'unknown' && SOCKET.test(String(codeOf(error)))
    const action = ofSocket ? 'continue' : this.#actionFor(kind, origin)
    attempt(() => this.#log(ofSocket ? 'warn' : 'error', `${kind} ${origin}`, error, frame))
    return { instances, action }
  }

  /**
   * Logs an error that a plugin threw in place of an answer or a failure.
   * @param use name of the plugin. @param instance its name in the configuration
   * @param quotes whether its message may quote what a client said; it is left out then
   */
  caught(error: unknown, use: string, instance: string, quotes = false): void {
    const { log, clean } = this.#options
    const { name, message } = detailsOf(error)
    const text = clean(message).replaceAll(/\s+/g, ' ').slice(0, MESSAGE_LIMIT)
    const line = `plugin=${instance} use=${use} error=${name}${quotes ? '' : `: ${text}`}`
    if (!this.#lines.admits(line, this.#now())) return
    const frame = [...framesOf(error)].find(({ file }) => {
      const owners = this.#instancesOf(file)
      return typeof owners === 'object' && owners.has(instance)
    })
    attempt(() => log.error(frame ? `${line} at=${frame.place}` : line))
  }

  /** Logs a warning, at most ten times a minute. @param subject what such warnings have in common. @param line what is logged */
  warn(subject: string, line: string): void {
    if (this.#lines.admits(subject, this.#now())) attempt(() => this.#options.log.warn(line))
  }

  #actionFor(kind: FaultKind, origin: string): FaultAction {
    // A rejected promise leaves no half-run synchronous code behind, and its call still ends by its deadline.
    if (kind === 'unhandledRejection') return 'continue'
    if (!origin.startsWith('plugin:')) return 'stop'
    const recent = this.#exceptions.get(origin) ?? new Recent()
    this.#exceptions.set(origin, recent)
    return recent.count(this.#now()) < EXCEPTION_LIMIT ? 'continue' : 'stop'
  }

  /** Finds the origin of an error: the first frame in a file of the gateway or of a plugin decides. */
  #attribute(error: unknown): {
    readonly origin: string
    readonly instances: readonly string[]
    readonly frame?: Frame
  } {
    for (const frame of framesOf(error)) {
      const instances = this.#instancesOf(frame.file)
      if (instances === CORE) return { origin: 'core', instances: [], frame }
      if (instances)
        return { origin: `plugin:${[...instances].join(',')}`, instances: [...instances], frame }
    }
    return { origin: 'unknown', instances: [] }
  }

  /** Instances of the longest root that holds the file; packages below it are not its code. */
  #instancesOf(file: string): ReadonlySet<string> | typeof CORE | undefined {
    let [root, owners]: [string, ReadonlySet<string> | typeof CORE | undefined] = ['', undefined]
    if (file.startsWith(CORE)) [root, owners] = [CORE.slice(0, -1), CORE]
    for (const [path, instances] of this.#roots) {
      const holds = file === path || file.startsWith(path + sep)
      if (holds && path.length > root.length) [root, owners] = [path, instances]
    }
    return file.slice(root.length).split(sep).includes('node_modules') ? undefined : owners
  }

  #log(level: 'error' | 'warn', what: string, error: unknown, frame: Frame | undefined): void {
    const { log, clean } = this.#options
    const { name, message, stack } = detailsOf(error)
    const text = clean(message).replaceAll(/\s+/g, ' ').slice(0, MESSAGE_LIMIT)
    const line = `${what}: ${name}: ${text}`
    if (!this.#lines.admits(line, this.#now())) return
    logEvent(log, level, {
      event: 'fault',
      message: frame ? `${line} at ${frame.place}` : line,
      members: { error: { name, message: text, stack: stack && framesIn(clean(stack)) } },
    })
    if (stack) log.debug(clean(stack))
  }
}

/** Counts what happened within the last {@link WINDOW_MS}. */
class Recent {
  #since = -Infinity
  #count = 0

  /** @returns the number in this window, with the new one */
  count(now: number): number {
    if (now - this.#since >= WINDOW_MS) [this.#since, this.#count] = [now, 0]
    return ++this.#count
  }
}

/** Logs. A log that cannot be written must not end the process in the middle of its calls. */
function attempt(log: () => void): void {
  try {
    log()
  } catch {
    // The fault has been counted.
  }
}

function* framesOf(error: unknown): Generator<Frame> {
  const { stack } = detailsOf(error)
  for (const [, location = '', position = ''] of (stack ?? '').matchAll(FRAME)) {
    const file = location.startsWith('file://')
      ? fileURLToPath(location.split('?', 1)[0]!)
      : location
    yield { file, place: file + position }
  }
}

/** Reads an error whose members may throw, or a thrown value that is not an error. */
function detailsOf(error: unknown): { name: string; message: string; stack?: string } {
  try {
    if (!(error instanceof Error)) return { name: 'Error', message: String(error) }
    const { name, message, stack } = error
    return {
      name: String(name),
      message: String(message),
      ...(typeof stack === 'string' && { stack }),
    }
  } catch {
    return { name: 'Error', message: 'a value that cannot be shown' }
  }
}

/** The lines of a stack with places in code: the message before them may be long. */
function framesIn(stack: string): string {
  return stack
    .split('\n')
    .filter((line) => /^\s+at /.test(line))
    .join('\n')
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
