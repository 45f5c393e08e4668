import { parentPort, workerData } from 'node:worker_threads'
import { createConsola, type ConsolaReporter } from 'consola'
import type { Config } from '../../config/config.ts'
import type { Network } from '../../config/network.ts'
import { isLinkLocal } from '../../errors/addresses.ts'
import { ConfigError, type ConfigIssue } from '../../errors/errors.ts'
import {
  SinkWork,
  type NamedSink,
  type OpenSinks,
  type SinkReport,
} from '../../observe/sinks/work.ts'
import { serveClient } from '../../threads/client.ts'
import type { SinkHost, Telemetry } from '../../plugin.ts'
import { Egress } from '../../upstream/egress.ts'
import { createHost, type ClosableHost } from '../../upstream/host.ts'
import { loadEach, loadSink } from '../loader.ts'

export interface SinksInit {
  readonly sinks: Config['sinks']
  /** Folder of the configuration file. */
  readonly directory: string
  /** Dotted paths of secret settings. */
  readonly secrets: readonly string[]
  readonly egress: Config['egress']
  readonly network: Network
  /** Indexes of those that were set up at run time. */
  readonly managed: readonly number[]
  readonly gateway: string
  readonly telemetry: Telemetry
  /** One number: 1 more than the index of the sink whose code ran last; shared with the gateway. */
  readonly entered: Int32Array
  /** Indexes of sinks that are no longer set up. */
  readonly without: readonly number[]
}

/** A time longer than a sink has for a batch: its own signal ends a request. */
const REQUEST_MS = 30_000
const CONNECTIONS = 16

const init = workerData as SinksInit

serveClient(parentPort!, (report: (report: SinkReport) => void) => {
  const open = () => openAll(init, report)
  return new SinkWork({ gateway: init.gateway, open, report, entering })
})

function entering(index: number): void {
  Atomics.store(init.entered, 0, index + 1)
}

async function openAll(
  { sinks: configured, directory, secrets, telemetry, without, ...init }: SinksInit,
  report: (report: SinkReport) => void,
): Promise<OpenSinks> {
  const hosts: ClosableHost[] = []
  const sinks: NamedSink[] = []
  const close = async () => void (await Promise.allSettled(hosts.map((host) => host.close())))
  const log = logTo(report)
  const egress = new Egress(init.egress, init.network)
  const hostOf = (name: string, index: number): SinkHost => {
    entering(index)
    const ms = REQUEST_MS
    const limits = { timeoutMs: ms, firstPartTimeoutMs: ms, idleTimeoutMs: ms }
    const mask = (secrets: readonly string[]) => report({ sink: name, secrets })
    const refuses = init.managed.includes(index) ? isLinkLocal : undefined
    const route = egress.route(configured[index]!.egress, refuses)
    const made = createHost(name, { ...limits, connections: CONNECTIONS }, log, { mask, route })
    hosts.push(made)
    return { ...made.host, telemetry }
  }
  try {
    const origin = { directory, secrets: new Set(secrets) }
    const wanted = [...configured.entries()].filter(([index]) => !without.includes(index))
    await loadEach(wanted, async ([index, settings]) => {
      entering(index)
      const createHost = (name: string) => hostOf(name, index)
      const loaded = await loadSink(index, settings, { ...origin, createHost })
      const isTaken = sinks.some(({ name }) => name === loaded.name)
      sinks.push(loaded)
      if (isTaken) throw new ConfigError('the configuration', [duplicateName(index, loaded.name)])
    })
    return { issues: [], sinks, close }
  } catch (error) {
    await Promise.allSettled(sinks.map(({ sink }) => sink.close?.()))
    await close()
    const issues = error instanceof ConfigError ? error.issues : [failed(error)]
    return { issues, sinks: [], close }
  }
}

function duplicateName(index: number, name: string): ConfigIssue {
  const message = `there is a sink ${JSON.stringify(name)} already; give each a name of its own`
  return { path: `sinks.${index}.name`, message }
}

function failed(error: unknown): ConfigIssue {
  return { path: 'sinks', message: `could not be set up: ${(error as Error).message}` }
}

/** A log whose lines go to the log of the gateway, which removes secrets. */
function logTo(report: (report: SinkReport) => void) {
  const reporter: ConsolaReporter = {
    log({ level, tag, args }) {
      const text = args.map((arg) => (arg instanceof Error ? (arg.stack ?? arg.message) : arg))
      const line = `${tag === '' ? '' : `the sink ${tag}: `}${text.join(' ')}`
      const name = level <= 0 ? 'error' : level === 1 ? 'warn' : level <= 3 ? 'info' : 'debug'
      report({ level: name, line })
    },
  }
  return createConsola({ level: 4, reporters: [reporter], throttle: 0 })
}
