/** `serve`: starts the gateway, applies changes of its configuration, and lets running calls end at a shutdown. */
import { executionAsyncResource } from 'node:async_hooks'
import { flushCompileCache } from 'node:module'
import { createServer } from 'node:net'
import { watchConfig, type LoadedConfig, type LoadOptions } from '../config/config.ts'
import { seed, welcome } from '../gateway/seed.ts'
import { createGateway, type Gateway } from '../gateway/gateway.ts'
import { listen, type Server } from '../server/server.ts'
import { CommandError, type Arguments } from './command.ts'
import { configurationOf } from './configuration.ts'

const SIGNALS = ['SIGINT', 'SIGTERM'] as const

const NO_MODELS =
  'the configuration has no models, so clients can use none: add some under "models", see docs/models-and-prices.md'

/**
 * One object of `process.nextTick`, kept so that V8 keeps their hidden class over a garbage collection in idle time.
 * Without it each request costs 4 % more.
 */
const kept: object[] = []

/** Serves until a signal arrives. @throws ConfigError, or CommandError if the gateway cannot start */
export async function serve(args: Arguments): Promise<void> {
  process.nextTick(() => kept.push(executionAsyncResource()))
  const where = addressOf(args)
  const { loaded, options } = await configurationOf(args)
  const gateway = await createGateway(loaded)
  const { log } = gateway.runtime
  if (gateway.runtime.catalog.all().length === 0) log.warn(NO_MODELS)
  try {
    const report = await seed(gateway)
    const server = await open(gateway, where)
    const watcher = await keepUpToDate(gateway, loaded, options)
    const signalled = nextSignal()
    process.stdout.write(welcome(report, gateway, server.url))
    // Written now, because a process that is killed cannot write it.
    flushCompileCache()
    const signal = await signalled
    log.info(`${signal}: waiting for running calls to end; a second signal ends them at once`)
    await watcher.close()
    await server.close(gateway.runtime.config.server.shutdownGrace)
  } finally {
    await gateway.close()
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

/** Applies changes of the configuration one after the other. */
function keepUpToDate(gateway: Gateway, loaded: LoadedConfig, options: LoadOptions) {
  const { log } = gateway.runtime
  let working = Promise.resolve()
  const apply = async (next: LoadedConfig) => {
    try {
      await gateway.reload(next)
      log.info('the configuration was reloaded')
    } catch (error) {
      refuse(error)
    }
  }
  const refuse = (error: unknown) => {
    const reason = error instanceof Error ? error.message : String(error)
    log.error(`the configuration was not reloaded, the previous one stays in use: ${reason}`)
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

/** The name of the first signal. A second signal ends the process. */
function nextSignal(): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>()
  let received = 0
  for (const signal of SIGNALS) {
    process.on(signal, () => {
      if (++received > 1) process.exit(1)
      resolve(signal)
    })
  }
  return promise
}
