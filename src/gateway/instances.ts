/** The gateways that share one state: each publishes that it runs, and its state. */
import type { Log } from '../state/ledger/ledger.ts'
import type { Records } from '../state/records.ts'
import type { Runtime } from '../pipeline/pipeline.ts'
import type { Instance } from '../server/admin/resources/gateway.ts'
import { packageVersion } from './version.ts'

interface Listed {
  readonly revision: number
  readonly ids: readonly string[]
}

const KEY = 'instances'
const TELL_MS = 5000
/** Seconds without a report after which a gateway counts as gone. */
const LIFE_SECONDS = 15

/** The owner calls `tick` from time to time, and `leave` at the end. */
export class Instances {
  readonly #records: Records
  readonly #log: Log
  readonly #own: () => Instance
  /** Whether there may be others. */
  readonly #isShared: boolean
  #toldAt = -Infinity
  #publishing: Promise<void> = Promise.resolve()

  constructor(
    { records, log, own }: { records: Records; log: Log; own: () => Instance },
    isShared: boolean,
  ) {
    this.#records = records
    this.#log = log
    this.#own = own
    this.#isShared = isShared
  }

  /** This gateway first, then the other running ones. @throws Unavailable while the state cannot be reached */
  async list(): Promise<readonly Instance[]> {
    const own = this.#own()
    if (!this.#isShared) return [own]
    const { ids = [] } = (await this.#records.get<Listed>(KEY)) ?? {}
    const others = await this.#alive(ids.filter((id) => id !== own.id))
    return [own, ...others]
  }

  /** Publishes a report. @param now steady ms */
  tick(now: number): void {
    if (!this.#isShared || now - this.#toldAt < TELL_MS) return
    this.#toldAt = now
    this.#publishing = this.#publish().catch((error) =>
      this.#log.warn('other gateways could not be told that this one runs', error),
    )
  }

  /** Withdraws this gateway at its end. Never rejects: without it the others notice soon. */
  async leave(): Promise<void> {
    await this.#publishing
    if (this.#isShared) await this.#records.del(keyOf(this.#own().id)).catch(() => undefined)
  }

  async #publish(): Promise<void> {
    const own = this.#own()
    await this.#records.put(keyOf(own.id), own, { ttlSeconds: LIFE_SECONDS })
    for (;;) {
      const stored = await this.#records.get<Listed>(KEY)
      if (stored?.ids.includes(own.id)) return
      const alive = await this.#alive(stored?.ids ?? [])
      const revision = stored?.revision ?? 0
      const next = { revision: revision + 1, ids: [...alive.map(({ id }) => id), own.id] }
      const isDone = stored
        ? await this.#records.replace(KEY, next, revision)
        : await this.#records.create(KEY, next)
      if (isDone) return
    }
  }

  async #alive(ids: readonly string[]): Promise<Instance[]> {
    const reports = await Promise.all(ids.map((id) => this.#records.get<Instance>(keyOf(id))))
    return reports.filter((one) => one !== undefined)
  }
}

/** The present report of a gateway. @param running number of running calls */
export function instanceOf(
  { gatewayId, ledger, requests, usage }: Runtime,
  running: number,
  startedAt: number,
): Instance {
  const { ok, outbox } = ledger.health()
  const counts = requests?.counts
  return {
    id: gatewayId,
    version: packageVersion(),
    node: process.versions.node,
    startedAt,
    running,
    ...(usage && { lag: usage.lag }),
    ...(counts && { log: { rows: counts.rows, dropped: Object.fromEntries(counts.dropped) } }),
    ledger: { ok, outbox },
  }
}

function keyOf(id: string): string {
  return `instance:${id}`
}
