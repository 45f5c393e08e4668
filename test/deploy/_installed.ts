/**
 * The package as users get it, made once for all files of this folder: packed from a clean copy of the repository, installed
 * by a user without rights into an empty folder; its modules are then root's and without write bits.
 */
import { execFile } from 'node:child_process'
import { hash } from 'node:crypto'
import {
  chmod,
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rm,
  symlink,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import type { TestProject } from 'vitest/node'

/** Where the parts are; all of it is gone after the run. */
export interface Installed {
  /** The tarball. */
  readonly tarball: string
  /** SHA-512 of two tarballs that were made one after the other. */
  readonly sums: readonly string[]
  /** The project with the package installed, of the unprivileged user. */
  readonly project: string
  /** The modules of the project as they were installed, in a folder that no test changes. */
  readonly modules: string
  /** A cache of npm that the unprivileged user can write to. */
  readonly cache: string
}

declare module 'vitest' {
  interface ProvidedContext {
    installed: Installed
  }
}

/** The user of images and tests, which no machine has: nothing is owned by it. */
export const USER = 65_532

const ROOT = resolve(import.meta.dirname, '../..')
const exec = promisify(execFile)
/** Belongs to a checkout and not to its commit. */
const LOCAL = new Set(['node_modules', 'dist', '.git', 'data', '.env', 'sbom.json'])

export default async function setup({ provide }: TestProject): Promise<() => Promise<void>> {
  const temporary = await realpath(await mkdtemp(join(tmpdir(), 'gateway-deploy-')))
  await chmod(temporary, 0o755)
  const [project, cache] = [join(temporary, 'project'), join(temporary, 'cache')]
  for (const path of [project, cache]) await mkdir(path)
  const tarball = await pack(join(temporary, 'copy'), temporary)
  await own([project, cache])
  // The second one is packed while the first is installed.
  const [again] = await Promise.all([
    pack(join(temporary, 'copy-2'), join(temporary, 'copy-2')),
    install(project, cache, tarball),
  ])
  const sums = await Promise.all(
    [tarball, again].map(async (path) => hash('sha512', await readFile(path), 'hex')),
  )
  const modules = join(project, 'node_modules')
  if (process.getuid?.() === 0) await exec('chown', ['-R', '0:0', modules])
  await exec('chmod', ['-R', 'a-w', modules])
  // Tests of the project install anew, which also changes owners and modes.
  const fixed = join(temporary, 'node_modules')
  await exec('cp', ['-a', modules, fixed])
  provide('installed', { tarball, sums, project, modules: fixed, cache })
  return async () => {
    await exec('chmod', ['-R', 'u+w', project, fixed])
    await rm(temporary, { recursive: true, force: true })
  }
}

async function install(project: string, cache: string, tarball: string): Promise<void> {
  await asUser(project, cache, 'npm', 'init', '-y')
  await asUser(project, cache, 'npm', 'install', '--ignore-scripts', tarball)
}

/** A clean copy of the repository, packed. @returns the tarball */
async function pack(copy: string, target: string): Promise<string> {
  await mkdir(copy)
  for (const name of await readdir(ROOT)) {
    if (!LOCAL.has(name)) await cp(join(ROOT, name), join(copy, name), { recursive: true })
  }
  await symlink(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
  const { stdout } = await exec('npm', ['pack', '--json', '--pack-destination', target], {
    cwd: copy,
    env: environment(),
    maxBuffer: 2 ** 24,
  })
  const [{ filename }] = JSON.parse(stdout.slice(stdout.indexOf('[\n')))
  return join(target, filename)
}

/** The words of a command as the unprivileged user; as they are where this process has no right to change its user. */
export function unprivileged(...words: readonly string[]): [string, string[]] {
  if (process.getuid?.() !== 0) return [words[0]!, words.slice(1)]
  const user = [`--reuid=${USER}`, `--regid=${USER}`, '--clear-groups', '--no-new-privs']
  return ['setpriv', [...user, ...words]]
}

/** Runs a command to its end as the unprivileged user. @throws Error with its output */
export async function asUser(home: string, cache: string, ...words: string[]): Promise<string> {
  const [program, args] = unprivileged(...words)
  const env = environment({ HOME: home, npm_config_cache: cache })
  const { stdout } = await exec(program, args, { cwd: home, env, maxBuffer: 2 ** 24 })
  return stdout
}

/** Gives folders to the unprivileged user. */
export async function own(paths: readonly string[]): Promise<void> {
  if (process.getuid?.() === 0) await exec('chown', ['-R', `${USER}:${USER}`, ...paths])
}

/** The environment of a new shell, with the Node.js of the tests. */
export function environment(extra: Readonly<Record<string, string>> = {}): Record<string, string> {
  const { PATH = '', NODE_EXTRA_CA_CERTS } = process.env
  return {
    PATH: `${dirname(process.execPath)}${delimiter}${PATH}`,
    ...(NODE_EXTRA_CA_CERTS && { NODE_EXTRA_CA_CERTS }),
    npm_config_fund: 'false',
    npm_config_audit: 'false',
    npm_config_update_notifier: 'false',
    ...extra,
  }
}
