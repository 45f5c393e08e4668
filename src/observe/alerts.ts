/**
 * Alerts of one gateway: raised when something has been wrong for a while, ended when it has been well for a while. They are
 * records, so that a restart neither loses one nor tells it again.
 */
import { hash } from 'node:crypto'
import { logEvent, type EventLog } from './events.ts'
import type { AlertNotice } from '../plugin.ts'
import type { LiveEvents } from './live-events.ts'
import type { AlertRecord } from '../server/admin/resources/alert.ts'
import type { Records } from '../state/records.ts'

export const ALERT_KINDS = [
  'deployment.down',
  'model.down',
  'egress.down',
  'ledger.down',
  'ledger.differs',
  'ledger.replayed',
  'ledger.sealed',
  'outbox.old',
  'log.dropped',
  'disk.low',
  'store.full',
  'errors.high',
  'fallback.many',
  'guard.open',
  'sink.disabled',
  'balance.low',
  'balance.empty',
  'cap.80',
  'cap.100',
  'key.expiring',
  'price.changed',
  'price_list.missing',
  'payment.unmatched',
  'managed.invalid',
  'managed.behind',
  'seed.differs',
] as const
type AlertKind = (typeof ALERT_KINDS)[number]

/** How something is now; `between` neither raises nor ends an alert. */
export interface Finding {
  readonly kind: AlertKind
  /** A deployment, a model or a guard; empty where there is only one object of the kind. */
  readonly object: string
  readonly state: 'wrong' | 'between' | 'well'
  readonly message: string
  /** The figures of the message, for sinks. */
  readonly figures?: AlertNotice['figures']
}

interface Alert extends AlertRecord {
  readonly kind: AlertKind
}

/** How long something must be wrong before its alert is raised, and well before the alert ends, in ms. */
const PATIENCE: Readonly<Partial<Record<AlertKind, readonly [raise: number, end: number]>>> = {
  'deployment.down': [60_000, 60_000],
  'model.down': [0, 10_000],
  'ledger.down': [10_000, 30_000],
  'log.dropped': [0, 600_000],
  'guard.open': [60_000, 60_000],
  'managed.behind': [30_000, 0],
}
const AT_ONCE = [0, 0] as const
/** Alerts about what gateways share, which each of them sees. The others are about one process. */
const SHARED: ReadonlySet<AlertKind> = new Set([
  'ledger.differs',
  'ledger.sealed',
  'balance.low',
  'balance.empty',
  'cap.80',
  'cap.100',
  'key.expiring',
  'price_list.missing',
  'payment.unmatched',
])
/** Alerts whose message is the present cause; those of others have figures of the moment when they were raised. */
const HAVE_CAUSES: ReadonlySet<AlertKind> = new Set([
  'deployment.down',
  'model.down',
  'egress.down',
  'ledger.down',
  'sink.disabled',
])
/** Least time between two messages about one alert, and between two records of its cause. */
const PAUSE_MS = 60_000
/** Number of ended alerts that are kept. */
const HISTORY = 200
const PRUNE_MS = 3_600_000
const INDEX = 'alerts'
const BATCH = 500

interface SentNotice {
  readonly state: AlertNotice['state']
  /** ms since epoch */
  readonly at: number
}

interface Watched {
  readonly kind: AlertKind
  readonly object: string
  /** When it became as it is, steady ms. */
  since: number
  state: Finding['state']
  /** The last alert, with an end where it is not active. */
  alert: Alert | undefined
  figures?: AlertNotice['figures']
  /** The last notice that was sent. */
  lastNotice: SentNotice | undefined
  /** Whether it is from an earlier process, and nothing was found of it yet. */
  restored: boolean
  /** Whether the record lacks a change. */
  unsaved: boolean
  /** When the record was written last, ms since epoch. */
  savedAt: number
  savedMessage: string | undefined
  saving: Promise<void> | undefined
}

/** The record `alert:<id>`. */
interface StoredAlert {
  readonly revision: number
  /** It is absent in a record of an earlier version, which has the `state` of the last notice. */
  readonly kind?: AlertKind
  readonly object?: string
  readonly message?: string
  readonly raised_at?: number
  readonly ended_at?: number
  readonly muted_until?: number
  readonly told?: SentNotice
  readonly state?: AlertNotice['state']
  /** The gateway that changed it last. */
  readonly gateway: string
}

type AlertStore = Pick<Records, 'list' | 'getMany' | 'add' | 'drop' | 'del' | 'update'>

