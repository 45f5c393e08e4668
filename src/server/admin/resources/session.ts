/** The session of the console, and its tokens to call as a key. */

/** Roles; each may do all that those before it may. */
export type Role = 'viewer' | 'billing' | 'admin'

export interface Session {
  readonly name: string
  readonly role: Role
  readonly expires_at: string | null
  /** Version of the console served now. */
  readonly version: string | null
  /** Whether the data of this gateway are invented. */
  readonly demo: boolean
  /** Whether part of them is still to be written; absent otherwise. */
  readonly demo_filling?: boolean
}

export interface PlayToken {
  readonly token: string
  readonly expires_at: string
}
