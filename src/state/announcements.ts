/** What gateways of one state tell each other. */

/**
 * `settled`: accounts with new rows; `live`: what happens, while a console watches, and `events` the same of a release before;
 * `end`: calls to end; `called`: calls that have ended.
 */
export type Topic = 'settled' | 'live' | 'events' | 'end' | 'called'

/** Messages of a topic. */
export interface Heard {
  /** Oldest first. */
  readonly messages: readonly string[]
  /** Where the next reading begins. */
  readonly cursor: string
}

/**
 * Messages between gateways, those to oneself included. They may be lost, and only the newest of a topic are kept: nothing
 * that counts may depend on one. Every method throws Unavailable while the state cannot be reached.
 */
export interface Announcements {
  tell(topic: Topic, message: string): Promise<void>
  /** Messages after a cursor; without one none, and the cursor of now. */
  hear(topic: Topic, cursor: string | undefined): Promise<Heard>
}

/** Announcements with a connection of their own. */
export interface OpenAnnouncements {
  readonly announcements: Announcements
  close(): void
}
