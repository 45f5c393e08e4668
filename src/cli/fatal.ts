/** The error that ends a gateway, as its last line: for a person, or as JSON among lines of JSON. */
import { RemoteError } from '../threads/channel.ts'
import { ConfigError, LostState, type ConfigIssue } from '../errors/errors.ts'
import { CommandError } from './command.ts'
import { width, wrapped } from './output.ts'

/** EX_IOERR of sysexits.h. */
const UNBOOKED = 74
/** The variable that shows where an unexpected error comes from. */
const LEVEL = 'SLUICEGATE__LOG__LEVEL'

/** Whether the last line is JSON. Before the configuration is read, its variable decides. */
export const lastLine = { isJson: false }

export function issuesOf(error: unknown): readonly ConfigIssue[] {
  if (error instanceof ConfigError) return error.issues
  return error instanceof RemoteError ? (error.failure.issues ?? []) : []
}

/** The line of an error. @param words the text for a person */
export function fatalLine(error: unknown, words: string): string {
  if (!lastLine.isJson) return `${words}\n`
  const issues = issuesOf(error)
  const at = new Date().toISOString()
  const line = { at, level: 'fatal', event: 'fatal', message: words }
  return `${JSON.stringify(issues.length > 0 ? { ...line, issues } : line)}\n`
}

/** Prints why the process ends. @param isJson whether its output is JSON @returns its exit status */
export function failed(error: unknown, isJson = false): number {
  const message = inWords(error)
  const members = error instanceof CommandError ? error.members : {}
  const line = `${JSON.stringify({ error: { message, ...members } })}\n`
  process.stderr.write(
    isJson && !lastLine.isJson ? line : fatalLine(error, wrapped(message, width())),
  )
  return statusOf(error)
}

function statusOf(error: unknown): number {
  if (error instanceof CommandError) return error.exitCode
  return error instanceof LostState ? UNBOOKED : 1
}

/** One message, with a stack only for a reader who looks for a fault. */
function inWords(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (['debug', 'trace'].includes(process.env[LEVEL] ?? '')) return error.stack ?? error.message
  const isExpected = [CommandError, ConfigError, LostState].some((kind) => error instanceof kind)
  return isExpected
    ? error.message
    : `${error.message} (${LEVEL}=debug shows where this comes from.)`
}