interface Place {
  readonly records: AlertStore
  readonly gateway: string
  /** The ids of the gateways that run; absent where a gateway is alone with its state. */
  readonly running?: () => Promise<readonly string[]>
}

interface AlertsOptions {
  readonly log: Pick<EventLog, 'warn' | 'info'>
  readonly events: Pick<LiveEvents, 'emit'>
  /** Receives each notice that is due, for other places than the log. */
  readonly tell?: (notice: AlertNotice) => void
  /** ms since epoch. */
  readonly wallClock?: () => number
}

/** The alerts of one gateway. The owner calls {@link Alerts.observe} from time to time. */
export class Alerts {
  readonly #options: AlertsOptions
  readonly #wallClock: () => number
  readonly #watched = new Map<string, Watched>()
  #ended: Alert[] = []
  #place: Place | undefined
  #restoredAt = -Infinity

  constructor(options: AlertsOptions) {
    this.#options = options
    this.#wallClock = options.wallClock ?? (() => Date.now())
  }

  get active(): readonly Alert[] {
    const all = [...this.#watched.values()].flatMap((one) => activeOf(one) ?? [])
    return all.toSorted((one, other) => other.raisedAt - one.raisedAt)
  }

  /** The last ended alerts, the newest first. */
  get ended(): readonly Alert[] {
    return this.#ended
  }

  /** Number of active alerts of each kind; every kind is present. */
  get counts(): ReadonlyMap<AlertKind, number> {
    const counts = new Map<AlertKind, number>(ALERT_KINDS.map((kind) => [kind, 0]))
    for (const { kind } of this.active) counts.set(kind, counts.get(kind)! + 1)
    return counts
  }

  isActive(kind: AlertKind, object: string): boolean {
    const watched = this.#watched.get(this.#idOf({ kind, object }))
    return watched !== undefined && activeOf(watched) !== undefined
  }

  /** Reads the alerts of earlier processes, and keeps alerts there from now on. Never rejects: it is tried again later. */
  async keepIn(place: Place): Promise<void> {
    this.#place = place
    await this.#restore()
  }

  /**
   * Takes the present findings; what is missing from them has gone and is well.
   * @param now steady ms
   * @param isKnown whether it is known that something missing is well; asked for alerts of earlier processes
   */
  observe(
    findings: readonly Finding[],
    now: number,
    isKnown: (kind: AlertKind, object: string) => boolean = () => true,
  ): void {
    if (this.#place && this.#wallClock() - this.#restoredAt >= PRUNE_MS) void this.#restore()
    const seen = new Set<string>()
    for (const finding of findings) {
      const id = this.#idOf(finding)
      seen.add(id)
      this.#take(id, finding, now)
    }
    for (const [id, watched] of this.#watched) {
      const { kind, object, restored } = watched
      const isActive = activeOf(watched) !== undefined
      if (!seen.has(id) && isActive && (!restored || isKnown(kind, object))) {
        this.#take(id, { kind, object, state: 'well', message: 'gone' }, now)
      }
      this.#tellIfDue(id, watched)
      const isOver = !activeOf(watched) && !watched.unsaved && !this.#isRecent(watched)
      if (!seen.has(id) && isOver) this.#watched.delete(id)
    }
  }

  /** Reports something that has happened and does not last: an alert that has ended at once. */
  once({ kind, object, message }: Omit<Finding, 'state'>): void {
    const at = this.#wallClock()
    const id = this.#idOf({ kind, object })
    const alert = { id, kind, object, message, raisedAt: at, endedAt: at }
    this.#remember(alert)
    const watched = this.#watch(id, { kind, object }, 0)
    Object.assign(watched, { state: 'well', alert, lastNotice: { state: 'ended', at } })
    this.#save(id, watched)
    this.#notify('warn', { ...alert, state: 'raised' }, `alert ${kind}: ${message}`)
  }

  /** Reports nothing of an active alert until that moment. @returns undefined without such an alert */
  mute(id: string, until: number): Alert | undefined {
    const watched = this.#watched.get(id)
    const alert = watched && activeOf(watched)
    if (!watched || !alert) return undefined
    watched.alert = { ...alert, mutedUntil: until }
    this.#save(id, watched)
    return watched.alert
  }

  #take(id: string, finding: Finding, now: number): void {
    const { kind, state, object, message } = finding
    let watched = this.#watched.get(id)
    if (!watched) {
      if (state !== 'wrong') return
      watched = this.#watch(id, finding, now)
    }
    watched.restored = false
    watched.figures = finding.figures
    // What is wrong stays so while a probe is under way; what is well has to be so without a break.
    const isSame = watched.state === state || (watched.state === 'wrong' && state === 'between')
    if (!isSame) [watched.state, watched.since] = [state, now]
    const [raiseMs, endMs] = PATIENCE[kind] ?? AT_ONCE
    const alert = activeOf(watched)
    if (!alert && state === 'wrong' && now - watched.since >= raiseMs) {
      const { mutedUntil } = watched.alert ?? {}
      const muted = (mutedUntil ?? 0) > this.#wallClock() && { mutedUntil: mutedUntil! }
      watched.alert = { id, kind, object, message, raisedAt: this.#wallClock(), ...muted }
      this.#save(id, watched)
    } else if (alert && state === 'well' && now - watched.since >= endMs) {
      watched.alert = { ...alert, endedAt: this.#wallClock() }
      this.#remember(watched.alert)
      this.#save(id, watched)
    } else if (alert && state === 'wrong' && HAVE_CAUSES.has(kind)) {
      if (message !== alert.message) watched.alert = { ...alert, message }
      // A vendor may word each failure in another way.
      const isRecent = this.#wallClock() - watched.savedAt < PAUSE_MS
      if (!isRecent && message !== watched.savedMessage) this.#save(id, watched)
    }
  }

  #watch(id: string, { kind, object }: Pick<Finding, 'kind' | 'object'>, now: number): Watched {
    const fresh: Watched = {
      kind,
      object,
      state: 'wrong',
      since: now,
      alert: undefined,
      lastNotice: undefined,
      restored: false,
      unsaved: false,
      savedAt: 0,
      savedMessage: undefined,
      saving: undefined,
    }
    this.#watched.set(id, fresh)
    return fresh
  }

  #remember(ended: Alert): void {
    this.#ended = [ended, ...this.#ended].slice(0, HISTORY)
  }

  #isRecent({ lastNotice }: Watched): boolean {
    return lastNotice !== undefined && this.#wallClock() - lastNotice.at < PAUSE_MS
  }

