/** Log entries with a name and members, which `log.format: json` shows; the text format shows the message alone. */

export interface EventLog {
  error(entry: unknown): void
  warn(entry: unknown): void
  info(entry: unknown): void
}

interface LogEvent {
  /** Name of the event, such as `upstream.failed`. */
  readonly event: string
  readonly message: string
  /** Ids, names and numbers; undefined ones are left out. No key, body or text of a user. */
  readonly members?: Readonly<Record<string, unknown>>
}

export function logEvent<Level extends keyof EventLog>(
  log: Pick<EventLog, Level>,
  level: Level,
  { event, message, members }: LogEvent,
): void {
  // consola takes an object with a message for the whole entry.
  log[level]({ message, event, members })
}
