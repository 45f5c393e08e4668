/** Messages of the log as lines of JSON, for `log.format: json`. */
import { formatWithOptions } from 'node:util'
import type { ConsolaReporter } from 'consola'

/** consola's level of warnings; errors are below it. */
const WARN = 1

/** Writes one JSON object per message: warnings and errors to standard error, the rest to standard output. */
export const jsonReporter: ConsolaReporter = {
  log({ date, level, type, tag, args }) {
    const message = formatWithOptions({ colors: false }, ...args)
    const line = { at: date.toISOString(), level: type, ...(tag && { plugin: tag }), message }
    const stream = level <= WARN ? process.stderr : process.stdout
    stream.write(`${JSON.stringify(line)}\n`)
  },
}
