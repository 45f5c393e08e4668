/** Operators: their roles and rights, sessions of the console, tokens of the admin API, and tokens to call as a key. */
import * as v from 'valibot'
import type { Condition } from './gateway.ts'
import type { Right } from './rights.ts'
import { momentText, type Notice } from './settings.ts'

/** The least length of a token of the configuration that cannot be guessed. */
export const STRONG_LENGTH = 16

export type OperatorRole = 'admin' | 'operator' | 'billing' | 'viewer'

const ROLE = 'one of admin, operator, billing, viewer'
export const operatorRole = v.picklist(['admin', 'operator', 'billing', 'viewer'], ROLE)

const TOKEN_NAME = '1 to 64 letters, digits, "_", "." or "-"'
const tokenName = v.pipe(v.string(TOKEN_NAME), v.regex(/^[\w.-]{1,64}$/, TOKEN_NAME))

/** `POST /tokens`. */
export const newToken = v.strictObject({
  name: tokenName,
  role: operatorRole,
  expires_at: v.nullish(momentText),
})

/** `PATCH /tokens/:id`. */
export const tokenChange = v.strictObject({
  name: v.optional(tokenName),
  role: v.optional(operatorRole),
  expires_at: v.nullish(momentText),
})

/** A token of the admin API. Its secret is only in the answer to its creation. */
export interface TokenAnswer {
  /** `tok_…`; `file:<name>` for one of the configuration. */
  readonly id: string
  readonly name: string
  readonly role: OperatorRole
  /** `file`: of the configuration; `own`: made by the gateway, because the configuration has none. */
  readonly source: 'stored' | 'file' | 'own'
  /** The beginning of the secret; only of stored tokens. */
  readonly start: string | null
  readonly created_at: string | null
  readonly created_by: string | null
  readonly expires_at: string | null
  /** The last use, exact to the hour. */
  readonly used_at: string | null
  readonly revision: number | null
  readonly warnings: readonly Notice[]
}

export type How = 'token' | 'link' | 'oidc' | 'invitation' | 'key' | 'proxy'

/** A way to sign in through a provider. */
interface SignInProvider {
  readonly name: string
  readonly label: string
  readonly href: string
}

/** How operators sign in here. */
export interface SignInWays {
  readonly token: boolean
  readonly providers: readonly SignInProvider[]
  readonly proxy: boolean
}

/** `GET /session`: the operator who asks. */
export interface Session {
  readonly id: string | null
  readonly name: string
  readonly role: OperatorRole
  readonly rights: readonly Right[]
  readonly how: How
  /** The end of the session where it is not used; null without one. */
  readonly expires_at: string | null
  /** Its end at the latest. */
  readonly ends_at: string | null
  /** Where signing out is done by a proxy: its address. */
  readonly sign_out?: string
  /** The path that stands before every path of this gateway. */
  readonly base: string
  /** Version of the console served now. */
  readonly version: string | null
  /** Whether the data of this gateway are invented. */
  readonly demo: boolean
  /** Whether part of them is still to be written; absent otherwise. */
  readonly demo_filling?: boolean
  /** The frame of every screen shows it: it needs no question of its own. */
  readonly status: Condition
}

/** A session in lists. */
export interface SessionAnswer {
  readonly id: string
  readonly side: 'operator' | 'member'
  /** Id of the actor. */
  readonly subject: string
  readonly name: string
  readonly how: How
  /** Whether it is the one that asks. */
  readonly current: boolean
  readonly created_at: string
  readonly seen_at: string
  readonly ends_at: string
  readonly address: string | null
  readonly agent: string | null
}

export interface PlayToken {
  readonly token: string
  readonly expires_at: string
}
