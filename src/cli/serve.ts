/** `serve`: starts the gateway, applies changes of its configuration, and lets running calls end at a shutdown. */
import { flushCompileCache } from 'node:module'
import { createGateway } from '../gateway/gateway.ts'
import { callableUrl } from '../gateway/welcome.ts'
import { logEvent } from '../observe/events.ts'
import { CommandError, type Arguments } from './command.ts'
import { configurationOf } from './configuration.ts'
import type { Demo } from './demo/demo.ts'
import { lastLine } from './fatal.ts'
import { addressOf, openPort, type Address } from './open-port.ts'
import { keepUpToDate } from './reload.ts'
import {
  closeGateway,
  limitStop,
  logWarnings,
  ofLedger,
  prepareState,
  tell,
  warnOfConfiguration,
  withBoundOutput,
  withChangesLogged,
} from './serving.ts'
import { Stop, type StopReason } from './stop.ts'

/** Serves until there is a reason to stop. @throws ConfigError, or CommandError if the gateway cannot start or end well */
export async function serve(args: Arguments): Promise<void> {
  lastLine.isJson = process.env.SLUICEGATE__LOG__FORMAT === 'json'
  const where = addressOf(args)
  await withBoundOutput(() => serveAt(where, args))
}

/** @param where replaces the address of the configuration */
async function serveAt(where: Address, args: Arguments): Promise<void> {
  const demo = args.on.has('demo')
    ? await (await import('./demo/demo.ts')).openDemo(args)
    : undefined
  try {
    const configuration = demo ?? (await configurationOf(args))
    const { workers } = configuration.loaded.config.server
    if (workers === 1) await serveOn(configuration, where, args, demo)
    else await (await import('./primary.ts')).serveWithWorkers(configuration, args)
  } finally {
    demo?.release()
  }
}

/** @param demo whose configuration it is */
async function serveOn(
  { loaded, options }: Awaited<ReturnType<typeof configurationOf>>,
  where: Address,
  args: Arguments,
  demo: Demo | undefined,
): Promise<void> {
  lastLine.isJson = loaded.config.log.format === 'json'
  const gateway = await createGateway(loaded, { adminToken: true, demo: demo !== undefined })
  const { log } = gateway.runtime
  if (lastLine.isJson) logWarnings(log)
  warnOfConfiguration(gateway)
  let watcher: Awaited<ReturnType<typeof keepUpToDate>> | undefined
  const stop = new Stop({
    lost: gateway.runtime.ledger.lost.then(ofLedger),
    onFault: (error, kind) => gateway.reportFault(error, kind),
    onReload: () => watcher?.reload(),
  })
  let reason: StopReason | undefined
  let stopAsking: (() => void) | undefined
  try {
    const isTerminal = process.stdout.isTTY
    const isSeen = isTerminal || args.on.has('print-key')
    const report = await prepareState(gateway, isSeen, demo)
    const server = await openPort(gateway, where)
    watcher = await keepUpToDate({ log, loaded, options }, (next) =>
      withChangesLogged(gateway, () => gateway.reload(next)),
    )
    await tell({ gateway, report, server }, isTerminal)
    stopAsking = demo?.keepAsking(callableUrl(server.url))
    // Written now, because a process that is killed cannot write it.
    flushCompileCache()
    reason = await stop.requested
    logEvent(log, 'info', {
      event: 'stopping',
      message: `${reason.why}: waiting for running calls to end; a second signal ends them`,
      members: { why: reason.why, running: gateway.running.size },
    })
    limitStop(gateway.runtime.config.server)
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
