/** Programs that check what is shipped; `tools.sh` installs them. */
import { execFile, type ExecFileException } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { delimiter, join, resolve } from 'node:path'
import { describe } from 'vitest'

export const ROOT = resolve(import.meta.dirname, '../..')
export const DEPLOY = join(ROOT, 'config/deploy')

const TOOLS = join(ROOT, 'node_modules/.cache/deploy-tools')
const FOLDERS = [
  join(TOOLS, 'bin'),
  join(TOOLS, 'venv/bin'),
  ...(process.env.PATH ?? '').split(delimiter),
  '/usr/sbin',
]

/** The path of a program; undefined where it is not installed. @throws Error on a machine that decides, where it has to be */
function find(name: string): string | undefined {
  const path = FOLDERS.map((folder) => join(folder, name)).find((one) => {
    try {
      accessSync(one, constants.X_OK)
      return true
    } catch {
      return false
    }
  })
  if (path === undefined && process.env.CI === 'true') {
    throw new Error(`${name} is missing: run test/deploy/tools.sh`)
  }
  return path
}

/** Programs that `tools.sh` can install only where there is Go. */
const BY_GO = new Set(['helm', 'actionlint'])

/** Tests that need a program. Without it they are skipped, which their title and standard error say. */
export function withTool(name: string, tests: (path: string) => void): void {
  const path = find(name)
  if (path !== undefined) {
    describe(name, () => tests(path))
    return
  }
  const remedy = BY_GO.has(name)
    ? 'install Go, then run test/deploy/tools.sh'
    : 'run test/deploy/tools.sh'
  const skipped = `SKIPPED, because ${name} is missing: ${remedy}`
  process.stderr.write(`${skipped}\n`)
  describe.skip(skipped, () => tests(name))
}

/** The end of a program, and what it has printed. */
export function runTool(
  path: string,
  args: readonly string[],
): Promise<{ readonly code: number; readonly out: string; readonly err: string }> {
  return new Promise((done) => {
    execFile(path, args, { cwd: ROOT, maxBuffer: 2 ** 26 }, (error, out, err) => {
      const { code } = (error ?? { code: 0 }) as ExecFileException
      done({ code: typeof code === 'number' ? code : 1, out, err })
    })
  })
}
