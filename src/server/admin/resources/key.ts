import * as v from 'valibot'
import { usdJson, type Usd } from '../../../money/amounts.ts'
import {
  limitSettings,
  shownLimits,
  simpleForm,
  spendView,
  type Left,
  type Limit,
  type LimitMembers,
  type LimitsChange,
  type Spent,
} from './limit.ts'
import { policyObject, type Policy } from './policy.ts'
import {
  bodyOf,
  cacheUse,
  changedView,
  columnsOf,
  flag,
  modelList,
  modelSettings,
  moment,
  momentOrNull,
  momentText,
  name,
  NOTE,
  recordId,
  seedOf,
  shownOf,
  TAG,
  whole,
  type ChangedSettings,
  type GivenSettings,
  type Notice,
  type KeptSettings,
  type Owner,
  type Settings,
} from './settings.ts'

const MODEL = 'a model id such as "vendor/model", or "vendor/*" for all of a vendor'
const SHA256 = 'the SHA-256 of the key: 64 lower-case hex digits'
const START = 'the beginning of the key, 1 to 20 visible characters, such as "sk-...ab12"'
const TIME = 'a valid point in time'

/** The hash of a secret that was made elsewhere. */
export const secretHash = v.pipe(v.string(SHA256), v.regex(/^[0-9a-f]{64}$/, SHA256))

const MODELS = modelSettings('it')
const MODEL_IDS = modelList(MODEL, /^[^/\s:]+\/\S+$/)

export const KEY_SETTINGS = {
  ...limitSettings('', 'the default'),
  /** Id of the team. */
  team_id: {
    stored: 'team',
    schema: recordId,
    csv: [],
    option: { name: 'team', value: 'id', help: 'its team; "none" takes it out of one' },
  },
  /** It is stored as ms since epoch. */
  expires_at: {
    stored: 'expiresAt',
    schema: momentText,
    record: v.pipe(v.number(TIME), v.safeInteger(TIME)),
    keep: (text: string) => Date.parse(text),
    show: moment,
    option: {
      name: 'expires',
      value: 'date',
      help: 'its end such as 30d or 2027-01-31; "none" removes it',
    },
  },
  models: { ...MODELS.models, seed: MODEL_IDS, csv: ['models'] },
  deny_models: { ...MODELS.deny_models, seed: MODEL_IDS },
  policy: {
    stored: 'policy',
    schema: policyObject,
    record: v.custom<Policy>(() => true),
    csv: [],
    option: {
      name: 'policy',
      value: 'file',
      help: 'JSON file with its policy; "none" removes it',
    },
  },
  /** The tag of its calls, whatever a request says. */
  tag: {
    stored: 'tag',
    schema: TAG,
    option: { name: 'tag', value: 'text', help: 'the tag of its calls; "none" removes it' },
  },
  /** Whether the contents of its calls may be kept where the configuration allows that. */
  log_content: {
    stored: 'logContent',
    schema: flag,
    absent: false,
    csv: [],
    option: {
      name: 'log-content',
      value: 'on|off',
      help: 'keep the contents of its calls; "none" for off',
    },
  },
  /** Whether its calls get stored answers; the model may say less. */
  cache: {
    stored: 'cache',
    schema: cacheUse,
    csv: [],
    option: {
      name: 'cache',
      value: 'use',
      help: 'stored answers: "off", "asked" or "on"; "none" leaves it to the model',
    },
  },
  /** Whether personal data is masked by guards that the configuration has for that. */
  mask: {
    stored: 'mask',
    schema: flag,
    absent: false,
    csv: [],
    option: { name: 'mask', value: 'on|off', help: 'whether personal data is masked for vendors' },
  },
  note: NOTE,
} as const satisfies Settings

export type KeySettingsChange = ChangedSettings<typeof KEY_SETTINGS>
export type GivenKeySettings = GivenSettings<typeof KEY_SETTINGS>

export const keySeed = {
  disabled: v.optional(flag),
  ...seedOf(KEY_SETTINGS),
}

/** `POST /accounts/:id/keys`. With `sha256`, a key whose secret was made elsewhere. */
export const newKey = v.strictObject({
  name,
  id: v.nullish(recordId),
  disabled: v.optional(flag),
  sha256: v.nullish(secretHash),
  owner: v.nullish(recordId),
  start: v.nullish(v.pipe(v.string(START), v.regex(/^[\x21-\x7e]{1,20}$/, START))),
  ...bodyOf(KEY_SETTINGS),
})

