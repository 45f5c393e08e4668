/** Alerts of one gateway: raised when something has been wrong for a while, ended when it has been well for a while. */
import { hash } from 'node:crypto'
import { logEvent, type EventLog } from './events.ts'
import type { AlertNotice } from '../plugin.ts'
import type { LiveEvents } from './live-events.ts'
import type { AlertRecord } from '../server/admin/resources/alert.ts'

export const ALERT_KINDS = [
  'deployment.down',
  'model.down',
  'ledger.down',
  'ledger.differs',
  'outbox.old',
  'log.dropped',
  'disk.low',
  'errors.high',
  'guard.open',
  'sink.disabled',
  'balance.low',
  'balance.empty',
  'cap.80',
  'cap.100',
  'key.expiring',
  'price.changed',
] as const
type AlertKind = (typeof ALERT_KINDS)[number]

/** How something is now; `between` neither raises nor ends an alert. */
export interface Finding {
  readonly kind: AlertKind
  /** A deployment, a model or a guard; empty where there is only one object of the kind. */
  readonly object: string
  readonly state: 'wrong' | 'between' | 'well'
  readonly message: string
}

interface Alert extends AlertRecord {
  readonly kind: AlertKind
}

/** How long something must be wrong before its alert is raised, and well before the alert ends, in ms. */
const PATIENCE: Readonly<Record<AlertKind, readonly [raise: number, end: number]>> = {
  'deployment.down': [60_000, 60_000],
  'model.down': [0, 10_000],
  'ledger.down': [10_000, 30_000],
  'ledger.differs': [0, 0],
  'outbox.old': [0, 0],
  'log.dropped': [0, 600_000],
  'disk.low': [0, 0],
  'errors.high': [0, 0],
  'guard.open': [60_000, 60_000],
  'sink.disabled': [0, 0],
  'balance.low': [0, 0],
  'balance.empty': [0, 0],
  'cap.80': [0, 0],
  'cap.100': [0, 0],
  'key.expiring': [0, 0],
  'price.changed': [0, 0],
}
/** Alerts about what gateways share, which each of them sees. The others are about one process. */
const SHARED: ReadonlySet<AlertKind> = new Set([
  'ledger.differs',
  'balance.low',
  'balance.empty',
  'cap.80',
  'cap.100',
  'key.expiring',
])
/** Least time between two changes of one alert. */
const PAUSE_MS = 60_000
/** Number of ended alerts that are kept. */
const HISTORY = 200

interface Watched {
  readonly kind: AlertKind
  /** When it became as it is, steady ms. */
  since: number
  state: Finding['state']
  alert: Alert | undefined
  changedAt: number
  mutedUntil: number
}

interface AlertsOptions {
  readonly log: Pick<EventLog, 'warn' | 'info'>
  readonly events: Pick<LiveEvents, 'emit'>
  /** Receives each notice that is due, for other places than the log. */
  readonly tell?: (notice: AlertNotice) => void
  /** Whether this gateway is the one to report a change of a shared alert. By default it is. */
  readonly claim?: (id: string, state: AlertNotice['state']) => Promise<boolean>
  /** ms since epoch. */
  readonly wallClock?: () => number
}

/** The alerts of one gateway. The owner calls {@link Alerts.observe} from time to time. */
export class Alerts {
  readonly #options: AlertsOptions
  readonly #wallClock: () => number
  readonly #watched = new Map<string, Watched>()
  #ended: Alert[] = []

  constructor(options: AlertsOptions) {
    this.#options = options
    this.#wallClock = options.wallClock ?? (() => Date.now())
  }

