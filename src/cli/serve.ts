/** `serve`: starts the gateway, applies changes of its configuration, and lets running calls end at a shutdown. */
import { executionAsyncResource } from 'node:async_hooks'
import { flushCompileCache } from 'node:module'
import { createServer } from 'node:net'
import { isDeepStrictEqual } from 'node:util'
import { watchConfig, type LoadedConfig, type LoadOptions } from '../config/config.ts'
import { starterHints } from '../config/starter.ts'
import { ConfigError, LostState } from '../errors/errors.ts'
import { seed, type SeedReport } from '../gateway/seed.ts'
import { callableUrl, started, welcome } from '../gateway/welcome.ts'
import { createGateway, type Gateway } from '../gateway/gateway.ts'
import { tokensOf } from '../server/admin/auth.ts'
import { signInLink } from '../server/admin/session.ts'
import { logEvent } from '../observe/events.ts'
import { listen, type Server } from '../server/server.ts'
import { boundOutput } from './bounded-output.ts'
import { lint } from '../models/lint.ts'
import { priceChanges, type PriceChange } from '../models/price-changes.ts'
import { CommandError, type Arguments } from './command.ts'
import { configurationOf } from './configuration.ts'
import type { Demo } from './demo/demo.ts'
import { fatalLine, lastLine } from './fatal.ts'
import { Stop, type StopReason } from './stop.ts'

const NO_MODELS =
  'the configuration has no models, so clients can use none: add some under "models", see docs/models-and-prices.md'

/**
 * One object of `process.nextTick`, kept so that V8 keeps their hidden class over a garbage collection in idle time.
 * Without it each request costs 4 % more.
 */
const kept: object[] = []

/** For a reader to take the last lines of the log. */
const FLUSH_MS = 2_000
/** Time after the grace within which the process has to be gone. */
const LIMIT_MS = 12_000

/** Serves until there is a reason to stop. @throws ConfigError, or CommandError if the gateway cannot start or end well */
export async function serve(args: Arguments): Promise<void> {
  lastLine.isJson = process.env.SLUICEGATE__LOG__FORMAT === 'json'
  process.nextTick(() => kept.push(executionAsyncResource()))
  const where = addressOf(args)
  const outputs = [process.stdout, process.stderr].map((stream) => boundOutput(stream))
  try {
    await serveAt(where, args)
  } finally {
    await Promise.all(outputs.map((output) => output.flush(FLUSH_MS)))
    for (const output of outputs) output.release()
  }
}

/** @param where replaces the address of the configuration */
async function serveAt(where: ReturnType<typeof addressOf>, args: Arguments): Promise<void> {
  const demo = args.on.has('demo')
    ? await (await import('./demo/demo.ts')).openDemo(args)
    : undefined
  try {
    await serveOn(demo ?? (await configurationOf(args)), where, args, demo)
  } finally {
    demo?.release()
  }
}

/** @param demo whose configuration it is */
async function serveOn(
  { loaded, options }: Awaited<ReturnType<typeof configurationOf>>,
  where: ReturnType<typeof addressOf>,
  args: Arguments,
  demo: Demo | undefined,
): Promise<void> {
  lastLine.isJson = loaded.config.log.format === 'json'
  const gateway = await createGateway(loaded, { adminToken: true, demo: demo !== undefined })
  const { log } = gateway.runtime
  if (lastLine.isJson) logWarnings(log)
  if (gateway.runtime.catalog.all().length === 0) log.warn(NO_MODELS)
  warnOfModels(gateway)
  let watcher: Awaited<ReturnType<typeof keepUpToDate>> | undefined
  const stop = new Stop({
    lost: gateway.runtime.ledger.lost,
    onFault: (error, kind) => gateway.reportFault(error, kind),
    onReload: () => watcher?.reload(),
  })
  let reason: StopReason | undefined
  let stopAsking: (() => void) | undefined
  try {
    const { prices, catalog } = gateway.runtime
    logPrices(log, await prices.exchange(catalog.at().all()))
    const isSeen = process.stdout.isTTY || args.on.has('print-key')
    const report = demo
      ? demo.report(isSeen)
      : await seed(gateway, {
          secret: process.env.SLUICEGATE_FIRST_KEY || undefined,
          generate: isSeen,
        })
    const server = await open(gateway, where)
    watcher = await keepUpToDate(gateway, loaded, options)
    await tell(report, gateway, server.url)
    stopAsking = demo?.keepAsking(callableUrl(server.url))
    // Written now, because a process that is killed cannot write it.
    flushCompileCache()
    reason = await stop.requested
    logEvent(log, 'info', {
      event: 'stopping',
      message: `${reason.why}: waiting for running calls to end; a second signal ends them`,
      members: { why: reason.why, running: gateway.running.size },
    })
    limitStop(gateway)
    stopAsking?.()
    await watcher.close()
    await server.close({ hurry: stop.hurry })
  } finally {
    stopAsking?.()
    await closeGateway(gateway)
    stop.release()
  }
  if (stop.hurry.aborted) throw new CommandError('Ended by a second signal.')
  if (reason.status !== 0) throw new CommandError(`Ended by ${reason.why}.`, reason.status)
}

/** Makes warnings of Node.js lines of the log, in place of text. */
function logWarnings(log: Gateway['runtime']['log']): void {
  process.removeAllListeners('warning')
  process.on('warning', ({ name, message }) => {
    logEvent(log, 'warn', { event: 'process.warning', message: `${name}: ${message}` })
  })
}

