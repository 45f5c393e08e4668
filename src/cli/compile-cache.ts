/** Keeps compiled code on disk, because compiling takes most of the start-up time. */
import { existsSync, lstatSync, mkdirSync, readdirSync } from 'node:fs'
import { join, resolve } from 'node:path'

/** Bits of a mode that let others write. */
const OTHERS_WRITE = 0o022

/**
 * The folder for compiled code: `cache` of the data folder, as far as it is known before the configuration is read:
 * `--data`, `SLUICEGATE_DATA`, else `data` with a ledger. A user who can write there can change the program, so a
 * folder that is another user's, or that others can write to, is not used. `NODE_COMPILE_CACHE` is Node's own
 * choice, made before this.
 * @returns undefined where Node has chosen, or nothing is kept
 */
export function compileCacheOf(args: readonly string[]): string | undefined {
  if (process.env.NODE_COMPILE_CACHE) return undefined
  const chosen = optionOf(args, '--data') ?? process.env.SLUICEGATE_DATA
  const data = resolve(chosen || 'data')
  const cache = join(data, 'cache')
  try {
    const isGateways = existsSync(join(data, 'ledger.db'))
    // A folder with files of something else is refused later, and nothing is left in it.
    if (!isGateways && (!chosen || readdirSync(data).length > 0)) return undefined
    if (!isOwn(data)) return undefined
    mkdirSync(cache, { recursive: true, mode: 0o700 })
    return isOwn(cache) ? cache : undefined
  } catch {
    // Without a cache the start takes longer.
    return undefined
  }
}

function isOwn(path: string): boolean {
  const stats = lstatSync(path)
  const mine = process.getuid === undefined || stats.uid === process.getuid()
  return stats.isDirectory() && mine && (stats.mode & OTHERS_WRITE) === 0
}

function optionOf(args: readonly string[], name: string): string | undefined {
  const inline = args.find((word) => word.startsWith(`${name}=`))
  if (inline !== undefined) return inline.slice(name.length + 1)
  const at = args.indexOf(name)
  return at < 0 ? undefined : args[at + 1]
}
