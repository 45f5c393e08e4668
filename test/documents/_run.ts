/**
 * A page that is run as a reader would: its blocks in order, in one empty folder, with a gateway of this checkout. `sluicegate`
 * and `npx node src/cli.ts` are the command of this checkout; the port of the pages is replaced by a free one.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import {
  chmod,
  copyFile,
  mkdir,
  mkdtemp,
  readFile,
  realpath,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { freePort } from '../_ports.ts'
import type { FakeUpstream } from '../upstream.ts'
import { root, type Block, type Page } from './_markdown.ts'
import { compare, compareShape } from './_shown.ts'
import { startVendor } from './_vendor.ts'

/** The port of the pages. */
const PORT = '127.0.0.1:8787'
/** Lines that serve until the page ends. */
const SERVES = /^(?:(?:npm ci && )?npm start|sluicegate(?: serve| --demo)?)$/

/** What modules in TypeScript, which show tests, have from their test runner. */
const EXPECT = `import { deepEqual } from 'node:assert'
const expect = (value) => ({ toEqual: (other) => deepEqual(value, other) })`

/** Providers that ask the scripted vendor: one of the starter, and one that pages configure. */
const PROVIDERS: Readonly<Record<string, string>> = { openai: 'openai', acme: 'openai-compatible' }

/** Options of {@link runPage}. */
interface RunOptions {
  /** Whether a gateway runs before the first block, with its key in `API_KEY`. */
  readonly served: boolean
}

/** Runs the blocks of a page. @throws Error that names the line of the block which failed, with what it printed */
export async function runPage(page: Page, { served }: RunOptions): Promise<void> {
  await using run = await PageRun.start()
  if (served) await run.serve()
  for (const [index, block] of page.blocks.entries()) {
    try {
      await run.block(block, page.blocks.slice(0, index))
    } catch (error) {
      throw new Error(`${page.path}:${block.line}: ${(error as Error).message}`, { cause: error })
    }
  }
  await run.stop()
}

/** One page: its folder, its gateway, its vendor. */
class PageRun implements AsyncDisposable {
  readonly #folder: string
  readonly #port: number
  readonly #vendor: FakeUpstream
  readonly #providers = new Set(['openai'])
  #server: { readonly process: ChildProcess; readonly output: () => string } | undefined
  /** What the last block printed. */
  #output = ''
  /** The newest secret and id of a key that were printed. */
  #secret = ''
  #keyId = ''
  /** What the gateway made for its operator. */
  #token = ''

  static async start(): Promise<PageRun> {
    const folder = await realpath(await mkdtemp(join(tmpdir(), 'page-')))
    const vendor = await startVendor()
    const command = join(folder, 'bin/sluicegate')
    await mkdir(dirname(command))
    await writeFile(command, `#!/bin/sh\nexec "${process.execPath}" "${root}/src/cli.ts" "$@"\n`)
    await chmod(command, 0o755)
    await symlink(process.execPath, join(folder, 'bin/node'))
    await mkdir(join(folder, 'page'))
    await symlink(join(root, 'node_modules'), join(folder, 'page/node_modules'))
    await symlink(join(root, 'docs'), join(folder, 'page/docs'))
    await writePackage(join(folder, 'node_modules/sluicegate'))
    return new PageRun(folder, await freePort(), vendor)
  }

  private constructor(folder: string, port: number, vendor: FakeUpstream) {
    this.#folder = folder
    this.#port = port
    this.#vendor = vendor
  }

