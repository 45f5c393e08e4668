/** The process of `plugin dev` that serves: one for each state of the plugin's code. */
import { createConsola, LogLevels } from 'consola'
import * as v from 'valibot'
import { once } from 'node:events'
import { formatWithOptions } from 'node:util'
import { setTimeout as sleep } from 'node:timers/promises'
import type { LoadedConfig, UserConfig } from '../../config/config.ts'
import { NO_NETWORK } from '../../config/network.ts'
import { Origins } from '../../config/origins.ts'
import { configSchema } from '../../config/schema.ts'
import { createGateway, type Gateway } from '../../gateway/gateway.ts'
import { findPlugin } from '../../gateway/plugin-code.ts'
import { seed } from '../../gateway/seed.ts'
import { listen, type Server } from '../../server/server.ts'
import { placeIn } from '../../testing/code-frame.ts'
import { describeError } from '../../testing/report.ts'
import { secretsIn } from '../../testing/secrets.ts'
import { setUpDev, type DevCall, type DevSetup, type TracedCall } from './dev-setup.ts'

export interface DevJob {
  readonly file: string
  readonly folder: string
  readonly cases: string
  readonly live: boolean
  readonly options?: Readonly<Record<string, unknown>>
  readonly addressOption?: string
  readonly secret: string
  readonly quiet: boolean
  readonly stack: boolean
}

export type DevOrder = { readonly listen: number } | { readonly retire: true }

export type DevNews =
  /** Everything is set up, and nothing listens yet. */
  | { readonly prepared: true }
  | { readonly url: string; readonly calls: readonly DevCall[] }
  /** The port of the process is free. */
  | { readonly retired: true }
  | { readonly refused: string }

const GRACE_SECONDS = 1
/** The number of tries to listen: a port that another process has just left may take a moment. */
const TRIES = 50
const TRY_MS = 20

process.once('message', (job: DevJob) => void serve(job))

async function serve(job: DevJob): Promise<void> {
  const { file, folder, secret, cases, live, quiet, stack } = job
  const { options, addressOption } = job
  const show = (line: string) => void process.stdout.write(line)
  const outside = (error: unknown) => {
    const place = placeIn(error, folder, stack).join('\n')
    show(`the plugin, in a timer or callback: ${describeError(error)}\n${place}\n`)
  }
  process.on('uncaughtException', outside)
  process.on('unhandledRejection', outside)
  try {
    const found = await findPlugin(file, folder)
    const trace = {
      folder,
      stack,
      secrets: secretsIn(options),
      show: (call: TracedCall) => show(quiet ? `${call.title}: ${call.end}\n` : blockOf(call)),
    }
    const settings = { found, cases, live, options, addressOption, secret, trace, show }
    const setup = await setUpDev(settings)
    const gateway = await gatewayOf(setup, folder, show)
    tell({ prepared: true })
    const [order] = (await once(process, 'message')) as [DevOrder]
    const server = await listenAt(gateway, 'listen' in order ? order.listen : 0)
    tell({ url: server.url, calls: setup.calls })
    void setup.play?.().catch(outside)
    await retirement()
    await retire(server, gateway, setup)
  } catch (error) {
    const place = placeIn(error, folder, stack)
    const reason = error instanceof Error ? error.message : describeError(error)
    tell({ refused: [reason, ...place].join('\n') })
  }
  process.disconnect()
}

/** A gateway in memory with the one key that its configuration seeds. @param show prints what the plugin logs by its host */
async function gatewayOf(
  { config }: DevSetup,
  directory: string,
  show: (line: string) => void,
): Promise<Gateway> {
  // Only plugins log with a tag. The lines of sinks, which run in a thread of their own, begin with their name.
  const hasSinks = (config.sinks ?? []).length > 0
  const log = createConsola({
    level: LogLevels.verbose,
    reporters: [
      {
        log({ level, type, tag, args }) {
          const line = `${type}: ${formatWithOptions({ colors: false }, ...args)}`
          if (tag !== '') show(`${tag} logs ${line}\n`)
          else if (hasSinks && level <= LogLevels.warn) process.stderr.write(`${line}\n`)
        },
      },
    ],
  })
  const gateway = await createGateway(loadedOf(config, directory), { log })
  await seed(gateway)
  return gateway
}

function loadedOf(config: UserConfig, directory: string): LoadedConfig {
  const whole = { ...config, state: { driver: 'memory' as const }, log: { access: false } }
  const layers = [{ origin: { from: 'command line' as const, name: 'plugin dev' }, value: whole }]
  return {
    // Its models have prices of their own.
    config: v.parse(configSchema, whole) as LoadedConfig['config'],
    origins: new Origins({ layers, set: new Map(), models: {}, listed: new WeakMap() }),
    file: 'plugin dev',
    directory,
    secrets: new Set(),
    folders: [],
    certificates: [],
    network: NO_NETWORK,
    sealing: {},
    otherDataFolders: [],
  }
}

async function listenAt(gateway: Gateway, port: number): Promise<Server> {
  for (let tries = 1; ; tries++) {
    try {
      return await listen(gateway, { host: '127.0.0.1', port })
    } catch (error) {
      if (tries === TRIES || (error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
      await sleep(TRY_MS)
    }
  }
}

/** Waits until another process takes over, or the command ends. */
async function retirement(): Promise<void> {
  const ended = new AbortController()
  const { signal } = ended
  const wait = (name: string) => once(process, name, { signal }).catch(() => {})
  await Promise.race([wait('message'), wait('disconnect')])
  ended.abort()
}

async function retire(server: Server, gateway: Gateway, setup: DevSetup): Promise<void> {
  const closing = server.close({ delaySeconds: 0, graceSeconds: GRACE_SECONDS })
  tell({ retired: true })
  await closing
  await gateway.close()
  await setup.close()
}

function blockOf({ title, lines, end }: TracedCall): string {
  return `${[title, ...lines, end].join('\n  ')}\n\n`
}

function tell(news: DevNews): void {
  if (process.connected) process.send?.(news)
}
