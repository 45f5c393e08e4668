/** The start and the end of a process that serves, alone or as one of several. */
import { executionAsyncResource } from 'node:async_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { LoadedConfig } from '../config/config.ts'
import { readEnvironment } from '../config/environment.ts'
import { starterHints } from '../config/starter.ts'
import { LostState } from '../errors/errors.ts'
import { createGateway, type Gateway, type WorkerPlace } from '../gateway/gateway.ts'
import { logPrices } from '../gateway/changes.ts'
import { logNotices } from '../gateway/notices.ts'
import type { Seeding, SeedReport } from '../gateway/seed.ts'
import { waysInWords } from '../upstream/egress.ts'
import { callableUrl, started, welcome } from '../gateway/welcome.ts'
import { tokensOf } from '../server/admin/auth.ts'
import { signInLink } from '../server/admin/session.ts'
import type { Server } from '../server/server.ts'
import { CommandError } from './command.ts'
import type { Demo } from './demo/demo.ts'
import { lastLine } from './fatal.ts'
import { logWarnings, type StopReason } from './stop.ts'

interface Serving {
  readonly gateway: Gateway
  readonly server: Pick<Server, 'url'>
  readonly report: SeedReport
}

/**
 * One object of `process.nextTick`, kept so that V8 keeps their hidden class over a garbage collection in idle time.
 * Without it each request costs 4 % more.
 */
const kept: object[] = []

/** The first requests after a start are answered by then. */
const AFTER_START_MS = 2000

const NO_MODELS =
  'the configuration has no models, so clients can use none: add some under "models", see docs/models-and-prices.md'

/** The gateway of a process that serves; without a configured admin token it gets one. Called once. */
export async function gatewayToServe(
  loaded: LoadedConfig,
  options: { readonly demo?: Demo | undefined; readonly worker?: WorkerPlace },
): Promise<Gateway> {
  process.nextTick(() => kept.push(executionAsyncResource()))
  lastLine.isJson = loaded.config.log.format === 'json'
  const gateway = await createGateway(loaded, { ...options, adminToken: true })
  if (lastLine.isJson) logWarnings(gateway.runtime.log)
  return gateway
}

/**
 * Gives back what only the start needed, about 20 MB, once that is over: V8 keeps the room of young objects until a full
 * collection. That takes a tenth of a second, and is left out where a call would wait for it.
 * @returns the timer; its owner clears it
 */
export function freeStartMemory({ running }: Gateway): NodeJS.Timeout {
  return setTimeout(() => {
    if (running.size > 0) return
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as NodeJS.GCFunction
    collect({ type: 'major', execution: 'sync', flavor: 'last-resort' })
  }, AFTER_START_MS).unref()
}

export function warnOfConfiguration(gateway: Gateway): void {
  const { log, catalog, egress } = gateway.runtime
  if (catalog.all().length === 0) log.warn(NO_MODELS)
  for (const text of gateway.loaded.network.warnings) log.warn(text)
  // Without a proxy every way is the usual one.
  const isUsual = egress.ways.every(({ via }) => via === null)
  if (!isUsual) for (const line of waysInWords(egress.ways)) log.info(line)
  logNotices(gateway.runtime)
}

/**
 * Logs prices that have changed since the last start, and creates the accounts and keys of the configuration.
 * @param isSeen whether a person sees a new key.
 * @param demo has created everything
 * @returns as {@link Seeding.begin}
 */
export async function prepareState(
  gateway: Gateway,
  isSeen: boolean,
  demo?: Demo,
): ReturnType<Seeding['begin']> {
  const { prices, catalog } = gateway.runtime
  logPrices(gateway.runtime, await prices.exchange(catalog.at().all()))
  if (demo) return { report: Promise.resolve(demo.report(isSeen)) }
  return gateway.seeding.begin({
    secret: process.env.SLUICEGATE_FIRST_KEY || undefined,
    generate: isSeen,
  })
}

/** Prints the report of a start: for a person, or as a line of the log. @param isTerminal whether a person reads it */
export async function tell(
  { gateway, report, server: { url } }: Serving,
  isTerminal: boolean,
): Promise<void> {
  const { config } = gateway.runtime
  if (config.log.format === 'json') {
    process.stdout.write(`${JSON.stringify(started(report, gateway, url))}\n`)
    return
  }
  const folders = [process.cwd(), gateway.loaded.directory]
  const hints =
    config.extends === 'starter'
      ? await starterHints(await readEnvironment(process.env, folders))
      : []
  // What stands in a log is no credential: the link is for the person at the terminal.
  const [token] = isTerminal && config.admin.console ? tokensOf(config) : []
  const link =
    token &&
    (await signInLink(
      config.server.publicUrl ?? callableUrl(url),
      token,
      gateway.runtime.credentials,
    ))
  process.stdout.write(welcome(report, gateway, url, hints, link))
}

/** @throws CommandError if something was not written to the disk */
export async function closeGateway(gateway: Gateway, patience?: AbortSignal): Promise<void> {
  try {
    await gateway.close(patience)
  } catch (error) {
    if (error instanceof LostState) throw error
    const reason = error instanceof Error ? error.message : String(error)
    throw new CommandError(`The state could not be closed: ${reason}.`, 74)
  }
}

/** Why a process stops that has lost its ledger. Closing the state reports problems for an operator, if any. */
export function ofLedger(reason: string): StopReason {
  return { why: `the end of the ledger: ${reason}`, status: 70 }
}
