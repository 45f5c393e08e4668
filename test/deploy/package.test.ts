/** The package as users get it: built, packed, and unpacked into the `node_modules` of an empty folder. */
import { execFile } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import {
  chmod,
  cp,
  mkdir,
  mkdtemp,
  readFile,
  realpath,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, keyIn, startWithNpm, urlOf } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { hello, send } from '../_setup.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const exec = promisify(execFile)

let temporary: string
/** The folder `node_modules` that every test links to. */
let modules: string

beforeAll(async () => {
  temporary = await realpath(await mkdtemp(join(tmpdir(), 'gateway-package-')))
  const copy = join(temporary, 'copy')
  const { files } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  const sources = ['src', 'providers', 'plugins', 'package.json', 'tsconfig.json']
  const shipped = files.filter((name: string) => !name.startsWith('!') && name !== 'dist')
  for (const name of new Set([...sources, 'tsconfig.build.json', ...shipped])) {
    await cp(join(ROOT, name), join(copy, name), { recursive: true })
  }
  await symlink(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
  const { stdout } = await exec('npm', ['pack', '--json', '--pack-destination', temporary], {
    cwd: copy,
  })
  const [{ filename }] = JSON.parse(stdout.slice(stdout.indexOf('[\n')))

  // What `npm install` does, without a registry: the dependencies are those of this repository.
  modules = join(temporary, 'node_modules')
  await mkdir(join(modules, 'sluicegate'), { recursive: true })
  await mkdir(join(modules, '.bin'))
  const target = ['-C', join(modules, 'sluicegate'), '--strip-components=1']
  await exec('tar', ['-xzf', join(temporary, filename), ...target])
  for (const name of readdirSync(join(ROOT, 'node_modules'))) {
    if (name.startsWith('.')) continue
    await symlink(join(ROOT, 'node_modules', name), join(modules, name))
  }
  await chmod(join(modules, 'sluicegate/dist/src/cli.js'), 0o755)
  await symlink('../sluicegate/dist/src/cli.js', join(modules, '.bin/sluicegate'))
}, 300_000)

afterAll(() => rm(temporary, { recursive: true, force: true }))

describe('the package', () => {
  it('serves its own configuration and keeps the ledger in the working folder', async () => {
    const cwd = await project()
    const options = ['--port', '0', '--print-key']
    const first = startWithNpm('npx', ['--no-install', 'sluicegate', ...options], cwd)
    const url = await urlOf(first)
    const models = await send(`${url}/v1/models`, 'GET', undefined, {})
    const ids = models.json.data.map(({ id }: { id: string }) => id)
    expect(ids).toContain('mock/echo')
    const secret = keyIn(first.said())
    const answer = await ask(url, secret, '/v1/chat/completions', hello)
    expect(answer.json.usage.cost).toBeGreaterThan(0)
    const credits = (await ask(url, secret, '/v1/credits')).text
    expect(first.said()).toContain(join(cwd, 'data'))
    expect(existsSync(join(cwd, 'data/ledger.db'))).toBe(true)
    expect(filesOf(join(modules, 'sluicegate')).filter((name) => /\.db|data\//.test(name))).toEqual(
      [],
    )

    // The next installation replaces the package and keeps the accounts.
    // npm passes the signal on to no gateway, which notices the end of npm.
    first.child.kill('SIGTERM')
    await first.ended
    const second = startWithNpm('npx', ['--no-install', 'sluicegate', 'serve', '--port', '0'], cwd)
    expect((await ask(await urlOf(second), secret, '/v1/credits')).text).toBe(credits)
  })

  it('has the prices of its list', async () => {
    const cwd = await project()
    const config = { providers: { openai: { use: 'mock' } }, models: { 'openai/gpt-6-sol': {} } }
    await writeFile(join(cwd, 'gateway.config.json'), JSON.stringify(config))
    const price = ['models', 'price', 'openai/gpt-6-sol', '--prompt', '1', '--json']
    const { out } = await startWithNpm('npx', ['--no-install', 'sluicegate', ...price], cwd).ended
    expect(JSON.parse(out).cost).toBe('0.000002')
  })
})

/** An empty project with the package installed. */
async function project(): Promise<string> {
  const cwd = await folder({ 'package.json': '{ "name": "project", "private": true }' })
  await mkdir(join(cwd, 'node_modules/.bin'), { recursive: true })
  await symlink('../sluicegate/dist/src/cli.js', join(cwd, 'node_modules/.bin/sluicegate'))
  for (const name of readdirSync(modules)) {
    if (name.startsWith('.')) continue
    await symlink(join(modules, name), join(cwd, 'node_modules', name))
  }
  return cwd
}

function filesOf(path: string): string[] {
  return readdirSync(path, { recursive: true }) as string[]
}
