/** The error that ends a gateway, as its last line: for a person, or as JSON among lines of JSON. */
import { ConfigError, type ConfigIssue } from '../errors/errors.ts'

/** Whether it is JSON. Before the configuration is read, its variable decides. */
export const lastLine = { isJson: false }

/** The line of an error. @param words what a person is told */
export function fatalLine(error: unknown, words: string): string {
  if (!lastLine.isJson) return `${words}\n`
  const issues: readonly ConfigIssue[] | undefined =
    error instanceof ConfigError ? error.issues : undefined
  const at = new Date().toISOString()
  return `${JSON.stringify({ at, level: 'fatal', event: 'fatal', message: words, issues })}\n`
}