export const keyChange = v.strictObject({
  name: v.optional(name),
  disabled: v.optional(flag),
  /** Id of the member who owns it from now on; null for none. */
  owner: v.nullish(recordId),
  ...bodyOf(KEY_SETTINGS),
})

/** `POST /keys/:id/rotate`: for how many seconds the previous secret still works, and a new end of the key; null for none. */
export const rotation = v.strictObject({
  overlap: v.optional(whole(0, 2_592_000, ' of seconds'), 86_400),
  expires_at: v.nullish(momentText),
})

/** A rotation as the record has it. */
export function rotationOf({ overlap, expires_at }: v.InferOutput<typeof rotation>) {
  return {
    overlap,
    expiresAt: typeof expires_at === 'string' ? Date.parse(expires_at) : expires_at,
  }
}

export const KEY_COLUMNS = [
  'id',
  'account_id',
  'name',
  'start',
  'state',
  'spend.day',
  'spend.month',
  'spend.lifetime',
  'running',
  'last_used_at',
  ...columnsOf(KEY_SETTINGS),
  'created_at',
  'team_id',
]

interface PreviousSecret {
  readonly sha256: string
  readonly start: string
  readonly until: number
}

/** An API key. Its secret is never stored, only the hash. */
export interface Key
  extends Omit<KeptSettings<typeof KEY_SETTINGS>, keyof LimitsChange>, LimitMembers, Owner {
  readonly account: string
  /** Beginning of the secret for lists: `sk-sluice-ab12`; for a secret of another origin the stated text, or `seeded`. */
  readonly start: string
  /** Hexadecimal SHA-256 of the secret. */
  readonly sha256: string
  /** The secret before the last rotation. */
  readonly previous?: PreviousSecret | undefined
  /** Id of the member who owns it. */
  readonly owner?: string | undefined
}

/** Members that change only with the key. */
export function keySettings(key: Key) {
  const { previous } = key
  const { expires_at, ...settings } = shownOf(KEY_SETTINGS, { ...key, ...simpleForm(key) })
  return {
    id: key.id,
    account_id: key.account,
    owner: key.owner ?? null,
    name: key.name,
    start: key.start,
    disabled: key.disabled,
    created_at: moment(key.createdAt),
    expires_at,
    ...settings,
    limits: shownLimits(key),
    archived_at: momentOrNull(key.archivedAt),
    previous_secret: previous ? { start: previous.start, until: moment(previous.until) } : null,
  }
}

/** A key with its spend. @param place members in front of it in lists */
export function keyView<Place extends object>(key: Key, spend: Spent, place: Place) {
  return {
    ...keySettings(key),
    ...place,
    revision: key.revision,
    changed: changedView(key.changed),
    spend_usd: usdJson(spend.lifetime),
    spend: spendView(spend),
    running: spend.inFlight,
  }
}

export interface KeyAnswer extends ReturnType<typeof keyView<object>> {
  /** Only lists have it. */
  readonly state?: string
  /** The hour of its last charge; null where it is unknown. */
  readonly last_used_at?: string | null
  /** Only a single key has it. */
  readonly limit_status?: readonly Limit[]
  /** What refuses it first; only of a single key. */
  readonly left?: Left | null
  /** The zone of its account, in which its windows turn; only a single key has it. */
  readonly time_zone?: string
  /** Settings without the effect that was meant. */
  readonly warnings?: readonly Notice[]
}

/** `GET /v1/key`: a key for its holder. */
export interface HolderKey {
  readonly key_id: string
  readonly account_id: string
  readonly free_tier: boolean
  readonly spend_usd: Usd
  readonly rpm_limit: number
  readonly concurrency_limit: number
  readonly spend_cap_usd: Usd | null
  readonly spend_cap_scope: 'day' | 'month' | 'lifetime' | null
  readonly spend_remaining_usd: Usd | null
  readonly expires_at: string | null
  readonly limits: readonly Limit[]
  /** Use of stored answers by the key, or `model` where each model says it; absent where none are stored. */
  readonly answer_cache?: string
  /** Whether personal data of its requests is masked. */
  readonly masking: boolean
  readonly tag: string | null
  readonly team_id: string | null
  readonly time_zone: string
  readonly log_content: boolean
}
