/** Files of an import: reads those of the other program, writes those of the gateway. */
import { randomBytes } from 'node:crypto'
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { stringifyYAML } from 'confbox/yaml'
import { UnreadableSource } from '../../import/source.ts'
import { PRICE_LIST_FILE } from '../../models/price-list.ts'
import { CommandError } from '../command.ts'

/** Larger files are no configuration and no table of keys. */
const MAX_BYTES = 256 * 1024 * 1024
const SECRET_MODE = 0o600
const TOKEN = 'SLUICEGATE_ADMIN_TOKEN'
const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a folder',
  EACCES: 'it may not be read',
}

/** The text of a file. @throws CommandError that names the file */
export async function readText(file: string): Promise<string> {
  try {
    const { size } = await stat(file)
    if (size <= MAX_BYTES) return await readFile(file, 'utf8')
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    return unreadable(file, REASONS[code] ?? `it cannot be read (${code})`)
  }
  return unreadable(file, 'it is larger than 256 MiB')
}

/**
 * What a file holds.
 * @param read makes it of the text
 * @throws CommandError that names the file and shows nothing of its content
 */
export async function readSource<Content>(
  file: string,
  read: (text: string) => Content,
): Promise<Content> {
  const text = await readText(file)
  return readable(file, () => read(text))
}

/**
 * Runs what makes sense of files that were read.
 * @param file what a message begins with; undefined where the message names a file itself
 * @throws CommandError in place of an error that is about their content
 */
export function readable<Content>(file: string | undefined, read: () => Content): Content {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof UnreadableSource || error instanceof TypeError)) throw error
    return unreadable(file, error.message)
  }
}

function unreadable(file: string | undefined, reason: string): never {
  const what = file === undefined ? reason : `${file} cannot be imported: ${reason}`
  throw new CommandError(`${what}. Nothing was written.`)
}

/** Files of a gateway. */
interface GatewayFiles {
  readonly config: object
  readonly models: object
  /** Secrets by variable. */
  readonly env: ReadonlyMap<string, string>
  /** Content of the price list; without it none is written. */
  readonly prices: string | undefined
}

/**
 * Writes them into a folder, with a new admin token; all or none.
 * @returns their paths
 * @throws CommandError if one of them exists or cannot be written
 */
export async function writeFiles(folder: string, files: GatewayFiles): Promise<string[]> {
  const env = new Map([[TOKEN, randomBytes(24).toString('base64url')], ...files.env])
  const contents = [
    ['.env', [...env].map(([name, value]) => `${name}=${quoted(value)}\n`).join(''), SECRET_MODE],
    ['models.yaml', yaml('Models by id, see docs/models-and-prices.md.', files.models), 0o644],
    ...(files.prices === undefined ? [] : [[PRICE_LIST_FILE, files.prices, 0o644] as const]),
    [
      'gateway.config.yaml',
      yaml('Every member is described in docs/configuration.md.', files.config),
      0o644,
    ],
  ] as const
  const written: string[] = []
  let made: string | undefined
  try {
    made = await mkdir(folder, { recursive: true })
    for (const [name, text, mode] of contents) {
      const path = join(folder, name)
      await writeFile(path, text, { flag: 'wx', mode })
      written.push(path)
    }
    return written
  } catch (error) {
    await Promise.all(written.map((path) => rm(path, { force: true })))
    // The folders that were made for it are empty again.
    if (made !== undefined) await rm(made, { recursive: true, force: true })
    const { code, path } = error as NodeJS.ErrnoException
    const reason =
      code === 'EEXIST' ? `${path} exists already; choose another folder` : `${path}: ${code}`
    throw new CommandError(`Nothing was written: ${reason}.`)
  }
}

function yaml(comment: string, value: object): string {
  const text = stringifyYAML(value, { lineWidth: -1, noRefs: true })
  return `# ${comment}\n${text.trimEnd()}\n`
}

/** A value as `.env` files have it. */
function quoted(value: string): string {
  if (/^[\w.:/@+=-]*$/.test(value)) return value
  const quote = ["'", '`', '"'].find((one) => !value.includes(one))
  if (quote === undefined || (quote === '"' && /\\/.test(value))) {
    throw new CommandError('A secret has all three kinds of quotes, which no .env file can hold.')
  }
  return quote + value + quote
}