  /** Runs one block, or writes it as a file, or compares it with what was printed. @throws Error if that fails */
  async block({ language, text, directive = '' }: Block, before: readonly Block[]): Promise<void> {
    if (/^(?:skip|schema)=/.test(directive)) return
    const told = new Map(directive.split(' ').map((word) => word.split('=') as [string, string]))
    const given = told.get('given')
    if (given !== undefined) await this.#give(given)
    const copied = told.get('copy-of')
    if (copied !== undefined) {
      const copy = join(this.#folder, 'page', copied.replace(/^docs\/examples\/[\w-]+\//, ''))
      await mkdir(dirname(copy), { recursive: true })
      return copyFile(join(root, copied), copy)
    }
    if (told.has('output')) return compare(text, this.#output)
    if (told.has('shape')) return compareShape(text, this.#output)
    const file = told.get('file') ?? /^# (\S+\.ya?ml)\n/.exec(text)?.[1]
    if (file !== undefined) {
      if (/^  acme:/m.test(text)) this.#providers.add('acme')
      return writeFile(join(this.#folder, 'page', file), this.#localized(text))
    }
    if (language === 'sh') return this.#shell(text)
    if (language === 'console') return this.#dialog(text)
    if (language === 'yaml') return this.#check(text)
    if (!['js', 'ts'].includes(language)) {
      throw new Error(`a block of ${language || 'no language'} needs a comment`)
    }
    return this.#module(told.has('with') ? `${clientOf(before)}\n${text}` : text, language)
  }

  /** Runs a program of the tests with the newest key. */
  #give(name: string): Promise<void> {
    return this.#execute(`API_KEY=${this.#secret} node ${root}/test/documents/given/${name}.ts`)
  }

  /** Starts a gateway in place of the one that runs, and waits until it is ready. */
  async serve(args = ['serve', '--print-key']): Promise<void> {
    await this.stop()
    const process = spawn(join(this.#folder, 'bin/sluicegate'), args, {
      cwd: join(this.#folder, 'page'),
      env: args.includes('--demo') ? withoutProviders(this.#environment()) : this.#environment(),
    })
    let output = ''
    for (const stream of [process.stdout, process.stderr]) {
      stream.setEncoding('utf8').on('data', (chunk: string) => (output += chunk))
    }
    this.#server = { process, output: () => output }
    while (
      !(await isReady(this.#port)) ||
      (args.includes('--print-key') && !this.#knowsKey(output))
    ) {
      if (process.exitCode !== null) throw new Error(`the gateway did not start:\n${output}`)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    this.#remember(output)
    const token = await readFile(join(this.#folder, 'page/data/admin-token'), 'utf8').catch(
      () => '',
    )
    this.#token = token.trim()
  }

  /** Ends the gateway as a supervisor does. @throws Error if it does not end with status 0 */
  async stop(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    if (!server) return
    server.process.kill('SIGTERM')
    const [status] = await once(server.process, 'exit')
    if (status !== 0) throw new Error(`the gateway ended with ${status}:\n${server.output()}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server?.process.kill('SIGKILL')
    const nginx = await readFile(join(this.#folder, 'page/nginx.pid'), 'utf8').catch(() => '')
    if (nginx !== '') process.kill(Number(nginx), 'SIGTERM')
    await this.#vendor.close()
    await rm(this.#folder, { recursive: true, force: true })
  }

  async #shell(text: string): Promise<void> {
    const lines = text.replaceAll(/npx (?:node src\/cli\.ts|sluicegate)/g, 'sluicegate').split('\n')
    const serves = lines.findIndex((line) => SERVES.test(line.replace(/ *#.*$/, '')))
    await this.#execute(lines.slice(0, serves < 0 ? undefined : serves).join('\n'))
    if (serves >= 0) await this.serve(lines[serves]!.includes('--demo') ? ['--demo'] : undefined)
  }

  /** Commands behind `$ `, each followed by what it prints. */
  async #dialog(text: string): Promise<void> {
    for (const turn of text.split(/^\$ /m).slice(1)) {
      const [, command, shown] = /^((?:.*\\\n)*.*)\n?([^]*)$/.exec(turn)!
      if (shown!.trim() === '') await this.#execute(command!)
      else {
        // What is shown decides, and not the status: some commands end with another one to say that there is more to do.
        await this.#execute(`{ ${command}\n} || true`)
        compare(shown!, this.#output)
      }
    }
  }

  /** A configuration, or a part of one on top of what the gateway brings along, is one that the command takes. */
  async #check(text: string): Promise<void> {
    const variables = new Set([...text.matchAll(/\$\{([A-Z_]+)\}/g)].map(([, name]) => name))
    // Stripe's secrets are known by how they begin.
    const valueOf = (name: string) =>
      `${/STRIPE_\w*SECRET$/.test(name) ? 'whsec_' : ''}value-of-${name}`
    const set = [...variables].map((name) => `${name}="\${${name}-${valueOf(name)}}"`)
    const whole = /^extends:/m.test(text) ? text : `extends: starter\n${text}`
    await writeFile(join(this.#folder, 'page/block.yaml'), whole)
    await this.#execute(`${set.join(' ')} sluicegate check --config block.yaml`)
  }

  async #module(text: string, language: string): Promise<void> {
    const name = language === 'ts' ? 'block.mts' : 'block.mjs'
    const whole = language === 'ts' ? `${EXPECT}\n${text}` : text
    await writeFile(join(this.#folder, 'page', name), this.#localized(whole))
    await this.#execute(`node ${name}`)
  }

  /** Runs a script in the page's shell, whose variables are kept from block to block. */
  async #execute(script: string): Promise<void> {
    const state = join(this.#folder, 'shell')
    const whole = `[ ! -f ${state} ] || . ${state}\ntrap 'export -p > ${state}' EXIT\n${this.#localized(script)}`
    const shell = spawn('bash', ['-euo', 'pipefail', '-c', whole], {
      cwd: join(this.#folder, 'page'),
      env: this.#environment(),
      // A shell whose input is a socket takes itself for a remote one, and reads its start file.
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let output = ''
    let errors = ''
    shell.stdout.setEncoding('utf8').on('data', (chunk: string) => (output += chunk))
    shell.stderr.setEncoding('utf8').on('data', (chunk: string) => (errors += chunk))
    const [status] = await once(shell, 'close')
    if (status !== 0) throw new Error(`ended with ${status}:\n${script}\n${output}\n${errors}`)
    this.#output = output
    this.#remember(output)
  }

  #localized(text: string): string {
    return text
      .replaceAll(PORT, `127.0.0.1:${this.#port}`)
      .replaceAll('sk-sluice-…', this.#secret)
      .replaceAll('key_…', this.#keyId)
  }

  /** The first start prints a key, maybe after it is ready. */
  #knowsKey(output: string): boolean {
    return this.#secret !== '' || /sk-sluice-\w{30,}\s/.test(output)
  }

  #remember(output: string): void {
    this.#secret = /sk-sluice-\w{30,}/.exec(output)?.[0] ?? this.#secret
    this.#keyId = /\bkey_[0-9a-f]{24}\b/.exec(output)?.[0] ?? this.#keyId
  }

  #environment(): NodeJS.ProcessEnv {
    const { PATH, NODE_COMPILE_CACHE } = process.env
    return {
      // nginx is for administrators on most systems.
      PATH: `${join(this.#folder, 'bin')}:${PATH}:/usr/sbin`,
      HOME: this.#folder,
      ...(NODE_COMPILE_CACHE !== undefined && { NODE_COMPILE_CACHE }),
      ...(this.#secret !== '' && { API_KEY: this.#secret }),
      ...(this.#token !== '' && { TOKEN: this.#token }),
      GATEWAY: `http://127.0.0.1:${this.#port}`,
      SLUICEGATE__SERVER__PORT: String(this.#port),
      SEARXNG_URL: this.#vendor.url,
      SLACK_WEBHOOK_URL: this.#vendor.url,
      OTLP_ENDPOINT: this.#vendor.url,
      OPENAI_API_KEY: 'vendor-key',
      ...Object.fromEntries([...this.#providers].map((name) => this.#override(name))),
    }
  }

  /** The variable that lets a provider ask the scripted vendor. */
  #override(name: string): [variable: string, value: string] {
    const options = { apiKey: 'vendor-key', baseURL: `${this.#vendor.url}/v1` }
    const value = JSON.stringify({ use: PROVIDERS[name], privateUrls: true, options })
    return [`SLUICEGATE__PROVIDERS__${name.toUpperCase()}`, value]
  }
}

/** Imports and client of the page's first module, which later blocks use. */
function clientOf(before: readonly Block[]): string {
  const first = before.find(({ language }) => language === 'js')?.text ?? ''
  return /^[^]*?^const client = .*$/m.exec(first)?.[0] ?? ''
}

/** The demo has providers of its own, and takes no others. */
function withoutProviders(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(env).filter(([name]) => !name.startsWith('SLUICEGATE__PROVIDERS__')),
  )
}

/** The package as authors of plugins have it, of this checkout. */
async function writePackage(folder: string): Promise<void> {
  const exported = { '.': './index.js', './testing': './testing.js' }
  await mkdir(folder, { recursive: true })
  await writeFile(
    join(folder, 'package.json'),
    JSON.stringify({ type: 'module', exports: exported }),
  )
  for (const name of ['index', 'testing']) {
    await writeFile(join(folder, `${name}.js`), `export * from '${root}/src/${name}.ts'\n`)
  }
}

async function isReady(port: number): Promise<boolean> {
  try {
    return (await fetch(`http://127.0.0.1:${port}/readyz`)).ok
  } catch {
    return false
  }
}
