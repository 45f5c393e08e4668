/** Messages of the log as lines of JSON, for `log.format: json`. */
import { formatWithOptions } from 'node:util'
import type { ConsolaReporter, LogObject } from 'consola'

const WARN = 1
/** Event name of lines without a name of their own. */
const UNNAMED = 'message'

/** Writes one JSON object per message: warnings and errors to standard error, the rest to standard output. */
export const jsonReporter: ConsolaReporter = {
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
