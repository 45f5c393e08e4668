/** Who is signed in, and may call as a key. */

/** What each role may do; a later one may do all that those before it may. */
export type Role = 'viewer' | 'billing' | 'admin'

/** Who is signed in. */
export interface Session {
  readonly name: string
  readonly role: Role
  readonly expires_at: string | null
  /** Of the console that is served now. */
  readonly version: string | null
  /** Whether the data of this gateway are made up. */
  readonly demo: boolean
  /** Present while a part of them is still to be written. */
  readonly demo_filling?: boolean
}

/** `POST /keys/:id/play` */
export interface PlayToken {
  readonly token: string
  readonly expires_at: string
}
