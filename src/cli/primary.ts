/** `serve` with several workers: this process starts them, and they serve. */
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { RemoteError } from '../threads/channel.ts'
import { Workers } from '../cluster/workers.ts'
import { secretsIn } from '../errors/issues.ts'
import { createLog } from '../gateway/log.ts'
import { warnOfRestart } from '../gateway/restart-settings.ts'
import { logEvent } from '../observe/events.ts'
import { Mask } from '../observe/mask.ts'
import { CommandError, type Arguments } from './command.ts'
import type { configurationOf } from './configuration.ts'
import { lastLine } from './fatal.ts'
import { probePort } from './open-port.ts'
import { keepUpToDate } from './reload.ts'
import { limitStop, logWarnings, Stop, type StopReason } from './stop.ts'
import type { WorkerStart } from './worker.ts'

/** TypeScript in a checkout and JavaScript in a build, like this file. */
const SCRIPT = fileURLToPath(
  new URL(`./worker-process${extname(import.meta.url)}`, import.meta.url),
)
/** Exit statuses of a worker with a meaning beyond a failure. */
const STATUSES = [70, 74] as const

/** Serves with several workers until there is a reason to stop. @throws ConfigError, CommandError */
export async function serveWithWorkers(
  { loaded, options }: Awaited<ReturnType<typeof configurationOf>>,
  count: number,
  args: Arguments,
): Promise<void> {
  lastLine.isJson = loaded.config.log.format === 'json'
  const mask = new Mask()
  mask.use(secretsIn({ path: [], value: loaded.config, secrets: loaded.secrets }))
  const log = mask.over(createLog(loaded))
  if (lastLine.isJson) logWarnings(log)
  const start: WorkerStart = { args, isTerminal: process.stdout.isTTY === true }
  const workers = new Workers({ count, script: SCRIPT, start, log })
  let watcher: Awaited<ReturnType<typeof keepUpToDate>> | undefined
  const stop = new Stop({
    lost: workers.lost,
    onFault(error) {
      log.error('a fault of the process that starts the workers', error)
      return 'stop'
    },
    onReload: () => watcher?.reload(),
  })
  let reason: StopReason
  let status = 0
  try {
    await probePort(loaded.config.server)
    await workers.open().catch(asOwn)
    let { config } = loaded
    watcher = await keepUpToDate({ log, loaded, options }, async (next) => {
      mask.use(secretsIn({ path: [], value: next.config, secrets: next.secrets }))
      await workers.reload()
      warnOfRestart(log, config, next.config)
      config = next.config
    })
    workers.announce()
    reason = await stop.requested
    logEvent(log, 'info', {
      event: 'stopping',
      message: `${reason.why}: waiting for running calls to end; a second signal ends them`,
      members: { why: reason.why, workers: count },
    })
    limitStop(config.server, stop.hurry)
    await watcher.close()
    status = await workers.close(stop.hurry)
  } finally {
    stop.release()
  }
  if (stop.hurry.aborted) throw new CommandError('Ended by a second signal.')
  const worst = STATUSES.findLast((one) => one === status || one === reason.status)
  if (worst !== undefined) throw new CommandError(`Ended by ${reason.why}.`, worst)
}

function asOwn(error: unknown): never {
  if (!(error instanceof RemoteError)) throw new CommandError((error as Error).message, 70)
  const { message, exitCode, issues } = error.failure
  // Its message is for a person, and its issues are for a program.
  if (issues) throw error
  throw new CommandError(message, STATUSES.find((one) => one === exitCode) ?? 1)
}
