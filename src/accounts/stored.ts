/** Accounts and keys as they are stored, and their changes. */
import type { CapScope } from '../state/ledger/ledger.ts'
import type { Policy } from '../policy/policy.ts'
import { checkCommon, checkTag, isAmount, need } from './checks.ts'
import type { GivenSecret } from './secrets.ts'

/** An account: the owner of keys and of a balance. */
export interface Account {
  readonly id: string
  readonly name: string
  readonly disabled: boolean
  /** When the account was archived, ms since epoch: its keys are refused for good. */
  readonly archivedAt?: number | undefined
  /** Requests per minute of all its keys together; when absent, no limit. */
  readonly rpm?: number | undefined
  /** Calls at a time of all its keys together; when absent, no limit. */
  readonly concurrency?: number | undefined
  /** The most that all its keys together can spend in a period. */
  readonly spendCap?: SpendCap | undefined
  /** USD as decimal text: a balance below it raises an alert. */
  readonly alertBelow?: string | undefined
  readonly note?: string | undefined
  /** Grows with every change; 0 before the first. */
  readonly revision: number
  /** ms since epoch */
  readonly createdAt: number
}

/** An API key. Its secret is never stored, only the hash. */
export interface Key {
  readonly id: string
  readonly account: string
  readonly name: string
  /** What lists show of the secret: `sk-sluice-ab12`; for one of another origin what was said, or `seeded`. */
  readonly start: string
  /** Hexadecimal SHA-256 of the secret. */
  readonly sha256: string
  /** The secret before the last rotation. */
  readonly previous?: PreviousSecret | undefined
  readonly disabled: boolean
  /** When the key was archived, ms since epoch: it is refused for good. */
  readonly archivedAt?: number | undefined
  /** ms since epoch */
  readonly expiresAt?: number | undefined
  /** Requests per minute; when absent, the configured default. */
  readonly rpm?: number | undefined
  /** Calls at a time; when absent, the configured default. */
  readonly concurrency?: number | undefined
  readonly spendCap?: SpendCap | undefined
  /** The models that the key can use; when absent, all. */
  readonly models?: readonly string[] | undefined
  readonly policy?: Policy | undefined
  /** The tag of its calls, whatever a request says. */
  readonly tag?: string | undefined
  /** Whether the contents of its calls may be kept where the configuration allows that. */
  readonly logContent?: boolean | undefined
  readonly note?: string | undefined
  /** Grows with every change. */
  readonly revision: number
  /** ms since epoch */
  readonly createdAt: number
}

/** A secret that still works for a while. */
interface PreviousSecret {
  readonly sha256: string
  readonly start: string
  /** ms since epoch; refused from then on. */
  readonly until: number
}

/** The most that a key can spend in a period. */
interface SpendCap {
  /** USD as decimal text. */
  readonly usd: string
  readonly scope: CapScope
}

/** A change of an account. Absent members stay, null removes a setting. */
export interface AccountChange {
  readonly name?: string | undefined
  readonly disabled?: boolean | undefined
  readonly rpm?: number | null | undefined
  readonly concurrency?: number | null | undefined
  readonly spendCap?: SpendCap | null | undefined
  readonly alertBelow?: string | null | undefined
  readonly note?: string | null | undefined
}

/** A change of a key. Absent members stay, null removes a setting. The policy has to be validated already. */
export interface KeyChange {
  readonly name?: string | undefined
  readonly disabled?: boolean | undefined
  readonly expiresAt?: number | null | undefined
  readonly rpm?: number | null | undefined
  readonly concurrency?: number | null | undefined
  readonly spendCap?: SpendCap | null | undefined
  readonly models?: readonly string[] | null | undefined
  readonly policy?: Policy | null | undefined
  readonly tag?: string | null | undefined
  readonly logContent?: boolean | null | undefined
  readonly note?: string | null | undefined
}

/** A key to create. A secret is generated unless `secret` or `sha256` is given. */
export interface NewKey extends KeyChange, GivenSecret {
  readonly name: string
  readonly id?: string | undefined
}

/** A key with its account. */
export interface ResolvedKey {
  readonly key: Key
  readonly account: Account
}

const ACCOUNT_SETTINGS = ['rpm', 'concurrency', 'spendCap', 'alertBelow', 'note'] as const
const KEY_SETTINGS = [
  'expiresAt',
  'rpm',
  'concurrency',
  'spendCap',
  'models',
  'policy',
  'tag',
  'logContent',
  'note',
] as const

/** An account after a change, without its new revision. @throws InvalidRequest for a malformed member */
export function changedAccount(account: Account, change: AccountChange): Account {
  checkCommon(change)
  const { name = account.name, disabled = account.disabled, alertBelow } = change
  need(alertBelow == null || isAmount(alertBelow), 'alert_below_usd', 'a decimal string of USD')
  return { ...account, name, disabled, ...updated(ACCOUNT_SETTINGS, account, change) }
}

/** A key after a change, without its new revision. @throws InvalidRequest for a malformed member */
export function changedKey(key: Key, change: KeyChange): Key {
  checkKeyChange(change)
  const { name = key.name, disabled = key.disabled } = change
  return { ...key, name, disabled, ...updated(KEY_SETTINGS, key, change) }
}

/** @throws InvalidRequest for a malformed member */
export function checkKeyChange(change: KeyChange): void {
  const { expiresAt, models, tag } = change
  checkCommon(change)
  checkTag(tag)
  need(expiresAt == null || Number.isSafeInteger(expiresAt), 'expires_at', 'a valid point in time')
  need(models == null || models.length > 0, 'models', 'null or a list with at least one model')
}

/** The members that a change sets; null removes one. */
function updated<Name extends string>(
  names: readonly Name[],
  former: Readonly<Partial<Record<Name, unknown>>>,
  change: Readonly<Partial<Record<Name, unknown>>>,
): Partial<Record<Name, never>> {
  const entries = names.map((name) => {
    const value = change[name]
    return [name, value === undefined ? former[name] : (value ?? undefined)]
  })
  return Object.fromEntries(entries)
}

/** An account as it is stored: records of earlier releases lack two members. */
export function complete(stored: Account | undefined): Account | undefined {
  return stored && { ...stored, disabled: stored.disabled ?? false, revision: stored.revision ?? 0 }
}
