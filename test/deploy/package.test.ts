/** The package of a user: contents, budgets, first start, and that nothing is lost or written elsewhere. */
import { execFile } from 'node:child_process'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { cp, mkdir, readFile, readdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, inject, it } from 'vitest'
import { keyIn } from '../_cli.ts'
import { pdfOf } from '../_documents.ts'
import { eventsOf, send } from '../_setup.ts'
import { hasBrowser, settled, Visitors } from '../console/_browser.ts'
import { asUser, environment, own } from './_installed.ts'
import { addressOf, isRunning, startAs, type Started } from './_process.ts'

const exec = promisify(execFile)
const MIB = 2 ** 20
const ROOT = resolve(import.meta.dirname, '../..')
const { tarball, sums, project, cache } = inject('installed')
const modules = join(project, 'node_modules')

const LICENCES = new Set([
  'MIT',
  'ISC',
  '0BSD',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'Python-2.0',
  'CC0-1.0',
])

interface Manifest {
  readonly name: string
  readonly version: string
  readonly license?: string
  /** Licenses as old manifests list them. */
  readonly licenses?: readonly { readonly type: string }[]
  readonly scripts?: Readonly<Record<string, string>>
  readonly dependencies?: object
  readonly peerDependencies?: Readonly<Record<string, string>>
}

async function manifestOf(path: string): Promise<Manifest> {
  return JSON.parse(await readFile(join(path, 'package.json'), 'utf8'))
}

/** Folders of all installed packages. */
function packagesIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (!entry.isDirectory() || entry.name.startsWith('.')) return []
    if (entry.name.startsWith('@')) return packagesIn(path)
    const nested = join(path, 'node_modules')
    return [path, ...(existsSync(nested) ? packagesIn(nested) : [])]
  })
}

function bytesIn(folder: string): number {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  return names
    .map((name) => statSync(join(folder, name), { throwIfNoEntry: false }))
    .reduce((sum, found) => sum + (found?.isFile() ? found.size : 0), 0)
}

const npx = (args: readonly string[], env = {}) =>
  startAs(['npx', '--no-install', 'sluicegate', ...args], project, {
    npm_config_cache: cache,
    ...env,
  })

function ask(url: string, key: string, path: string, body?: object) {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  return send(url + path, body ? 'POST' : 'GET', body && JSON.stringify(body), headers)
}

/** Opens screens with each of the console's libraries in a browser, as an operator and as a holder of a key do. */
async function openConsole(url: string, token: string): Promise<void> {
  await using visitors = await Visitors.open(url)
  const { page, faults } = await visitors.page({ token })
  for (const [path, text] of [
    ['/console', 'Overview'],
    ['/console/usage', 'Usage'],
    ['/console/requests', 'Requests'],
    ['/me', 'Your key'],
  ] as const) {
    await page.goto(path)
    await page.locator('h1', { hasText: text }).waitFor()
    await settled(page)
  }
  expect(faults).toEqual([])
}

async function stopped(started: Started): Promise<void> {
  started.child.kill('SIGTERM')
  await started.ended
  // npm passes the signal on to no gateway, which notices the end of npm.
  await expect.poll(() => isRunning(`${modules}/.bin/sluicegate`)).toBe(false)
}

