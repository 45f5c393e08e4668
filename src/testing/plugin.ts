/** Tests a plugin of any kind in a process of its own, so that nothing the plugin does can hang or end the test. */
import { fork } from 'node:child_process'
import { dirname, extname, isAbsolute, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ConfigError } from '../errors/errors.ts'
import { API_VERSION } from '../plugin.ts'
import type { ChildMessage } from './child.ts'
import type { PluginJob } from './plugin-job.ts'
import { reportOf, toCheck, type Check, type KitReport } from './report.ts'
import { secretsIn } from './secrets.ts'

export interface PluginTestOptions {
  /** Folder with the cases; by default the one beside the file, `acme.cases` for `acme.ts`. Relative to the plugin's folder. */
  readonly cases?: string
  readonly options?: Readonly<Record<string, unknown>>
  /** Name of the option with the address that is asked; by default the first of `baseURL`, `url` and `endpoint` that works. */
  readonly addressOption?: string
  /** A module whose default export is the form of a provider's bodies. Relative to the plugin's folder. */
  readonly requests?: string
  /** Seed of everything random; by default a random one. */
  readonly seed?: number
  /** ms after which an operation of the plugin counts as stalled; default 5,000. */
  readonly timeoutMs?: number
  /** The only check that runs. */
  readonly only?: string
  /** Whether checks of time and memory, which take seconds, are run. */
  readonly thorough?: boolean
  /** ms after which a run is ended, whatever the plugin does; default ten minutes. */
  readonly limitMs?: number
  /** It is called when the plugin is found. */
  readonly onStart?: (plugin: Pick<KitReport, 'kind' | 'name' | 'seed'>) => void
  /** It is called with each check as it ends. */
  readonly onCheck?: (check: Check) => void
}

const CHILD = new URL(`./child${extname(import.meta.url)}`, import.meta.url)
const TIMEOUT_MS = 5000
/** Deadline for the start of the process, before it loads the plugin. */
const START_MS = 60_000
/** A process ends two seconds after it is told to; a loaded machine may need longer. */
const END_MS = 20_000
const LAST_LINES = 3
/** The longest time of a run. */
export const LIMIT_MS = 600_000

/**
 * Tests a provider, guard or search engine in a process of its own. The report also has problems that only a process
 * can show: output, connections, errors outside of calls, and what is left when the plugin is closed.
 * @param plugin a path, an address such as `import.meta.resolve('./acme.ts')`, the name of a built-in plugin, or a
 * package
 * @throws ConfigError for a plugin, options or cases that cannot be used, or if the only check that is wanted did
 * not run
 */
export async function testPlugin(
  plugin: string,
  options: PluginTestOptions = {},
): Promise<KitReport> {
  const path = plugin.startsWith('file:') ? fileURLToPath(plugin) : plugin
  const isPath = isAbsolute(path) || path.startsWith('.')
  const folder = isPath ? dirname(resolve(path)) : process.cwd()
  const { onStart, onCheck, limitMs = LIMIT_MS, ...others } = options
  const { cases, requests } = others
  const job = {
    seed: Math.floor(Math.random() * 2 ** 31),
    ...others,
    plugin: isPath ? resolve(path) : path,
    directory: process.cwd(),
    ...(cases !== undefined && { cases: resolve(folder, cases) }),
    ...(requests !== undefined && { requests: resolve(folder, requests) }),
  }
  return new ChildRun(job, { onStart, onCheck, limitMs }).report()
}

interface Watch {
  readonly limitMs: number
  readonly onStart: PluginTestOptions['onStart']
  readonly onCheck: PluginTestOptions['onCheck']
}

class ChildRun {
  readonly #job: PluginJob
  readonly #watch: Watch
  readonly #done: Check[] = []
  readonly #child
  #current: { readonly name: string; readonly on: string | null } = { name: 'set up', on: null }
  #found: Pick<KitReport, 'kind' | 'name' | 'api'>
  #report: KitReport | undefined
  #refused: unknown
  #started = false
  #ended = false
  #silence: NodeJS.Timeout | undefined
  #errors = ''

