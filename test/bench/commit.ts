/** Another commit, with which the bench compares. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { builtIn, ROOT, type Program } from './systems.ts'

/** What this word stands for: the commit that landed last. */
export const LAST = 'last'

/** Runs a command to its end. @throws Error with what it wrote, if it fails */
export function run(command: string, args: readonly string[], cwd = ROOT): string {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8' })
  if (status === 0) return stdout.trim()
  throw new Error(`${command} ${args.join(' ')}: ${`${stderr ?? ''}${stdout ?? ''}`.trim()}`)
}

/** A folder that is gone when the bench ends. */
function temporaryFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), name))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/**
 * Another commit, built in a checkout of its own with the packages of this one. @throws Error where there is no such commit, or
 * it cannot be built
 */
export function otherCommit(commit: string): Program {
  const hash = commit === LAST ? lastLanded() : run('git', ['rev-parse', `${commit}^{commit}`])
  const folder = join(temporaryFolder('gateway-bench-commit-'), 'checkout')
  process.on('exit', () =>
    spawnSync('git', ['worktree', 'remove', '--force', folder], { cwd: ROOT }),
  )
  run('git', ['worktree', 'add', '--detach', folder, hash])
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  run('npm', ['run', 'build'], folder)
  return builtIn(folder, hash.slice(0, 8))
}

/**
 * Where this checkout leaves the main branch of its origin; where it is that branch, or there is no origin, the commit before.
 */
function lastLanded(): string {
  const head = run('git', ['rev-parse', 'HEAD'])
  const { status, stdout } = spawnSync('git', ['merge-base', 'origin/main', 'HEAD'], { cwd: ROOT })
  const base = status === 0 ? String(stdout).trim() : head
  return base === head ? run('git', ['rev-parse', '--verify', 'HEAD~1^{commit}']) : base
}