describe('the tarball', () => {
  it('is the same whenever it is made', () => {
    expect(sums[0]).toBe(sums[1])
  })

  it('holds what users need, within its budget', async () => {
    const { stdout } = await exec('tar', ['-tzf', tarball])
    const names = stdout.trim().split('\n')
    expect(names.length).toBeLessThanOrEqual(900)
    // The list of prices takes a fifth of it.
    expect(statSync(tarball).size).toBeLessThanOrEqual(2 * MIB)
    expect(bytesIn(join(modules, 'sluicegate'))).toBeLessThanOrEqual(8 * MIB)
    const strange = names.filter((name) =>
      /\.map$|\.test\.|(?<!\.d|docs\/examples\/[\w/.-]+)\.ts$|\/test\//.test(name),
    )
    expect(strange).toEqual([])
    const licenses = 'dist/src/console/vendor/LICENSES.txt'
    for (const name of ['SECURITY.md', 'LICENSE', licenses, 'sbom.json', 'config/prices.json']) {
      expect(names).toContain(`package/${name}`)
    }
    const declared = names.filter((name) => name.endsWith('.d.ts'))
    expect(declared).toContain('package/dist/src/plugin.d.ts')
    expect(declared.filter((name) => /dist\/(?:config|providers|plugins)\//.test(name))).toEqual([])
  })
})

describe('the installation', () => {
  it('is small, has free licences, and nothing in it runs while it is installed', async () => {
    const folders = packagesIn(modules)
    const found = await Promise.all(folders.map(manifestOf))
    expect(bytesIn(modules)).toBeLessThanOrEqual(36 * MIB)
    expect(found.length).toBeLessThanOrEqual(70)
    const own = found.find(({ name }) => name === 'sluicegate')!
    expect(Object.keys(own.dependencies!).length).toBeLessThanOrEqual(16)
    const names = found.map(({ name }) => name)
    expect(names.filter((name) => /^typescript$|^@types\//.test(name))).toEqual([])
    const runs = found.filter(({ scripts }) =>
      ['preinstall', 'install', 'postinstall'].some((name) => scripts?.[name]),
    )
    expect(runs.map(({ name }) => name)).toEqual([])
    const odd = found.filter(({ license, licenses = [] }) => {
      return !(license ?? licenses.map(({ type }) => type).join(' OR '))
        .replaceAll(/[()]/g, '')
        .split(' OR ')
        .some((one) => LICENCES.has(one))
    })
    expect(odd.map(({ name, license }) => `${name}: ${license}`)).toEqual([])
  })

  it('has the packages of its bill of materials, and no other ones', async () => {
    const bill = JSON.parse(await readFile(join(modules, 'sluicegate/sbom.json'), 'utf8'))
    const listed = bill.components.map(({ name, purl }: { name: string; purl: string }) =>
      decodeURIComponent(purl.replace('pkg:npm/', '')).replace(/@[^@]*$/, '') === name
        ? name
        : purl,
    )
    const found = (await Promise.all(packagesIn(modules).map(manifestOf))).map(({ name }) => name)
    const missing = found.filter((name) => name !== 'sluicegate' && !listed.includes(name))
    expect(missing).toEqual([])
  })

  it('tells its version', async () => {
    const { version } = await manifestOf(ROOT)
    const { out } = await npx(['--version']).ended
    expect(out).toMatch(
      new RegExp(`^sluicegate ${version} \\(node 24\\.\\S+, sqlite 3\\.\\S+\\)\\n$`),
    )
  })
})

describe('plugin new', () => {
  it.each(['provider', 'guard', 'search'])('writes a %s that passes its kit', async (kind) => {
    const folder = join(project, `plugins-${kind}`)
    await mkdir(folder)
    await own([folder])
    await npx(['plugin', 'new', kind, 'acme', '--dir', folder]).ended
    const [file] = (await readdir(folder)).filter((name) => /^acme\.m?ts$/.test(name))
    const { out, code } = await npx(['plugin', 'test', join(folder, file!)]).ended
    expect(out).toMatch(/\n\d+ ok, 0 failed, 0 skipped; \d+ cases?\.\n$/)
    expect(code).toBe(0)
  })
})

describe('a start in an empty folder', () => {
  let key: string
  let before: string[]
  const entries = async () => (await readdir(project)).toSorted()

  beforeAll(async () => {
    before = await entries()
  })

  it('answers with every mock model, and writes its data folder only', async () => {
    const started = npx(['--port', '0', '--print-key'])
    const url = await addressOf(started)
    const ready = await send(`${url}/readyz`, 'GET', undefined, {})
    expect(ready.status).toBe(200)
    const models = (await send(`${url}/v1/models`, 'GET', undefined, {})).json.data
    const ids = models.map(({ id }: { id: string }) => id)
    expect(ids).toContain('mock/echo')
    expect(ids).not.toContain('local/ocr')
    expect(started.out()).toContain('npm install tesseract.js-core@7')

    expect((await send(`${url}/openapi.json`, 'GET', undefined, {})).json.openapi).toMatch(/^3\./)
    const pasted = /Try it:\n\n([^]*?)\n\n/.exec(started.out())![1]!
    const { stdout } = await exec('sh', ['-c', pasted.replaceAll('curl ', 'curl -s ')])
    expect(JSON.parse(stdout).usage.cost).toBeGreaterThan(0)

    key = keyIn(started.out())
    const messages = [{ role: 'user', content: 'Hello' }]
    const chat = '/v1/chat/completions'
    const stream = await ask(url, key, chat, { model: 'mock/echo', messages, stream: true })
    expect(eventsOf(stream.text).at(-1)).toBe('[DONE]')
    const image = { model: 'mock/painter', prompt: 'a house' }
    expect((await ask(url, key, '/v1/images/generations', image)).status).toBe(200)
    const speech = { model: 'mock/voice', input: 'Hello', voice: 'any' }
    expect((await ask(url, key, '/v1/audio/speech', speech)).status).toBe(200)
    const form = new FormData()
    form.set('model', 'mock/ears')
    form.set('file', new File([new Uint8Array(4000)], 'sound.wav'))
    const transcript = await fetch(`${url}/v1/audio/transcriptions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: form,
    })
    expect([200, 400]).toContain(transcript.status)

    const token = await readFile(join(project, 'data/admin-token'), 'utf8')
    if (hasBrowser) await openConsole(url, token.trim())
    const made = (await entries()).filter((name) => !before.includes(name))
    expect(made).toEqual(['data'])
    expect(existsSync(join(project, 'data/ledger.db'))).toBe(true)
    await stopped(started)
  })

  it('ends with the npx that started it, also with one that was killed', async () => {
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      const started = npx(['--port', '0'])
      await addressOf(started)
      started.child.kill(signal)
      await expect.poll(() => isRunning(`${modules}/.bin/sluicegate`)).toBe(false)
    }
  })

  it('keeps its accounts over starts and installations', async () => {
    const balance = async () => {
      const started = npx(['--port', '0'])
      const { text } = await ask(await addressOf(started), key, '/v1/credits')
      expect(started.out()).not.toContain('sk-sluice-')
      await stopped(started)
      return text
    }
    const first = await balance()
    expect(JSON.parse(first).data.balance_usd).toBeLessThan(10)
    await exec('chmod', ['-R', 'u+w', modules])
    await own([modules])
    await asUser(project, cache, 'npm', 'ci', '--ignore-scripts', '--prefer-offline')
    expect(await balance()).toBe(first)
  })

  it('without a terminal prints no key, with log.format json only JSON', async () => {
    const cwd = join(project, 'quiet')
    await mkdir(cwd)
    await own([cwd])
    const cli = join(modules, 'sluicegate/dist/src/cli.js')
    const env = { SLUICEGATE__LOG__FORMAT: 'json' }
    const started = startAs([process.execPath, cli, '--port', '0'], cwd, env)
    const url = await addressOf(started)
    await send(`${url}/v1/models`, 'GET', undefined, {})
    started.child.kill('SIGTERM')
    const { code, out, err } = await started.ended
    expect(code).toBe(0)
    const lines = `${out}${err}`.split('\n').filter((line) => line !== '')
    expect(lines.length).toBeGreaterThan(1)
    for (const line of lines) expect(() => JSON.parse(line), line).not.toThrow()
    expect(out + err).not.toContain('sk-sluice-')
  })
})

describe('a program of the user', () => {
  it('imports the package, and its types hold, whatever the module resolution', async () => {
    const cwd = join(project, 'program')
    await mkdir(cwd)
    const source = `import { defineConfig, defineProvider } from 'sluicegate'
import * as kit from 'sluicegate/testing'
console.log(typeof defineConfig, typeof defineProvider, Object.keys(kit).length > 0)\n`
    await writeFile(join(cwd, 'program.mts'), source)
    const { stdout } = await exec(process.execPath, ['program.mts'], { cwd })
    expect(stdout).toBe('function function true\n')
    const tsc = join(ROOT, 'node_modules/.bin/tsc')
    const types = ['--typeRoots', join(ROOT, 'node_modules/@types'), '--types', 'node']
    for (const kind of [
      ['--module', 'nodenext'],
      ['--module', 'preserve', '--moduleResolution', 'bundler'],
    ]) {
      const options = ['--noEmit', '--strict', '--target', 'es2024', ...kind, ...types]
      await exec(tsc, [...options, 'program.mts'], { cwd, env: environment() })
    }
  })

  it('can be published, as a rehearsal without a registry shows', async () => {
    const nowhere = ['--registry', 'http://127.0.0.1:9', '--fetch-retries', '0']
    const { stdout } = await exec('npm', ['publish', tarball, '--dry-run', '--json', ...nowhere])
    expect(stdout).toContain('"sluicegate@')
  })

  it('finds nothing wrong with the manifest', async () => {
    const { publint } = await import('publint')
    const { messages } = await publint({ pkgDir: join(modules, 'sluicegate'), pack: false })
    expect(messages.filter(({ type }) => type !== 'suggestion')).toEqual([])
  })
})

describe('text recognition', () => {
  it('is refused without its packages, with the command that installs them', async () => {
    const cwd = join(project, 'no-ocr')
    await mkdir(cwd)
    await writeFile(
      join(cwd, 'gateway.config.json'),
      '{"providers":{"reader":{"use":"tesseract"}}}',
    )
    const cli = join(modules, 'sluicegate/dist/src/cli.js')
    const { code, err } = await startAs([process.execPath, cli, 'check'], cwd).ended
    expect(err).toMatch(
      /providers\.reader\.use[^]*npm install tesseract\.js-core@7 \S+eng@1 \S+pdfium@2/,
    )
    expect(code).toBe(1)
  })

  it('reads a document once they are there, in the versions that the message names', async () => {
    const { peerDependencies = {} } = await manifestOf(ROOT)
    const { INSTALL_OCR } = await import('../../providers/tesseract.ts')
    const packages = INSTALL_OCR.replace('npm install ', '').split(' ')
    for (const one of packages) {
      const [, name, major] = /^(.+)@(\d+)$/.exec(one)!
      expect(peerDependencies[name!]).toMatch(new RegExp(`^\\^${major}\\.`))
    }
    const cwd = join(project, 'ocr')
    await mkdir(cwd)
    await own([cwd])
    await cp(join(modules, '../package.json'), join(cwd, 'package.json'))
    await asUser(
      cwd,
      cache,
      'npm',
      'install',
      '--ignore-scripts',
      '--prefer-offline',
      tarball,
      ...packages,
    )
    expect(bytesIn(join(cwd, 'node_modules'))).toBeLessThanOrEqual(105 * MIB)
    const cli = join(cwd, 'node_modules/sluicegate/dist/src/cli.js')
    const started = startAs([process.execPath, cli, '--port', '0', '--print-key'], cwd)
    const url = await addressOf(started)
    const document_url = `data:application/pdf;base64,${pdfOf([{ text: 'Sluicegate reads', y: 700, size: 40 }]).toString('base64')}`
    const body = { model: 'local/ocr', document: { type: 'document_url', document_url } }
    const answer = await ask(url, keyIn(started.out()), '/v1/ocr', body)
    expect(answer.json.pages[0].markdown).toContain('Sluicegate reads')
  })
})
