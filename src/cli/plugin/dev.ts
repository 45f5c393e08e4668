/** `plugin dev`: a gateway with one plugin, which restarts whenever the plugin or its cases change. */
import { fork, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { basename, dirname, extname } from 'node:path'
import { testPlugin, type Check } from '../../testing.ts'
import { CommandError, type Arguments } from '../command.ts'
import type { DevCall } from './dev-setup.ts'
import type { DevJob, DevNews, DevOrder } from './dev-process.ts'
import { casesOf, fileOrName, liveOptions } from './test.ts'
import { watchPlugin } from './watch.ts'

const PROCESS = new URL(`./dev-process${extname(import.meta.url)}`, import.meta.url)

/** Serves until it is interrupted. @throws CommandError when the plugin cannot be served at first */
export async function developPlugin({ positionals, text, on }: Arguments): Promise<void> {
  const file = fileOrName(positionals[0] ?? '')
  if (!file.startsWith('/')) throw new CommandError(`There is no file ${file}.`, 2)
  const live = on.has('live')
  const options = await liveOptions(text.options, live, dirname(file))
  const cases = casesOf(file, text.cases)
  const job: DevJob = {
    file,
    folder: dirname(file),
    cases,
    live,
    ...(options && { options }),
    ...(text.address !== undefined && { addressOption: text.address }),
    secret: `sk-${randomBytes(16).toString('hex')}`,
    quiet: on.has('quiet'),
    stack: on.has('stack'),
  }
  const server = new DevServer(job, portOf(text.port))
  const watch = await watchPlugin(file, cases)
  const stop = Promise.race(['SIGINT', 'SIGTERM'].map((signal) => once(process, signal)))
  try {
    const first = await server.start()
    if (first.refused !== undefined) throw new CommandError(first.refused)
    process.stdout.write(welcome(first, job))
    void check(job, [])
    for (;;) {
      const changed = await Promise.race([watch.next(), stop.then(() => undefined)])
      if (!changed) return
      const began = performance.now()
      const { refused } = await server.start()
      const took = ((performance.now() - began) / 1000).toFixed(2)
      process.stdout.write(
        refused === undefined
          ? `ready again after ${took} s\n`
          : `${refused}\nNot loaded; the code of before goes on.\n`,
      )
      if (refused === undefined) void check(job, changed)
    }
  } finally {
    watch.close()
    await server.close()
  }
}

interface Started {
  readonly url: string
  readonly calls: readonly DevCall[]
  readonly refused?: string
}

class DevServer {
  readonly #job: DevJob
  #port: number
  #serving: ChildProcess | undefined
  /** A process that has loaded the gateway, and waits for its job: that is most of the time of a start. */
  #spare: ChildProcess | undefined

  constructor(job: DevJob, port: number) {
    this.#job = job
    this.#port = port
  }

  /** Replaces the serving process by one with the present code, unless it cannot be loaded. */
  async start(): Promise<Started> {
    const child = this.#spare ?? spawn()
    this.#spare = undefined
    try {
      return await this.#serveWith(child)
    } finally {
      this.#spare = spawn()
    }
  }

  async #serveWith(child: ChildProcess): Promise<Started> {
    child.send(this.#job)
    const ready = await newsOf(child)
    if ('refused' in ready) return { url: '', calls: [], refused: ready.refused }
    if (this.#serving) {
      const retired = newsOf(this.#serving)
      tell(this.#serving, { retire: true })
      await retired
    }
    tell(child, { listen: this.#port })
    const news = await newsOf(child)
    if (!('url' in news)) {
      return { url: '', calls: [], refused: 'refused' in news ? news.refused : 'it has ended' }
    }
    this.#serving = child
    this.#port = Number(new URL(news.url).port)
    return news
  }

  async close(): Promise<void> {
    this.#spare?.kill('SIGKILL')
    const child = this.#serving
    if (!child || child.exitCode !== null) return
    const ended = once(child, 'exit')
    tell(child, { retire: true })
    await ended
  }
}

function spawn(): ChildProcess {
  const flags = ['--disable-warning=ExperimentalWarning']
  const child = fork(PROCESS, { execArgv: flags, serialization: 'advanced' })
  // Waiting for news of a process rejects with its error. Nothing waits for a spare process.
  child.on('error', () => {})
  return child
}

function tell(child: ChildProcess, order: DevOrder): void {
  if (child.connected) child.send(order)
}

async function newsOf(child: ChildProcess): Promise<DevNews> {
  const ended = new AbortController()
  const { signal } = ended
  const message = once(child, 'message', { signal }).then(([news]) => news as DevNews)
  const exit = once(child, 'exit', { signal }).then(
    ([code]) => ({ refused: `the plugin has ended the process with status ${code}` }),
    (error: Error) => ({ refused: `the process cannot be used: ${error.message}` }),
  )
  for (const promise of [message, exit]) promise.catch(() => {})
  try {
    return await Promise.race([message, exit])
  } finally {
    ended.abort()
  }
}

function welcome({ url, calls }: Started, { secret, file }: DevJob): string {
  const lines = calls.map(({ name, path = '/v1/chat/completions', body }) => {
    const quoted = JSON.stringify(body).replaceAll("'", String.raw`'\''`)
    return `# ${name}\ncurl ${url}${path} -H 'authorization: Bearer ${secret}' -H 'content-type: application/json' -d '${quoted}'\n`
  })
  return `${basename(file)} is served at ${url}/v1 with the key ${secret}\n\n${lines.join('\n')}\n`
}

/** Runs the fast checks, and prints failures, and those of changed cases. */
async function check(job: DevJob, changed: readonly string[]): Promise<void> {
  const edited = new Set(changed.map((path) => basename(path, extname(path))))
  const { file, cases, options, addressOption, live } = job
  try {
    const { checks, failed } = await testPlugin(file, {
      cases,
      thorough: false,
      ...(options && !live && { options }),
      ...(addressOption !== undefined && { addressOption }),
    })
    const shown = checks.filter(({ on, result }) => {
      return result === 'failed' || edited.has((on ?? '').replace(/ \d+$/, ''))
    })
    const sums = `checks: ${checks.length - failed.length} ok, ${failed.length} failed\n`
    process.stdout.write(`${shown.map(lineOf).join('')}${sums}`)
  } catch (error) {
    process.stdout.write(`not checked: ${(error as Error).message}\n`)
  }
}

function lineOf({ name, on, result, notes }: Check): string {
  const what = [name, on].filter(Boolean).join(', ')
  return `${result === 'failed' ? 'FAILED' : result} ${what}${notes[0] ? `: ${notes[0]}` : ''}\n`
}

function portOf(text: string | undefined): number {
  if (text === undefined) return 0
  const port = Number(text)
  if (/^\d{1,5}$/.test(text) && port <= 65_535) return port
  throw new CommandError(`--port takes a number from 0 to 65535, not "${text}".`, 2)
}