  constructor(job: PluginJob, watch: Watch) {
    this.#job = job
    this.#watch = watch
    this.#found = { kind: 'provider', name: job.plugin, api: API_VERSION }
    this.#child = fork(CHILD, {
      execArgv: ['--expose-gc', '--disable-warning=ExperimentalWarning'],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      serialization: 'advanced',
    })
  }

  /** Waits for the end of the process, which comes in any case. */
  async report(): Promise<KitReport> {
    const child = this.#child
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.#errors = (this.#errors + text).slice(-2000)
    })
    const ended = new Promise<number | null>((resolve, reject) => {
      child.once('error', reject)
      child.once('close', (code) => resolve(code))
    })
    child.on('message', (message: ChildMessage) => this.#take(message))
    this.#expectWord(START_MS)
    const { limitMs } = this.#watch
    const limit = setTimeout(() => this.#end(`the run has taken its ${limitMs / 1000} s`), limitMs)
    child.send(this.#job)
    try {
      const code = await ended
      if (this.#refused) throw this.#refused
      if (!this.#report && !this.#ended)
        this.#fail(`it ended the process with status ${code}${this.#lastLines()}`)
    } finally {
      clearTimeout(limit)
      clearTimeout(this.#silence)
      child.kill('SIGKILL')
    }
    return this.#whole()
  }

  #take(message: ChildMessage): void {
    this.#expectWord()
    if ('progress' in message) {
      const { progress } = message
      this.#start()
      if ('ended' in progress) this.#add(...progress.ended)
      else this.#current = progress
    } else if ('report' in message) {
      this.#report = message.report
      this.#done.splice(0, this.#done.length, ...message.report.checks)
      if (message.more.some(({ name }) => name === this.#job.only)) this.#start()
      this.#add(...message.more)
      this.#current = { name: 'handles', on: null }
      clearTimeout(this.#silence)
      this.#silence = setTimeout(() => this.#end('the process did not end'), END_MS)
    } else if ('leftovers' in message) {
      const left = message.leftovers.join(', ') || 'something'
      this.#fail(`the process does not end after "close", because of ${left}`)
    } else if ('refused' in message) {
      const { refused, issues } = message
      const [source = ''] = refused.split(' is not valid:')
      this.#refused = issues ? new ConfigError(source, issues) : new Error(refused)
    } else if ('found' in message) {
      this.#found = message.found
    }
  }

  /** Ends the process unless it sends a message in time. */
  #expectWord(ms = 3 * (this.#job.timeoutMs ?? TIMEOUT_MS)): void {
    if (this.#report) return
    clearTimeout(this.#silence)
    this.#silence = setTimeout(() => {
      this.#end(`it kept the process busy for ${ms / 1000} s without a pause`)
    }, ms)
  }

  #end(problem: string): void {
    this.#ended = true
    this.#fail(problem)
    this.#child.kill('SIGKILL')
  }

  #fail(problem: string): void {
    const { name, on } = this.#current
    this.#start()
    this.#add(toCheck(name, on, [problem]))
  }

  /** Tells that checks run. A job that cannot be done is an error alone. */
  #start(): void {
    if (this.#started) return
    this.#started = true
    this.#watch.onStart?.({ ...this.#found, seed: this.#job.seed! })
  }

  #add(...checks: readonly Check[]): void {
    this.#done.push(...checks)
    const { onCheck } = this.#watch
    if (!onCheck || !this.#started) return
    const { checks: shown } = reportOf(
      this.#found,
      { seed: 0, cases: [] },
      checks,
      secretsIn(this.#job.options),
    )
    shown.forEach(onCheck)
  }

  #whole(): KitReport {
    const { seed, only } = this.#job
    const cases = this.#report?.cases ?? []
    const ended = this.#report && !this.#done.some(({ name }) => name === 'handles')
    if (ended) this.#add(toCheck('handles', null, []))
    const checks = this.#done
    const isDone = checks.some(({ name, result }) => name === only || result === 'failed')
    if (only !== undefined && !isDone) throw noCheck(only, this.#found)
    return reportOf(this.#found, { seed: seed!, cases }, checks, secretsIn(this.#job.options))
  }

  #lastLines(): string {
    const lines = this.#errors.trim().split('\n').slice(-LAST_LINES).join(' | ')
    return lines ? `: ${lines}` : ''
  }
}

function noCheck(only: string, { kind, name }: Pick<KitReport, 'kind' | 'name'>): ConfigError {
  const what = `the check "${only}" did not run for the ${kind === 'search' ? 'search engine' : kind} ${name}`
  const why = 'it is one of other plugins, or needs a case or a setup that works'
  const message = `${what}; ${why}: docs/plugins/testing.md#${only.replaceAll(' ', '-')}`
  return new ConfigError('the test', [{ path: 'only', message }])
}
