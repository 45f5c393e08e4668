import * as v from 'valibot'
import { usdJson, type Pico } from '../../../money/amounts.ts'
import { shownLimits, spendView, type Limit, type LimitMembers, type Spent } from './limit.ts'
import { LIMITS, MEMBER_KEYS, NEW_KEYS } from './team.ts'
import {
  bodyOf,
  columnsOf,
  count,
  flag,
  instanceName,
  modelsByName,
  moment,
  momentOrNull,
  momentText,
  name,
  NOTE,
  recordId,
  seedOf,
  shownOf,
  signedUsd,
  SPEND_CAP,
  text,
  usd,
  usdOrNothing,
  type ChangedSettings,
  type GivenSettings,
  type KeptSettings,
  type Settings,
  changedView,
  type Changed,
  type Notice,
} from './settings.ts'

export const ACCOUNT_SETTINGS = {
  /** Requests per minute; when absent, no limit. */
  rpm_limit: {
    stored: 'rpm',
    schema: count,
    option: {
      name: 'rpm',
      value: 'n',
      help: 'requests per minute of all its keys; "none" for no limit',
    },
  },
  concurrency_limit: {
    stored: 'concurrency',
    schema: count,
    option: { name: 'concurrency', value: 'n', help: 'their calls at once; "none" for no limit' },
  },
  spend_cap: {
    ...SPEND_CAP,
    option: {
      name: 'cap',
      value: 'usd[/day|/month]',
      help: 'what they can spend; "none" for no limit',
    },
  },
  limits: LIMITS,
  new_keys: NEW_KEYS,
  member_keys: MEMBER_KEYS,
  /** Where the days of its limits and statements begin: a name such as `Europe/Berlin`; when absent, that of the configuration. */
  time_zone: {
    stored: 'timeZone',
    schema: text(64),
    csv: [],
    option: {
      name: 'time-zone',
      value: 'name',
      help: 'zone of its days, such as Europe/Berlin; "none" for the default',
    },
  },
  /** The models that its keys can use, beside what each key's own list says; when absent, all. */
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
  /** Models that its keys cannot use. */
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
  /** The price list by which its calls are charged; when absent, the prices of the catalog. */
  price_list: {
    stored: 'priceList',
    schema: instanceName,
    rights: ['money'],
    csv: [],
    option: {
      name: 'price-list',
      value: 'name',
      help: 'the price list by which it is charged; "none" for the prices of the catalog',
    },
  },
  /** USD as decimal text. */
  alert_below_usd: {
    stored: 'alertBelow',
    schema: usdOrNothing,
    rights: ['money', 'keys'],
    csv: [],
    option: {
      name: 'alert',
      value: 'usd',
      help: 'a balance below it raises an alert; "none" for the default',
    },
  },
  note: { ...NOTE, rights: ['money', 'keys'] },
} as const satisfies Settings

export type AccountSettingsChange = ChangedSettings<typeof ACCOUNT_SETTINGS>
export type GivenAccountSettings = GivenSettings<typeof ACCOUNT_SETTINGS>

const { time_zone, limits, models, deny_models } = ACCOUNT_SETTINGS

export const accountSeed = seedOf({ time_zone, limits, models, deny_models })

/** `POST /accounts` */
export const newAccount = v.strictObject({ name, id: v.nullish(recordId) })

export const accountChange = v.strictObject({
  name: v.optional(name),
  disabled: v.optional(flag),
  ...bodyOf(ACCOUNT_SETTINGS),
})

export const credits = v.strictObject({
  usd,
  kind: v.nullish(v.picklist(['paid', 'promotional'])),
  /** Moment when what is left of it expires. */
  expires_at: v.nullish(momentText),
  /** Whether promotional credit ends the free tier. */
  unlock: v.nullish(flag),
  reference: v.nullish(text(200)),
  note: v.nullish(text(1000)),
})

export const adjustment = v.strictObject({
  usd: signedUsd,
  reason: text(1000),
  reference: v.nullish(text(200)),
  /** The block of credit from which an amount below 0 takes first, such as `promo:spring`. */
  takes_from: v.nullish(text(207)),
})

/** `POST /requests/:id/refund`; without `usd` the whole cost. */
export const refund = v.strictObject({ usd: v.nullish(usd), reason: text(1000) })

export const ACCOUNT_COLUMNS = [
  'id',
  'name',
  'state',
  'balance_usd',
  'available_usd',
  'free_tier',
  'spend.day',
  'spend.month',
  'spend.lifetime',
  'key_count',
  ...columnsOf(ACCOUNT_SETTINGS),
  'created_at',
]

export interface Account
  extends Omit<KeptSettings<typeof ACCOUNT_SETTINGS>, keyof LimitMembers>, LimitMembers {
  readonly id: string
  readonly name: string
  readonly disabled: boolean
  /** Moment of archiving, ms since epoch: the account's keys are refused for good. */
  readonly archivedAt?: number | undefined
  /** Salt of stored answers; absent until they are purged for the first time. */
  readonly answers?: string | undefined
  /** Grows with every change; 0 before the first. */
  readonly revision: number
  readonly createdAt: number
  /** The last change by an actor. */
  readonly changed?: Changed | undefined
}

/** Members that change only with the account. */
export function accountSettings(account: Account) {
  return {
    id: account.id,
    name: account.name,
    disabled: account.disabled,
    ...shownOf(ACCOUNT_SETTINGS, account),
    limits: shownLimits(account),
    archived_at: momentOrNull(account.archivedAt),
    created_at: moment(account.createdAt),
  }
}

interface Totals {
  readonly balance: Pico
  readonly available: Pico
  readonly paid: boolean
  readonly spend: Spent
}

/** An account with its money. @param place members in front of it in lists. @param parts further members of a single account */
export function accountView<Place extends object, Parts extends object>(
  account: Account,
  { balance, available, paid, spend }: Totals,
  place: Place,
  parts: Parts,
) {
  return {
    ...accountSettings(account),
    ...place,
    balance_usd: usdJson(balance),
    available_usd: usdJson(available),
    free_tier: !paid,
    spend: spendView(spend),
    running: spend.inFlight,
    ...parts,
    revision: account.revision,
    changed: changedView(account.changed),
  }
}

/** Credit of an account; `blocks` are those of which something is left, in the order of use. */
export function creditView({
  plain,
  blocks,
}: {
  readonly plain: Pico
  readonly blocks: readonly { name: string; left: Pico; expiresAt?: number }[]
}) {
  return {
    plain_usd: usdJson(plain),
    blocks: blocks.map(({ name, left, expiresAt }) => {
      const [kind = ''] = name.split(':', 1)
      return {
        name,
        kind: kind as 'promo' | 'top-up',
        reference: name.slice(kind.length + 1),
        left_usd: usdJson(left),
        expires_at: momentOrNull(expiresAt),
      }
    }),
  }
}

export interface AccountAnswer extends ReturnType<typeof accountView<object, object>> {
  /** Only in lists. */
  readonly state?: string
  /** Number of keys that are not archived. */
  readonly key_count?: number
  /** Only of a single account. */
  readonly limit_status?: readonly Limit[]
  /** Settings without the effect that was meant; only of a single account. */
  readonly warnings?: readonly Notice[]
  /** Only of a single account. */
  readonly credit?: ReturnType<typeof creditView>
  /** Ids; only of a single account. */
  readonly keys?: readonly string[]
}
