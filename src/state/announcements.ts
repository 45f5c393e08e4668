/** Messages between the gateways of one state. */

/**
 * `settled`: accounts with new rows; `live`: events while a console watches, and `events` the same for an earlier release;
 * `end`: calls to end; `called`: calls that have ended.
 */
export type Topic = 'settled' | 'live' | 'events' | 'end' | 'called'

export interface Heard {
  /** Oldest first. */
  readonly messages: readonly string[]
  /** Start of the next reading. */
  readonly cursor: string
}

/**
 * Messages between gateways, also to oneself. They may be lost, and only the newest of a topic are kept, so no sum may depend
 * on them. Every method throws Unavailable while the state cannot be reached.
 */
export interface Announcements {
  tell(topic: Topic, message: string): Promise<void>
  /** Messages after a cursor; without a cursor no messages, and the present cursor. */
  hear(topic: Topic, cursor: string | undefined): Promise<Heard>
}

export interface OpenAnnouncements {
  readonly announcements: Announcements
  close(): void
}
