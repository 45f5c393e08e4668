/** The place of an error in the code of a plugin, as lines for its author. */
import { readFileSync } from 'node:fs'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'

interface Frame {
  /** The function; empty at the top of a module. */
  readonly name: string
  readonly file: string
  readonly line: number
  readonly column: number
}

const FRAME = /^ *at (?:(?:async )?(.*?) \()?((?:file:\/\/)?\/[^()]*?):(\d+):(\d+)\)?$/

/** The innermost place of a stack in a folder; undefined for an error from elsewhere. */
export function frameIn(stack: string | undefined, folder: string): Frame | undefined {
  for (const one of stack?.split('\n') ?? []) {
    const [, name = '', path, line, column] = FRAME.exec(one) ?? []
    if (path === undefined || !one.includes(folder)) continue
    const file = path.startsWith('file:') ? fileURLToPath(path) : path
    return { name, file, line: Number(line), column: Number(column) }
  }
  return undefined
}

/**
 * The line of the code with a mark below its column, and its place. Empty for an error from elsewhere.
 * @param wholeStack whether the functions around it are included
 */
export function placeIn(error: unknown, folder: string, wholeStack = false): string[] {
  const stack = error instanceof Error ? error.stack : undefined
  const frame = frameIn(stack, folder)
  const frames = wholeStack ? (stack?.split('\n').filter((one) => FRAME.test(one)) ?? []) : []
  if (!frame) return frames
  const { name, file, line, column } = frame
  const code = lineOf(file, line)
  const number = `${line} |`.padStart(8)
  const marked =
    code === undefined
      ? []
      : [`${number} ${code}`, `${' '.repeat(number.length)} ${' '.repeat(column - 1)}^`]
  const at = `    at ${name || 'the module'} (${relative(folder, file)}:${line}:${column})`
  return [...marked, at, ...frames]
}

function lineOf(file: string, line: number): string | undefined {
  try {
    return readFileSync(file, 'utf8').split('\n')[line - 1]
  } catch {
    return undefined
  }
}
