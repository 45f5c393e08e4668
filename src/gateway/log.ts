import { createConsola, type ConsolaInstance, type ConsolaReporter, type LogObject } from 'consola'
import { formatWithOptions } from 'node:util'
import type { LoadedConfig } from '../config/config.ts'

export function createLog({ config }: LoadedConfig): ConsolaInstance {
  const { level, format } = config.log
  const options = { level: LEVELS[level], fancy: format === 'pretty' }
  return createConsola(format === 'json' ? { ...options, reporters: [jsonReporter] } : options)
}

const LEVELS = { silent: -999, error: 0, warn: 1, info: 3, debug: 4, trace: 5 } as const

// Messages of the log as lines of JSON, for `log.format: json`.

const WARN = 1
/** Event name of lines without a name of their own. */
const UNNAMED = 'message'

/** Writes one JSON object per message: warnings and errors to standard error, the rest to standard output. */
const jsonReporter: ConsolaReporter = {
  log(entry) {
    const stream = entry.level <= WARN ? process.stderr : process.stdout
    stream.write(`${JSON.stringify(lineOf(entry))}\n`)
  },
}

/** Time, level, event and message; then the plugin that logs it, the members of the event, and an error. */
function lineOf({ date, type, tag, args, event, members }: LogObject) {
  const error = args.find((one) => one instanceof Error)
  const words = error ? args.map((one) => (one === error ? error.message : one)) : args
  return {
    at: date.toISOString(),
    level: type,
    event: typeof event === 'string' ? event : UNNAMED,
    message: formatWithOptions({ colors: false }, ...words),
    ...(tag && { plugin: tag }),
    ...(typeof members === 'object' && members),
    ...(error && { error: { name: error.name, message: error.message, stack: error.stack } }),
  }
}
