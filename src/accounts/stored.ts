import * as v from 'valibot'
import { readPolicy } from '../policy/policy.ts'
import {
  ACCOUNT_SETTINGS,
  type Account,
  type AccountSettingsChange,
} from '../server/admin/resources/account.ts'
import {
  KEY_SETTINGS,
  type GivenKeySettings,
  type Key,
  type KeySettingsChange,
} from '../server/admin/resources/key.ts'
import { changeOf, type Settings } from '../server/admin/resources/settings.ts'
import { type GivenSecret, checkName, need } from './secrets.ts'

export type { Account } from '../server/admin/resources/account.ts'
export type { Key } from '../server/admin/resources/key.ts'

interface Named {
  readonly name?: string | undefined
  readonly disabled?: boolean | undefined
}

/** A change of an account. Absent members stay, null removes a setting. */
export interface AccountChange extends Named, AccountSettingsChange {}

/** A change of a key. Absent members stay, null removes a setting. The policy has to be validated already. */
export interface KeyChange extends Named, KeySettingsChange {}

/** A key to create. A secret is generated unless `secret` or `sha256` is given. */
export interface NewKey extends KeyChange, GivenSecret {
  /** Id of the member who owns it. */
  readonly owner?: string | undefined
  readonly name: string
  readonly id?: string | undefined
}

export interface ResolvedKey {
  readonly key: Key
  readonly account: Account
}

/** Settings of a key as operators write them, in the form of a record. @throws InvalidRequest `invalid_policy` */
export function toKeyChange({ name, disabled, ...given }: Named & GivenKeySettings): KeyChange {
  const { policy } = given
  return {
    name,
    disabled,
    ...changeOf(KEY_SETTINGS, given),
    policy: policy && readPolicy(policy),
  }
}

/** An account after a change, without its new revision. @throws InvalidRequest for a malformed member */
export function changedAccount(account: Account, change: AccountChange): Account {
  checkLists(change)
  return changed(ACCOUNT_SETTINGS, account, change)
}

/** A key after a change, without its new revision. @throws InvalidRequest for a malformed member */
export function changedKey(key: Key, change: KeyChange): Key {
  checkKeyChange(change)
  return changed(KEY_SETTINGS, key, change)
}

/** @throws InvalidRequest for a malformed member */
export function checkKeyChange(change: KeyChange): void {
  checkChange(KEY_SETTINGS, change)
  checkLists(change)
}

/** An empty list would allow nothing, or deny nothing: null says the latter. */
function checkLists({ models, denyModels }: Pick<KeyChange, 'models' | 'denyModels'>): void {
  const expected = 'null or a list with at least one model'
  need(models == null || models.length > 0, 'models', expected)
  need(denyModels == null || denyModels.length > 0, 'deny_models', expected)
}

function checkChange(settings: Settings, change: Named): void {
  if (change.name !== undefined) checkName(change.name)
  checkSettings(settings, change)
}

/** Applies a change of settings; null removes a setting. */
function changed<Stored extends Account | Key>(
  settings: Settings,
  former: Stored,
  change: Named,
): Stored {
  checkChange(settings, change)
  const { name = former.name, disabled = former.disabled } = change
  const valueIn = (of: object, stored: string) => (of as Readonly<Record<string, unknown>>)[stored]
  const entries = Object.values(settings).map(({ stored }) => {
    const value = valueIn(change, stored)
    return [stored, value === undefined ? valueIn(former, stored) : (value ?? undefined)]
  })
  return { ...former, name, disabled, ...Object.fromEntries(entries) }
}

/** A stored account in its present form: records of earlier releases lack two members. */
export function complete(stored: Account | undefined): Account | undefined {
  return stored && { ...stored, disabled: stored.disabled ?? false, revision: stored.revision ?? 0 }
}

function checkSettings(settings: Settings, change: object): void {
  for (const [name, { stored, schema, record = schema }] of Object.entries(settings)) {
    const value = (change as Readonly<Record<string, unknown>>)[stored]
    if (value === undefined || value === null) continue
    const [issue] = v.safeParse(record, value).issues ?? []
    const path = [name, ...(issue?.path ?? []).map(({ key }) => String(key))]
    if (issue) need(false, path.join('.'), issue.message)
  }
}
