import * as v from 'valibot'
import {
  limitList,
  shownLimits,
  spendView,
  type Limit,
  type LimitMembers,
  type Spent,
} from './limit.ts'
import { policyObject } from './policy.ts'
import {
  bodyOf,
  changedView,
  columnsOf,
  count,
  flag,
  modelsByName,
  moment,
  momentOrNull,
  name,
  NOTE,
  recordId,
  seedOf,
  shownOf,
  SPEND_CAP,
  TAG,
  whole,
  type Changed,
  type ChangedSettings,
  type GivenSettings,
  type KeptSettings,
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
  expires_in: v.optional(whole(1, MOST_SECONDS, ' of seconds')),
})

export type NewKeySettings = v.InferOutput<typeof newKeySettings>

/** A list of limits; a record keeps a part of it as members of their own. */
export const LIMITS = { stored: 'limits', schema: limitList, csv: [] } as const

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
  /** Requests per minute of all its keys; when absent, no limit. */
  rpm_limit: {
    stored: 'rpm',
    schema: count,
    option: { name: 'rpm', value: 'n', help: 'requests per minute; "none" for no limit' },
  },
  concurrency_limit: {
    stored: 'concurrency',
    schema: count,
    option: { name: 'concurrency', value: 'n', help: 'calls at once; "none" for no limit' },
  },
  spend_cap: {
    ...SPEND_CAP,
    option: {
      name: 'cap',
      value: 'usd[/day|/month]',
      help: 'what its keys can spend; "none" for no limit',
    },
  },
  limits: LIMITS,
  models: {
    stored: 'models',
    schema: modelsByName,
    csv: [],
    option: {
      name: 'models',
      value: 'ids',
      help: 'models that its keys can use, separated by commas; "none" for all',
    },
  },
  deny_models: {
    stored: 'denyModels',
    schema: modelsByName,
    csv: [],
    option: {
      name: 'deny-models',
      value: 'ids',
      help: 'models that its keys cannot use, separated by commas; "none" denies none',
    },
  },
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
  extends Omit<KeptSettings<typeof TEAM_SETTINGS>, keyof LimitMembers>, LimitMembers {
  readonly id: string
  readonly account: string
  readonly name: string
  readonly disabled: boolean
  /** Moment of archiving, ms since epoch: its keys are refused for good. */
  readonly archivedAt?: number | undefined
  /** Grows with every change. */
  readonly revision: number
  readonly createdAt: number
  /** The last change by an actor. */
  readonly changed?: Changed | undefined
}

/** Members that change only with the team. */
export function teamSettings(team: Team) {
  return {
    id: team.id,
    account_id: team.account,
    name: team.name,
    disabled: team.disabled,
    ...shownOf(TEAM_SETTINGS, team),
    limits: shownLimits(team),
    archived_at: momentOrNull(team.archivedAt),
    created_at: moment(team.createdAt),
  }
}

export interface TeamAnswer extends ReturnType<
  typeof teamView<{ readonly state: string; readonly key_count: number }>
> {
  /** Only of a single team. */
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