/** Prints what a start tells: for a person, or as a line of the log. */
async function tell(report: SeedReport, gateway: Gateway, url: string): Promise<void> {
  const { config } = gateway.runtime
  if (config.log.format === 'json') {
    process.stdout.write(`${JSON.stringify(started(report, gateway, url))}\n`)
    return
  }
  const hints = config.extends === 'starter' ? await starterHints(process.env) : []
  // What stands in a log is no credential: the link is for the person at the terminal.
  const [token] = process.stdout.isTTY && config.admin.console ? tokensOf(config) : []
  const link = token && signInLink(callableUrl(url), token)
  process.stdout.write(welcome(report, gateway, url, hints, link))
}

/** Ends the process when something keeps it from ending by itself. */
function limitStop({ runtime: { config } }: Gateway): void {
  const { shutdownDelay, shutdownGrace } = config.server
  const giveUp = () => {
    const late = new Error('The gateway could not be ended in time.')
    process.stderr.write(fatalLine(late, late.message))
    process.exit(70)
  }
  setTimeout(giveUp, (shutdownDelay + shutdownGrace) * 1000 + LIMIT_MS).unref()
}

/** @throws CommandError if something was not written down */
async function closeGateway(gateway: Gateway): Promise<void> {
  try {
    await gateway.close()
  } catch (error) {
    if (error instanceof LostState) throw error
    const reason = error instanceof Error ? error.message : String(error)
    throw new CommandError(`The state could not be closed: ${reason}.`, 74)
  }
}

function addressOf({ text: { port, host } }: Arguments) {
  if (port !== undefined && !(/^\d{1,5}$/.test(port) && Number(port) <= 65_535)) {
    throw new CommandError(`--port takes a number from 0 to 65535, not ${JSON.stringify(port)}.`, 2)
  }
  return { ...(port !== undefined && { port: Number(port) }), ...(host !== undefined && { host }) }
}

async function open(
  gateway: Gateway,
  where: { readonly port?: number; readonly host?: string },
): Promise<Server> {
  try {
    return await listen(gateway, where)
  } catch (error) {
    const { port, host } = { ...gateway.runtime.config.server, ...where }
    const reason = REASONS[(await refusalOf(host, port)) ?? '']
    if (!reason) throw error
    throw new CommandError(`Cannot listen on ${host}, port ${port}: ${reason}`)
  }
}

/** The system's error code for an address that cannot be used; listhen does not report it. */
function refusalOf(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code))
    server.listen(port, host, () => server.close(() => resolve(undefined)))
  })
}

/** Advice for an address that cannot be used, by error code. */
const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE:
    'another process uses this port. Stop it, or choose another port with --port or server.port.',
  EACCES: 'this user is not allowed to. Choose a port above 1023 with --port or server.port.',
  EADDRNOTAVAIL:
    'this machine does not have the address. Choose another one with --host or server.host.',
  ENOTFOUND: 'the host does not exist. Choose another one with --host or server.host.',
}

/** Logs what is probably not meant in the entries of models. */
function warnOfModels({ runtime: { catalog, log } }: Gateway): void {
  for (const { model, code, level, message } of lint(catalog.at().all())) {
    if (level === 'warning') log.warn(`${code}: ${model}: ${message}`)
  }
}

/** Logs prices that are other ones than before. */
function logPrices(log: Gateway['runtime']['log'], changes: readonly PriceChange[]): void {
  for (const { text, isSuspicious } of changes) {
    if (isSuspicious) log.warn(`price-moved: ${text}`)
    else log.info(`price: ${text}`)
  }
}

/** Most paths that a line of the log names. */
const MOST_PATHS = 50

/** Paths of the settings that differ, two levels deep; never their values. */
function changedPaths(before: object, after: object): string[] {
  const found: string[] = []
  for (const section of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [old, now] = [before, after].map((one) => (one as Record<string, object>)[section] ?? {})
    for (const name of new Set([...Object.keys(old!), ...Object.keys(now!)])) {
      const [from, to] = [old, now].map((one) => (one as Record<string, unknown>)[name])
      if (!isDeepStrictEqual(from, to)) found.push(`${section}.${name}`)
    }
  }
  return found.slice(0, MOST_PATHS)
}

/** Applies changes of the configuration one after the other. */
function keepUpToDate(gateway: Gateway, loaded: LoadedConfig, options: LoadOptions) {
  const { log } = gateway.runtime
  let working = Promise.resolve()
  let settings = loaded
  const apply = async (next: LoadedConfig) => {
    try {
      const before = gateway.runtime.catalog.at().all()
      await gateway.reload(next)
      logEvent(log, 'info', {
        event: 'config.reloaded',
        message: 'the configuration was reloaded',
        members: { changed: changedPaths(settings.config, next.config) },
      })
      settings = next
      const after = gateway.runtime.catalog.at().all()
      logPrices(log, priceChanges(before, after))
      warnOfModels(gateway)
      await gateway.runtime.prices.exchange(after)
    } catch (error) {
      refuse(error)
    }
  }
  const refuse = (error: unknown) => {
    const reason = error instanceof Error ? error.message : String(error)
    logEvent(log, 'error', {
      event: 'config.refused',
      message: `the configuration was not reloaded, the previous one stays in use: ${reason}`,
      members: { paths: error instanceof ConfigError ? error.issues.map(({ path }) => path) : [] },
    })
  }
  return watchConfig(
    loaded,
    (next) => {
      working = working.then(() => apply(next))
    },
    refuse,
    options,
  )
}
