/** Compiled code is kept on disk, because compiling takes most of the start-up time. */
import { existsSync, lstatSync, mkdirSync } from 'node:fs'
import { enableCompileCache } from 'node:module'
import { join, resolve } from 'node:path'

/** Bits of a mode that let others write. */
const OTHERS_WRITE = 0o022

/**
 * Keeps compiled code in `cache` of the data folder, as far as it is known before the configuration is read: `--data`,
 * `SLUICEGATE_DATA`, else `data` with a ledger. A user who can write there can change the program, so a folder that is another
 * user's, or that others can write to, is not used. `NODE_COMPILE_CACHE` is Node's own choice, made before this.
 */
export function useCompileCache(args: readonly string[]): void {
  if (process.env.NODE_COMPILE_CACHE) return
  const chosen = optionOf(args, '--data') ?? process.env.SLUICEGATE_DATA
  const data = resolve(chosen || 'data')
  if (!chosen && !existsSync(join(data, 'ledger.db'))) return
  const cache = join(data, 'cache')
  try {
    if (!isOwn(data)) return
    mkdirSync(cache, { recursive: true, mode: 0o700 })
    if (isOwn(cache)) enableCompileCache(cache)
  } catch {
    // Without a cache the start takes longer.
  }
}

/** Whether a path is a folder, no link, that only this user can write to. @throws Error if there is none */
function isOwn(path: string): boolean {
  const found = lstatSync(path)
  const mine = process.getuid === undefined || found.uid === process.getuid()
  return found.isDirectory() && mine && (found.mode & OTHERS_WRITE) === 0
}

function optionOf(args: readonly string[], name: string): string | undefined {
  const inline = args.find((word) => word.startsWith(`${name}=`))
  if (inline !== undefined) return inline.slice(name.length + 1)
  const at = args.indexOf(name)
  return at < 0 ? undefined : args[at + 1]
}
