/**
 * A page that is run as a reader would: its blocks in order, in one empty folder, with a gateway of this checkout. `sluicegate`
 * and `npx node src/cli.ts` are the command of this checkout; the port of the pages is replaced by a free one.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { events, startUpstream, type FakeUpstream } from '../upstream.ts'
import { root, type Block, type Page } from './_markdown.ts'

/** The port of the pages. */
const PORT = '127.0.0.1:8787'
/** Lines that serve until the page ends. */
const SERVES = /^(?:npm ci && npm start|sluicegate serve)$/

/** Chunks of the vendor's answer. */
const ANSWER = [
  { choices: [{ index: 0, delta: { role: 'assistant', content: 'Hello.' }, finish_reason: null }] },
  { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
  { choices: [], usage: { prompt_tokens: 8, completion_tokens: 2, total_tokens: 10 } },
].map((chunk) => ({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', ...chunk }))

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
  #server: { readonly process: ChildProcess; readonly output: () => string } | undefined
  /** What the last block printed. */
  #output = ''
  /** The newest secret and id of a key that were printed. */
  #secret = ''
  #keyId = ''

  static async start(): Promise<PageRun> {
    const folder = await realpath(await mkdtemp(join(tmpdir(), 'page-')))
    const vendor = await startUpstream(events(...ANSWER, '[DONE]'))
    const command = join(folder, 'bin/sluicegate')
    await mkdir(dirname(command))
    await writeFile(command, `#!/bin/sh\nexec "${process.execPath}" "${root}/src/cli.ts" "$@"\n`)
    await chmod(command, 0o755)
    await symlink(process.execPath, join(folder, 'bin/node'))
    await mkdir(join(folder, 'page'))
    await symlink(join(root, 'node_modules'), join(folder, 'page/node_modules'))
    return new PageRun(folder, await freePort(), vendor)
  }

  private constructor(folder: string, port: number, vendor: FakeUpstream) {
    this.#folder = folder
    this.#port = port
    this.#vendor = vendor
  }

  /** Runs one block, or writes it as a file, or compares it with what was printed. @throws Error if that fails */
  async block({ language, text, directive = '' }: Block, before: readonly Block[]): Promise<void> {
    const [kind, value = ''] = directive.split('=')
    const file = kind === 'file' ? value : /^# (\S+\.ya?ml)\n/.exec(text)?.[1]
    if (['skip', 'schema', 'copy-of'].includes(kind!)) return
    if (kind === 'output') return compare(text, this.#output)
    if (file !== undefined) return writeFile(join(this.#folder, 'page', file), text)
    if (language === 'sh') await this.#shell(text)
    if (language === 'js')
      await this.#module(kind === 'with' ? `${clientOf(before)}\n${text}` : text)
    if (language === 'python') throw new Error('Python is not run here: mark the block with skip=')
  }

  /** Starts a gateway in place of the one that runs, and waits until it is ready. */
  async serve(): Promise<void> {
    await this.stop()
    const process = spawn(join(this.#folder, 'bin/sluicegate'), ['serve', '--print-key'], {
      cwd: join(this.#folder, 'page'),
      env: this.#environment(),
    })
    let output = ''
    for (const stream of [process.stdout, process.stderr]) {
      stream.setEncoding('utf8').on('data', (chunk: string) => (output += chunk))
    }
    this.#server = { process, output: () => output }
    while (!(await isReady(this.#port))) {
      if (process.exitCode !== null) throw new Error(`the gateway did not start:\n${output}`)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    this.#remember(output)
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
    await this.#vendor.close()
    await rm(this.#folder, { recursive: true, force: true })
  }

  async #shell(text: string): Promise<void> {
    const lines = text.replaceAll('npx node src/cli.ts', 'sluicegate').split('\n')
    const serves = lines.findIndex((line) => SERVES.test(line.replace(/ *#.*$/, '')))
    await this.#execute(lines.slice(0, serves < 0 ? undefined : serves).join('\n'))
    if (serves >= 0) await this.serve()
  }

  async #module(text: string): Promise<void> {
    await writeFile(join(this.#folder, 'page/block.mjs'), this.#localized(text))
    await this.#execute('node block.mjs')
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

  #remember(output: string): void {
    this.#secret = /sk-sluice-\w{30,}/.exec(output)?.[0] ?? this.#secret
    this.#keyId = /\bkey_[0-9a-f]{24}\b/.exec(output)?.[0] ?? this.#keyId
  }

  #environment(): NodeJS.ProcessEnv {
    const { PATH, NODE_COMPILE_CACHE } = process.env
    return {
      PATH: `${join(this.#folder, 'bin')}:${PATH}`,
      HOME: this.#folder,
      ...(NODE_COMPILE_CACHE !== undefined && { NODE_COMPILE_CACHE }),
      ...(this.#secret !== '' && { API_KEY: this.#secret }),
      SLUICEGATE__SERVER__PORT: String(this.#port),
      OPENAI_API_KEY: 'vendor-key',
      SLUICEGATE__PROVIDERS__OPENAI: JSON.stringify({
        use: 'openai',
        privateUrls: true,
        options: { apiKey: 'vendor-key', baseURL: `${this.#vendor.url}/v1` },
      }),
    }
  }
}

/** Imports and client of the page's first module, which later blocks use. */
function clientOf(before: readonly Block[]): string {
  const first = before.find(({ language }) => language === 'js')?.text ?? ''
  return /^[^]*?^const client = .*$/m.exec(first)?.[0] ?? ''
}

/**
 * `…` in what a page shows stands for any text; ids, moments and keys differ from run to run.
 * @throws Error if the output is another one
 */
function compare(shown: string, printed: string): void {
  const masked = [shown, printed].map((text) =>
    text
      .trim()
      .replaceAll(/\b(chatcmpl-|key_|req_)\w+/g, '$1…')
      .replaceAll(/"created": ?\d+/g, '"created":…')
      .replaceAll(/\s+/g, text.trim().startsWith('{') ? '' : ' '),
  )
  const pattern = masked[0]!
    .split('…')
    .map((part) => part.replaceAll(/[$()*+.?[\\\]^{|}]/g, '\\$&'))
    .join('[^]*?')
  if (!new RegExp(`^${pattern}$`).test(masked[1]!)) {
    throw new Error(`shows\n${shown.trim()}\nand the block before prints\n${printed.trim()}`)
  }
}

async function isReady(port: number): Promise<boolean> {
  try {
    return (await fetch(`http://127.0.0.1:${port}/readyz`)).ok
  } catch {
    return false
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}
