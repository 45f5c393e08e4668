/** `serve` in one process. */
import { withChangesLogged } from '../gateway/changes.ts'
import { flushCompileCache } from 'node:module'
import { packageVersion } from '../gateway/version.ts'
import { callableUrl } from '../gateway/welcome.ts'
import { logEvent } from '../observe/events.ts'
import { announceGateway } from '../state/sqlite/folder.ts'
import { CommandError, type Arguments } from './command.ts'
import type { configurationOf } from './configuration.ts'
import type { Demo } from './demo/demo.ts'
import { openPort, probePort } from './open-port.ts'
import { keepUpToDate } from './reload.ts'
import {
  closeGateway,
  freeStartMemory,
  gatewayToServe,
  ofLedger,
  prepareState,
  tell,
  warnOfConfiguration,
} from './serving.ts'
import { limitStop, Stop, stopTeller, type StopReason } from './stop.ts'

/**
 * Serves in this process: starts the gateway, applies changes of its configuration, and lets running calls end at a
 * shutdown.
 * @param demo the demo, whose configuration it is
 * @throws ConfigError, or CommandError if the gateway cannot start or end well
 */
export async function serveAlone(
  { loaded, options }: Awaited<ReturnType<typeof configurationOf>>,
  args: Arguments,
  demo: Demo | undefined,
): Promise<void> {
  const gateway = await gatewayToServe(loaded, { demo })
  const { log } = gateway.runtime
  warnOfConfiguration(gateway)
  let watcher: Awaited<ReturnType<typeof keepUpToDate>> | undefined
  const stop = new Stop({
    lost: gateway.runtime.ledger.lost.then(ofLedger),
    onFault: (error, kind) => gateway.reportFault(error, kind),
    onReload: () => watcher?.reload(),
  })
  let patience: AbortSignal | undefined
  let reason: StopReason | undefined
  let endDemo: (() => Promise<void>) | undefined
  let withdraw: (() => void) | undefined
  try {
    const isTerminal = process.stdout.isTTY
    const isSeen = isTerminal || args.on.has('print-key')
    await probePort(gateway.runtime.config.server)
    const { report } = await prepareState(gateway, isSeen, demo)
    const server = await openPort(gateway)
    const { state } = gateway.runtime.config
    if (state.driver === 'file') {
      withdraw = announceGateway(state.path, {
        url: callableUrl(server.url),
        pid: process.pid,
        started_at: new Date().toISOString(),
        version: packageVersion(),
      })
    }
    using _freeing = freeStartMemory(gateway)
    watcher = await keepUpToDate({ log, loaded, options }, async (next) => {
      await withChangesLogged(gateway, () => gateway.reload(next))
      if (!demo) await gateway.seeding.again()
    })
    const printed = report.then(
      (done) => done && tell({ gateway, report: done, server }, isTerminal),
    )
    await Promise.race([printed, stop.requested])
    endDemo = demo?.begin(gateway, callableUrl(server.url))
    // Written now, because a process that is killed cannot write it.
    flushCompileCache()
    reason = await stop.requested
    logEvent(log, 'info', {
      event: 'stopping',
      message: `${reason.why}: waiting for running calls to end; a second signal ends them`,
      members: { why: reason.why, running: gateway.running.size },
    })
    patience = limitStop(gateway.runtime.config.server, stop.hurry)
    const tellStopped = stopTeller(log)
    await endDemo?.()
    await watcher.close()
    tellStopped(await server.close({ hurry: stop.hurry }))
  } finally {
    await endDemo?.()
    withdraw?.()
    await closeGateway(gateway, patience)
    stop.release()
  }
  if (stop.hurry.aborted) throw new CommandError('Ended by a second signal.')
  if (reason.status !== 0) throw new CommandError(`Ended by ${reason.why}.`, reason.status)
}
