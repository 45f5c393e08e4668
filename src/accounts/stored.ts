import * as v from 'valibot'
import { readPolicy } from '../policy/policy.ts'
import {
  ACCOUNT_SETTINGS,
  type Account,
  type AccountSettingsChange,
  type GivenAccountSettings,
} from '../server/admin/resources/account.ts'
import {
  KEY_SETTINGS,
  type GivenKeySettings,
  type Key,
  type KeySettingsChange,
} from '../server/admin/resources/key.ts'
import { changeOf, type Settings } from '../server/admin/resources/settings.ts'
import {
  TEAM_SETTINGS,
  type GivenTeamSettings,
  type Team,
  type TeamSettingsChange,
} from '../server/admin/resources/team.ts'
import { isZone } from '../state/ledger/zone.ts'
import { changedLimits, withLimitList } from './limits.ts'
import { isSimple, type LimitsChange } from '../server/admin/resources/limit.ts'
import { type GivenSecret, checkName, need } from './secrets.ts'

export type { Account } from '../server/admin/resources/account.ts'
export type { Key } from '../server/admin/resources/key.ts'
export type { Team } from '../server/admin/resources/team.ts'

interface Named {
  readonly name?: string | undefined
  readonly disabled?: boolean | undefined
}

/** A change of an account. Absent members stay, null removes a setting. */
export interface AccountChange extends Named, AccountSettingsChange {}

/** A change of a key. Absent members stay, null removes a setting. The policy has to be validated already. */
export interface KeyChange extends Named, KeySettingsChange {
  /** Id of the member who owns it. */
  readonly owner?: string | null | undefined
}

/** A change of a team, as {@link AccountChange}. */
export interface TeamChange extends Named, TeamSettingsChange {}

/** A key to create. A secret is generated unless `secret` or `sha256` is given. */
export interface NewKey extends KeyChange, GivenSecret {
  readonly name: string
  readonly id?: string | undefined
}

export interface ResolvedKey {
  readonly key: Key
  /** It is absent for a key without a team. */
  readonly team?: Team
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

export function toAccountChange({
  name,
  disabled,
  ...given
}: Named & GivenAccountSettings): AccountChange {
  return { name, disabled, ...changeOf(ACCOUNT_SETTINGS, given) }
}

export function toTeamChange({ name, disabled, ...given }: Named & GivenTeamSettings): TeamChange {
  return { name, disabled, ...changeOf(TEAM_SETTINGS, given) }
}

/** An account after a change, without its new revision. @throws InvalidRequest for a malformed member */
export function changedAccount(account: Account, change: AccountChange): Account {
  checkLists(change)
  const { timeZone } = change
  need(
    timeZone == null || isZone(timeZone),
    'time_zone',
    'the name of a time zone, such as "Europe/Berlin"',
  )
  return changed(ACCOUNT_SETTINGS, account, change)
}

/** A team after a change, without its new revision. @throws InvalidRequest for a malformed member */
export function changedTeam(team: Team, change: TeamChange): Team {
  checkLists(change)
  return changed(TEAM_SETTINGS, team, change)
}

/** A key after a change, without its new revision. @throws InvalidRequest for a malformed member */
export function changedKey(key: Key, change: KeyChange): Key {
  checkKeyChange(change)
  const next = changed(KEY_SETTINGS, key, change)
  const { owner } = change
  return owner === undefined ? next : { ...next, owner: owner ?? undefined }
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
function changed<Stored extends Account | Key | Team>(
  settings: Settings,
  former: Stored,
  change: Named & LimitsChange,
): Stored {
  checkChange(settings, change)
  const { name = former.name, disabled = former.disabled } = change
  const valueIn = (of: object, stored: string) => (of as Readonly<Record<string, unknown>>)[stored]
  const kept = Object.values(settings).filter(({ stored }) => !Object.hasOwn(isSimple, stored))
  const entries = kept.map(({ stored }) => {
    const value = valueIn(change, stored)
    return [stored, value === undefined ? valueIn(former, stored) : (value ?? undefined)]
  })
  const list = changedLimits(former, change, Date.now())
  const limits = list.length > 0 ? list : undefined
  return { ...former, name, disabled, ...Object.fromEntries(entries), limits }
}

/** A stored record in its present form: accounts of earlier releases lack two members, and limits were not one list. */
export function complete<One extends Account | Key | Team>(
  stored: One | undefined,
): One | undefined {
  if (!stored) return undefined
  const { disabled = false, revision = 0 } = stored
  return { ...withLimitList(stored), disabled, revision }
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
