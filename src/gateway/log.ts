import { createConsola, type ConsolaInstance, type LogObject } from 'consola/core'
import { formatWithOptions } from 'node:util'
import type { LoadedConfig } from '../config/config.ts'
import { ConfigError, GatewayError, LostState, Unavailable } from '../errors/errors.ts'
import { LineLimit, timeOf } from '../observe/access-log.ts'

export function createLog({ config }: LoadedConfig): ConsolaInstance {
  const { level, format } = config.log
  const print = format === 'json' ? jsonLine : prettyLine
  // The library would hold equal lines back, and tell their number in a form of its own.
  return createConsola({ level: LEVELS[level], throttle: 0, reporters: [bounded(print)] })
}

const LEVELS = { silent: -999, error: 0, warn: 1, info: 3, debug: 4, trace: 5 } as const
const WARN = 1
const DEBUG = 4
const MINUTE_MS = 60_000
const AWAY_MS = 2 * MINUTE_MS
const MOST_SUBJECTS = 100
/** Event name of lines without a name of their own. */
const UNNAMED = 'message'

interface Line {
  readonly date: Date
  readonly level: number
  readonly type: string
  readonly tag: string
  readonly message: string
  readonly event?: unknown
  readonly members?: unknown
  readonly error?: { readonly name: string; readonly message: string; readonly stack?: string }
}

/**
 * Prints each entry as one line: warnings and errors to standard error, the rest to standard output. Ten equal lines a minute are
 * printed, and of those about a state that cannot be reached one in two minutes, with the number of others. Events bound themselves.
 */
function bounded(print: (line: Line) => string) {
  const write = (line: Line) => {
    const stream = line.level <= WARN ? process.stderr : process.stdout
    stream.write(`${print(line)}\n`)
  }
  const equal = new LineLimit((count, text) => {
    const message = `${text} (${count} more within a minute were not logged)`
    write({ date: new Date(), level: WARN, type: 'warn', tag: '', message })
  })
  const away = new AwayLines()
  let ticking: NodeJS.Timeout | undefined
  const tick = () => {
    ticking = undefined
    equal.tick(performance.now())
  }
  return {
    log(entry: LogObject, { options }: { readonly options: { readonly level: number } }): void {
      const line = lineOf(entry, options.level >= DEBUG)
      if (line.event !== undefined) return write(line)
      if (entry.args.some((one) => one instanceof Unavailable)) {
        const message = away.admits(line.message, performance.now())
        return message === undefined ? undefined : write({ ...line, message })
      }
      ticking ??= setTimeout(tick, MINUTE_MS).unref()
      if (equal.admits(line.message, performance.now())) write(line)
    },
  }
}

/** Bounds lines about a state that cannot be reached: every call and every timer may cause one, for as long as that lasts. */
class AwayLines {
  readonly #last = new Map<string, { readonly at: number; more: number }>()

  /** @returns the line with the number of those that were left out before it; undefined where it is left out */
  admits(message: string, now: number): string | undefined {
    const subject = message.replaceAll(/\breq_\w+/g, 'req_…')
    const last = this.#last.get(subject)
    if (last && now - last.at < AWAY_MS) {
      last.more++
      return undefined
    }
    if (this.#last.size >= MOST_SUBJECTS) this.#last.clear()
    this.#last.set(subject, { at: now, more: 0 })
    return last?.more ? `${message} (${last.more} more were not logged)` : message
  }
}

/** @param isDetailed whether every error has its stack */
function lineOf({ date, type, level, tag, args, event, members }: LogObject, isDetailed: boolean) {
  const error = args.find((one) => one instanceof Error)
  const words = args.filter((one) => one !== error || !error)
  const text = formatWithOptions({ colors: false }, ...words)
  const hasStack = error?.stack !== undefined && (isDetailed || !isExpected(error))
  const shown = error && { name: error.name, message: messagesOf(error) }
  return {
    date,
    level,
    type,
    tag,
    message: [...(text ? [text] : []), ...(error ? [messagesOf(error)] : [])].join(': '),
    ...(typeof event === 'string' && { event, members }),
    ...(shown && { error: hasStack ? { ...shown, stack: error.stack! } : shown }),
  }
}

/** Whether an error has a known kind, so that its place in the code tells nothing. */
function isExpected(error: Error): boolean {
  const kinds = [GatewayError, ConfigError, LostState]
  return kinds.some((kind) => error instanceof kind) || 'code' in error
}

/** The message of an error and of its causes, each once. */
export function messagesOf(error: unknown): string {
  const messages = new Set<string>()
  for (let at: unknown = error; at instanceof Error && messages.size < 4; at = at.cause) {
    messages.add(at.message || at.name)
  }
  return messages.size > 0 ? [...messages].join(': ') : String(error)
}

/** Time, level, event and message; then the plugin that logs it, the members of the event, and an error. */
function jsonLine({ date, type, tag, message, event = UNNAMED, members, error }: Line): string {
  return JSON.stringify({
    at: date.toISOString(),
    level: type,
    event,
    message,
    ...(tag && { plugin: tag }),
    ...(typeof members === 'object' && members),
    ...(error && { error }),
  })
}

/** Time (UTC), level if it is not info, plugin and message; what has several lines is joined. */
function prettyLine({ date, type, tag, message, error }: Line): string {
  const level = type === 'info' || type === 'log' ? '' : `${type} `
  const frames = (error?.stack?.split('\n') ?? []).filter((line) => /^ *at /.test(line))
  const text = [message, ...frames].flatMap((one) => one.split('\n')).map((one) => one.trim())
  return `${timeOf(date.toISOString())} ${level}${tag && `${tag}: `}${text.filter(Boolean).join(' | ')}`
}
