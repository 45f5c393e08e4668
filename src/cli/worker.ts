/** A worker: serves as one of several processes, and obeys the process that has started it. */
import { hash } from 'node:crypto'
import { flushCompileCache } from 'node:module'
import type { Channel } from '../threads/channel.ts'
import { sharedStarter } from '../cluster/threads.ts'
import { loadConfig, type LoadedConfig, type LoadOptions } from '../config/config.ts'
import { withChangesLogged } from '../gateway/changes.ts'
import type { Gateway, WorkerPlace } from '../gateway/gateway.ts'
import type { PreparedConfig } from '../gateway/generations.ts'
import { logEvent } from '../observe/events.ts'
import { startThreadsBy } from '../threads/client.ts'
import { familiesOf } from '../server/metrics.ts'
import { notReady } from '../server/handler.ts'
import { withBoundOutput } from './bounded-output.ts'
import { CommandError, type Arguments } from './command.ts'
import { configurationOf } from './configuration.ts'
import { failed } from './fatal.ts'
import { openPort } from './open-port.ts'
import {
  closeGateway,
  freeStartMemory,
  gatewayToServe,
  ofLedger,
  prepareState,
  tell,
  warnOfConfiguration,
} from './serving.ts'
import { limitStop, Stop, stopTeller } from './stop.ts'
import type { UnservedName } from '../models/unserved.ts'
import type { MetricFamily } from '../observe/prometheus.ts'
import type { Reason, Siblings } from '../server/siblings.ts'

export interface WorkerStart {
  readonly args: Arguments
  readonly isTerminal: boolean
}

export type WorkerOrder = WorkerStart & WorkerPlace

/** Serves, and then ends the process. @returns a digest of the configuration, once it serves. @throws why it cannot */
export function serveAsWorker(order: WorkerOrder, channel: Channel): Promise<string> {
  const opened = Promise.withResolvers<string>()
  let isOpen = false
  const serving = withBoundOutput(() =>
    serveUntilTold(order, channel, (digest) => {
      isOpen = true
      opened.resolve(digest)
    }),
  )
  serving.then(
    () => process.exit(),
    (error: unknown) => {
      if (isOpen) process.exit(failed(error))
      opened.reject(error)
      // The answer goes out before.
      setImmediate(() => process.disconnect())
    },
  )
  return opened.promise
}

async function serveUntilTold(
  { args, isTerminal, number, count }: WorkerOrder,
  channel: Channel,
  opened: (digest: string) => void,
): Promise<void> {
  const { loaded, options } = await configurationOf(args)
  startThreadsBy(sharedStarter(channel))
  const gateway = await gatewayToServe(loaded, { worker: { number, count } })
  const stop = new Stop({
    lost: gateway.runtime.ledger.lost.then(ofLedger),
    onFault: (error, kind) => gateway.reportFault(error, kind),
  })
  let isTold = false
  channel.on('stop', () => {
    isTold = true
    stop.order('the end of all workers')
  })
  channel.on('hurry', () => stop.order('the end of all workers'))
  const link = new Link(channel)
  let patience: AbortSignal | undefined
  let reason
  try {
    const isFirst = number === 1
    if (isFirst) warnOfConfiguration(gateway)
    const isSeen = isTerminal || args.on.has('print-key')
    const seeded = isFirst ? await prepareState(gateway, isSeen) : undefined
    const server = await openPort(gateway, link)
    using _freeing = freeStartMemory(gateway)
    channel.on('announce', async () => {
      const report = seeded ? await seeded.report : { accounts: [], keys: [] }
      if (report) await tell({ gateway, report, server }, isTerminal)
    })
    takeConfigurations(gateway, { channel, options: { ...options, file: loaded.file }, isFirst })
    const { unserved } = gateway.runtime
    unserved.join(() => link.unserved())
    const release = link.answerFor({
      unserved: () => unserved.list(),
      families: () => familiesOf(gateway),
      reasons: () => notReady(gateway),
    })
    opened(digestOf(loaded))
    // Written now, because a process that is killed cannot write it.
    flushCompileCache()
    reason = await stop.requested
    if (!isTold) leave(gateway, channel, reason.why)
    patience = limitStop(gateway.runtime.config.server, stop.hurry)
    // Where it leaves alone, its connections go to the others at once.
    const tellStopped = stopTeller(gateway.runtime.log)
    tellStopped(await server.close({ hurry: stop.hurry, ...(!isTold && { delaySeconds: 0 }) }))
    release()
  } finally {
    await closeGateway(gateway, patience)
    stop.release()
  }
  if (reason.status !== 0) throw new CommandError(`Ended by ${reason.why}.`, reason.status)
}