  get active(): readonly Alert[] {
    const all = [...this.#watched.values()].flatMap(({ alert }) => alert ?? [])
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

  /** Takes the present findings; what is missing from them has gone and is well. @param now steady ms */
  observe(findings: readonly Finding[], now: number): void {
    const seen = new Set<string>()
    for (const finding of findings) {
      const id = idOf(finding)
      seen.add(id)
      this.#take(id, finding, now)
    }
    for (const [id, { kind, alert }] of this.#watched) {
      if (seen.has(id)) continue
      if (!alert) this.#watched.delete(id)
      else this.#take(id, { kind, object: alert.object, state: 'well', message: 'gone' }, now)
    }
  }

  /** Reports something that has happened and does not last: an alert that has ended at once. */
  once({ kind, object, message }: Omit<Finding, 'state'>): void {
    const at = this.#wallClock()
    const alert = { id: idOf({ kind, object }), kind, object, message, raisedAt: at }
    this.#remember({ ...alert, endedAt: at })
    this.#notify('warn', alert, `alert ${kind}: ${message}`)
  }

  /** Reports nothing of an active alert until that moment. @returns undefined without such an alert */
  mute(id: string, until: number): Alert | undefined {
    const watched = this.#watched.get(id)
    if (!watched?.alert) return undefined
    watched.mutedUntil = until
    return (watched.alert = { ...watched.alert, mutedUntil: until })
  }

  #take(id: string, finding: Finding, now: number): void {
    const { kind, state } = finding
    let watched = this.#watched.get(id)
    if (!watched) {
      if (state !== 'wrong') return
      const none = { alert: undefined, changedAt: -Infinity, mutedUntil: 0 }
      this.#watched.set(id, (watched = { kind, state, since: now, ...none }))
    }
    if (watched.state !== state) [watched.state, watched.since] = [state, now]
    const [raiseMs, endMs] = PATIENCE[kind]
    const isDue = (ms: number) => now - watched.since >= ms && now - watched.changedAt >= PAUSE_MS
    if (!watched.alert && state === 'wrong' && isDue(raiseMs))
      this.#raise(id, watched, finding, now)
    else if (watched.alert && state === 'well' && isDue(endMs)) this.#end(watched, now)
  }

  #raise(id: string, watched: Watched, { kind, object, message }: Finding, now: number): void {
    watched.changedAt = now
    const muted = watched.mutedUntil > this.#wallClock() && { mutedUntil: watched.mutedUntil }
    watched.alert = { id, kind, object, message, raisedAt: this.#wallClock(), ...muted }
    this.#notify('warn', watched.alert, `alert ${kind}: ${message}`)
  }

  #end(watched: Watched, now: number): void {
    watched.changedAt = now
    const ended = { ...watched.alert!, endedAt: this.#wallClock() }
    watched.alert = undefined
    this.#remember(ended)
    this.#notify('info', ended, `alert ${ended.kind} has ended: ${ended.message}`)
  }

  #remember(ended: Alert): void {
    this.#ended = [ended, ...this.#ended].slice(0, HISTORY)
  }

  #notify(level: 'warn' | 'info', alert: Alert, message: string): void {
    if ((alert.mutedUntil ?? 0) > this.#wallClock()) return
    const { id, kind, object, endedAt } = alert
    const state: AlertNotice['state'] = endedAt === undefined ? 'raised' : 'ended'
    const notice = { id, kind, object, state, message: alert.message }
    const { claim } = this.#options
    if (!claim || !SHARED.has(kind)) return this.#notifyNow(level, notice, message)
    // A notice that is sent twice is better than none.
    void claim(id, state)
      .catch(() => true)
      .then((isOurs) => {
        if (isOurs) this.#notifyNow(level, notice, message)
      })
  }

  #notifyNow(level: 'warn' | 'info', notice: AlertNotice, text: string): void {
    const { message: _, ...members } = notice
    logEvent(this.#options.log, level, { event: 'alert', message: text, members })
    this.#options.events.emit('alert', () => ({ ...notice }))
    this.#options.tell?.(notice)
  }
}

/** Equal for the same alert in all gateways. */
function idOf({ kind, object }: Pick<Finding, 'kind' | 'object'>): string {
  return `al_${hash('sha256', `${kind}\n${object}`).slice(0, 12)}`
}
