/** Files of an import: reads those of the other program, writes those of the gateway. */
import { randomBytes } from 'node:crypto'
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { stringifyYAML } from 'confbox/yaml'
import { UnreadableSource } from '../../import/source.ts'
import { CommandError } from '../command.ts'

/** Larger files are no configuration and no table of keys. */
const MAX_BYTES = 256 * 1024 * 1024
const SECRET_MODE = 0o600
const TOKEN = 'SLUICEGATE_ADMIN_TOKEN'
/** Holds models that wait for a price. A gateway does not read it. */
export const UNPRICED_FILE = 'models.unpriced.yaml'

/**
 * What a file holds.
 * @param read makes it of the text
 * @throws CommandError that names the file and shows nothing of its content
 */
export async function readSource<Content>(
  file: string,
  read: (text: string, name: string) => Content,
): Promise<Content> {
  try {
    const { size } = await stat(file)
    if (size > MAX_BYTES) throw new UnreadableSource('it is larger than 256 MiB')
    return read(await readFile(file, 'utf8'), file)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (!(error instanceof UnreadableSource || error instanceof TypeError) && !code) throw error
    throw new CommandError(`${file} cannot be imported: ${code ?? message}. Nothing was written.`)
  }
}

const UNPRICED =
  'Not served, because no price is known. Give each "pricing", and move it to models.yaml.'

/** Files of a gateway. */
interface GatewayFiles {
  readonly config: object
  readonly models: object
  /** Models without a price; their file is written if there is one. */
  readonly unpriced: object
  /** Secrets by variable. */
  readonly env: ReadonlyMap<string, string>
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
    ...(Object.keys(files.unpriced).length === 0
      ? []
      : [[UNPRICED_FILE, yaml(UNPRICED, files.unpriced), 0o644] as const]),
    [
      'gateway.config.yaml',
      yaml('Every member is described in docs/configuration.md.', files.config),
      0o644,
    ],
  ] as const
  const written: string[] = []
  try {
    await mkdir(folder, { recursive: true })
    for (const [name, text, mode] of contents) {
      const path = join(folder, name)
      await writeFile(path, text, { flag: 'wx', mode })
      written.push(path)
    }
    return written
  } catch (error) {
    await Promise.all(written.map((path) => rm(path, { force: true })))
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