  /** Sends the notice of a state that has had none, a minute after the last notice of the same alert. */
  #tellIfDue(id: string, watched: Watched): void {
    const { alert, lastNotice } = watched
    if (!alert) return
    const state = alert.endedAt === undefined ? 'raised' : 'ended'
    if ((lastNotice?.state ?? 'ended') === state) {
      if (watched.unsaved && !watched.saving) this.#save(id, watched)
      return
    }
    if (this.#isRecent(watched)) return
    watched.lastNotice = { state, at: this.#wallClock() }
    const { kind, message, mutedUntil = 0 } = alert
    const notify = () => {
      if (mutedUntil > this.#wallClock()) return
      const [level, words] =
        state === 'raised' ? (['warn', ''] as const) : (['info', ' has ended'] as const)
      const { figures } = watched
      const noticed = { ...alert, state, ...(figures && { figures }) } as const
      this.#notify(level, noticed, `alert ${kind}${words}: ${message}`)
    }
    this.#save(id, watched, notify)
  }

  #notify(
    level: 'warn' | 'info',
    alert: Alert & Pick<AlertNotice, 'state' | 'figures'>,
    text: string,
  ): void {
    const { id, kind, object, state, message, figures } = alert
    const members = { id, kind, object, state }
    logEvent(this.#options.log, level, { event: 'alert', message: text, members })
    this.#options.events.emit('alert', () => ({ ...members, message }))
    this.#options.tell?.({ ...members, message, ...(figures && { figures }) })
  }

  /** Stores a change. @param notify called unless another gateway has sent the same notice */
  #save(id: string, watched: Watched, notify?: () => void): void {
    const place = this.#place
    if (!place) return notify?.()
    const { alert, lastNotice } = watched
    Object.assign(watched, {
      unsaved: true,
      savedAt: this.#wallClock(),
      savedMessage: alert!.message,
    })
    const before = watched.saving ?? Promise.resolve()
    const saving = before.then(async () => {
      let isSent = false
      try {
        await store(place, id, { alert: alert!, lastNotice }, (state) => {
          isSent = notify !== undefined && SHARED.has(watched.kind) && state === lastNotice?.state
        })
        if (watched.alert === alert && watched.lastNotice === lastNotice) watched.unsaved = false
      } catch {
        // A notice that is sent twice is better than none; the record is tried again.
      }
      if (!isSent) notify?.()
    })
    watched.saving = saving
    void saving.then(() => {
      if (watched.saving === saving) watched.saving = undefined
    })
  }

  /** Reads what is stored, and removes what is too old. */
  async #restore(): Promise<void> {
    const { records, gateway, running } = this.#place!
    this.#restoredAt = this.#wallClock()
    try {
      const stored = await readAll(records)
      const ended = stored.filter(({ alert }) => alert.endedAt !== undefined)
      ended.sort((one, other) => other.alert.endedAt! - one.alert.endedAt!)
      const old = ended.slice(HISTORY).map(({ alert }) => alert.id)
      for (const id of old) await records.del(`alert:${id}`)
      await records.drop(INDEX, ...old)
      if (this.#ended.length === 0) this.#ended = ended.slice(0, HISTORY).map(({ alert }) => alert)
      const others = running && new Set(await running())
      for (const { alert, lastNotice, by } of stored) {
        const { id, kind, endedAt } = alert
        const isOver = endedAt !== undefined && lastNotice?.state !== 'raised'
        if (isOver || this.#watched.has(id)) continue
        const isOfProcess = others !== undefined && !SHARED.has(kind) && by !== gateway
        if (isOfProcess && others.has(by)) continue
        const watched = this.#watch(id, alert, performance.now())
        Object.assign(watched, { alert, lastNotice, restored: true })
        if (!isOfProcess) continue
        watched.alert = {
          ...alert,
          endedAt: this.#wallClock(),
          message: `${alert.message} (the gateway is gone)`,
        }
        this.#remember(watched.alert)
        this.#save(id, watched)
      }
    } catch {
      // The ledger itself logs that the state cannot be reached.
      this.#restoredAt -= PRUNE_MS - PAUSE_MS
    }
  }

  /** Equal for the same alert in all gateways, and of what is about one process in all processes of a gateway alone. */
  #idOf({ kind, object }: Pick<Finding, 'kind' | 'object'>): string {
    const of = this.#place?.running && !SHARED.has(kind) ? `\n${this.#place.gateway}` : ''
    return `al_${hash('sha256', `${kind}\n${object}${of}`).slice(0, 12)}`
  }
}

function activeOf({ alert }: Watched): Alert | undefined {
  return alert?.endedAt === undefined ? alert : undefined
}

interface Read {
  readonly alert: Alert
  readonly lastNotice: SentNotice | undefined
  readonly by: string
}

async function readAll(records: AlertStore): Promise<Read[]> {
  const ids = await records.list(INDEX)
  const all: Read[] = []
  for (let at = 0; at < ids.length; at += BATCH) {
    const some = ids.slice(at, at + BATCH)
    const page = await records.getMany<StoredAlert>(some.map((id) => `alert:${id}`))
    for (const [i, one] of page.entries()) {
      if (one?.kind === undefined) continue
      const { kind, object = '', message = '', raised_at = 0, ended_at, muted_until } = one
      const alert = {
        id: some[i]!,
        kind,
        object,
        message,
        raisedAt: raised_at,
        ...(ended_at !== undefined && { endedAt: ended_at }),
        ...(muted_until !== undefined && { mutedUntil: muted_until }),
      }
      all.push({ alert, lastNotice: one.told, by: one.gateway })
    }
  }
  return all
}

/** @param onFound gets the state of the last notice */
async function store(
  { records, gateway }: Place,
  id: string,
  { alert, lastNotice }: { readonly alert: Alert; readonly lastNotice: SentNotice | undefined },
  onFound: (state: SentNotice['state'] | undefined) => void,
): Promise<void> {
  const { kind, object, message, raisedAt, endedAt, mutedUntil } = alert
  let isNew = false
  await records.update<StoredAlert>(`alert:${id}`, (stored) => {
    isNew = stored?.kind === undefined
    onFound(stored?.told?.state ?? stored?.state)
    // Another gateway may have sent a notice since.
    const last = (stored?.told?.at ?? -1) > (lastNotice?.at ?? -1) ? stored?.told : lastNotice
    return {
      kind,
      object,
      message,
      raised_at: raisedAt,
      ...(endedAt !== undefined && { ended_at: endedAt }),
      ...(mutedUntil !== undefined && { muted_until: mutedUntil }),
      ...(last && { told: last }),
      gateway,
    }
  })
  if (isNew) await records.add(INDEX, id)
}