function leave({ runtime: { log }, running }: Gateway, channel: Channel, why: string): void {
  channel.tell('leaving')
  logEvent(log, 'info', {
    event: 'stopping',
    message: `${why}: this worker waits for its running calls to end; another one takes its place`,
    members: { why, running: running.size },
  })
}

/** Sets up a configuration on request, and uses it when all workers can. */
function takeConfigurations(
  gateway: Gateway,
  {
    channel,
    options,
    isFirst,
  }: { readonly channel: Channel; readonly options: LoadOptions; readonly isFirst: boolean },
): void {
  let prepared: PreparedConfig | undefined
  const discard = async () => {
    const old = prepared
    prepared = undefined
    await old?.discard()
  }
  channel.on('prepare', async () => {
    await discard()
    const next = await loadConfig(options)
    prepared = await gateway.prepare(next)
    return digestOf(next)
  })
  channel.on('discard', discard)
  channel.on('use', async () => {
    const use = () => prepared?.use()
    // What changes is the same for all.
    if (isFirst) {
      await withChangesLogged(gateway, use)
      await gateway.seeding.again()
    } else use()
    prepared = undefined
  })
}

/** Equal for equal settings, except for what plugins keep in objects of their own. */
function digestOf({ config }: LoadedConfig): string {
  const written = (key: string, value: unknown) => {
    if (typeof value === 'bigint') return String(value)
    return key === 'use' && typeof value === 'object' ? undefined : value
  }
  return hash('sha256', JSON.stringify(config, written))
}

// A worker's side of the channel: its questions to the other workers, and their reports.

interface Duties {
  unserved(): readonly UnservedName[]
  families(): readonly MetricFamily[]
  /** Why it cannot take work. */
  reasons(): readonly Reason[]
}

const LOOK_MS = 250

/** The other workers, for the server of one of them. */
export class Link implements Siblings {
  readonly #channel: Channel
  reasons: readonly Reason[] = []
  #reported = ''

  constructor(channel: Channel) {
    this.#channel = channel
    channel.on('others', (reasons: readonly Reason[]) => (this.reasons = reasons))
  }

  metrics(own: readonly MetricFamily[]): Promise<readonly MetricFamily[]> {
    return this.#channel.ask<readonly MetricFamily[]>('total', own).catch(() => own)
  }

  /** The names that the other workers were asked for and do not serve. */
  unserved(): Promise<readonly (readonly UnservedName[])[]> {
    return this.#channel
      .ask<readonly (readonly UnservedName[])[]>('unserved of others')
      .catch(() => [])
  }

  /** Answers for this worker. @returns a function that ends it, after a last report of its metrics */
  answerFor({ unserved, families, reasons }: Duties): () => void {
    this.#channel.on('metrics', families)
    this.#channel.on('unserved', unserved)
    const timer = setInterval(() => this.#report(reasons()), LOOK_MS)
    timer.unref()
    return () => {
      clearInterval(timer)
      this.#channel.tell('counted', families())
    }
  }

  #report(reasons: readonly Reason[]): void {
    if (reasons.join() === this.#reported) return
    this.#reported = reasons.join()
    this.#channel.tell('reasons', reasons)
  }
}
