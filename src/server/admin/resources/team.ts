import * as v from 'valibot'
import {
  limitList,
  limitSettings,
  shownLimits,
  simpleForm,
  spendView,
  type Limit,
  type LimitMembers,
  type LimitsChange,
  type Spent,
} from './limit.ts'
import { policyObject } from './policy.ts'
import {
  bodyOf,
  changedView,
  cacheUse,
  columnsOf,
  flag,
  modelSettings,
  modelsByName,
  moment,
  momentOrNull,
  name,
  NOTE,
  recordId,
  seedOf,
  shownOf,
  TAG,
  whole,
  type ChangedSettings,
  type GivenSettings,
  type KeptSettings,
  type Owner,
  type Settings,
} from './settings.ts'

const MOST_SECONDS = 400 * 86_400

/** Settings that a new key gets where its creation leaves them out. */
const newKeySettings = v.strictObject({
  limits: v.optional(limitList),
  models: v.optional(modelsByName),
  deny_models: v.optional(modelsByName),
  policy: v.optional(policyObject),
  tag: v.optional(TAG),
  log_content: v.optional(flag),
  cache: v.optional(cacheUse),
  mask: v.optional(flag),
  expires_in: v.optional(whole(1, MOST_SECONDS, ' of seconds')),
})

export type NewKeySettings = v.InferOutput<typeof newKeySettings>

export const NEW_KEYS = { stored: 'newKeys', schema: newKeySettings, csv: [] } as const

/** How many keys, archived ones aside, a member may have. When absent, as many as the configuration says. */
export const MEMBER_KEYS = {
  stored: 'memberKeys',
  schema: whole(0, 100, ' of keys'),
  csv: [],
  option: {
    name: 'member-keys',
    value: 'n',
    help: 'keys that one of its members may have; "none" for the default',
  },
} as const

export const TEAM_SETTINGS = {
  ...limitSettings(' of all its keys', 'no limit'),
  ...modelSettings('its keys'),
  new_keys: NEW_KEYS,
  member_keys: MEMBER_KEYS,
  note: NOTE,
} as const satisfies Settings

export type TeamSettingsChange = ChangedSettings<typeof TEAM_SETTINGS>
export type GivenTeamSettings = GivenSettings<typeof TEAM_SETTINGS>

const { limits, models, deny_models } = TEAM_SETTINGS

export const teamSeed = seedOf({ limits, models, deny_models })

/** `POST /accounts/:id/teams` */
export const newTeam = v.strictObject({
  name,
  id: v.nullish(recordId),
  disabled: v.optional(flag),
  ...bodyOf(TEAM_SETTINGS),
})

export const teamChange = v.strictObject({
  name: v.optional(name),
  disabled: v.optional(flag),
  ...bodyOf(TEAM_SETTINGS),
})

export const TEAM_COLUMNS = [
  'id',
  'account_id',
  'name',
  'state',
  'spend.day',
  'spend.month',
  'spend.lifetime',
  'running',
  'key_count',
  ...columnsOf(TEAM_SETTINGS),
  'created_at',
]

/** Keys of one account with limits, models and a switch in common. */
export interface Team
  extends Omit<KeptSettings<typeof TEAM_SETTINGS>, keyof LimitsChange>, LimitMembers, Owner {
  readonly account: string
}

/** Members that change only with the team. */
export function teamSettings(team: Team) {
  return {
    id: team.id,
    account_id: team.account,
    name: team.name,
    disabled: team.disabled,
    ...shownOf(TEAM_SETTINGS, { ...team, ...simpleForm(team) }),
    limits: shownLimits(team),
    archived_at: momentOrNull(team.archivedAt),
    created_at: moment(team.createdAt),
  }
}

export interface TeamAnswer extends ReturnType<
  typeof teamView<{ readonly state: string; readonly key_count: number }>
> {
  /** Only a single team has it. */
  readonly limit_status?: readonly Limit[]
}

/** A team with its spend. @param parts further members */
export function teamView<Parts extends object>(team: Team, spend: Spent, parts: Parts) {
  return {
    ...teamSettings(team),
    ...parts,
    spend: spendView(spend),
    running: spend.inFlight,
    revision: team.revision,
    changed: changedView(team.changed),
  }
}
