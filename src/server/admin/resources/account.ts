import * as v from 'valibot'
import { usdJson, type Pico } from '../../../money/amounts.ts'
import {
  limitSettings,
  shownLimits,
  simpleForm,
  spendView,
  type Limit,
  type Usd,
  type LimitMembers,
  type LimitsChange,
  type Spent,
} from './limit.ts'
import type { AlertAnswer } from './alert.ts'
import { MEMBER_KEYS, NEW_KEYS } from './team.ts'
import { partyAddress, partyText, taxRate } from './statement.ts'
import {
  bodyOf,
  columnsOf,
  flag,
  instanceName,
  modelSettings,
  moment,
  momentOrNull,
  momentText,
  name,
  NOTE,
  recordId,
  seedOf,
  shownOf,
  signedUsd,
  text,
  usd,
  usdOrNothing,
  type ChangedSettings,
  type GivenSettings,
  type KeptSettings,
  type Owner,
  type Settings,
  changedView,
  type Notice,
} from './settings.ts'

/** What statements say of who buys. */
const billing = v.strictObject({
  name: v.optional(partyText),
  address: v.optional(partyAddress),
  email: v.optional(partyText),
  tax_id: v.optional(partyText),
  tax: v.optional(v.strictObject({ rate: taxRate, note: v.optional(partyText) })),
})

export const ACCOUNT_SETTINGS = {
  ...limitSettings(' of all its keys', 'no limit'),
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
  ...modelSettings('its keys'),
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
  /** How far below zero its calls may take the balance, USD as decimal text; when absent, not at all. */
  credit_limit_usd: {
    stored: 'creditLimit',
    schema: usdOrNothing,
    rights: ['money'],
    csv: [],
    option: {
      name: 'credit-limit',
      value: 'usd',
      help: 'how far below zero its calls may take the balance; "none" for not at all',
    },
  },
  /** The event `topup.wanted` asks for a top-up below this balance. */
  auto_top_up: {
    stored: 'autoTopUp',
    schema: v.strictObject({ below_usd: usdOrNothing, amount_usd: v.optional(usd) }),
    rights: ['money'],
    csv: [],
  },
  /** It is shown to those who have the right `money` alone. */
  billing: { stored: 'billing', schema: billing, rights: ['money'], csv: [] },
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
  extends Omit<KeptSettings<typeof ACCOUNT_SETTINGS>, keyof LimitsChange>, LimitMembers, Owner {
  /** Salt of stored answers; absent until they are purged for the first time. */
  readonly answers?: string | undefined
}

/** Members that change only with the account. */
export function accountSettings(account: Account) {
  const { billing: _, ...settings } = shownOf(ACCOUNT_SETTINGS, {
    ...account,
    ...simpleForm(account),
  })
  return {
    id: account.id,
    name: account.name,
    disabled: account.disabled,
    ...settings,
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
  /** Only lists have it. */
  readonly state?: string
  /** Number of keys that are not archived. */
  readonly key_count?: number
  /** The zone of its days: its own, else that of the configuration. Only a single account has it. */
  readonly effective_time_zone?: string
  /** A balance below it raises an alert: its own bound, else that of the configuration. Only a single account has it. */
  readonly effective_alert_below_usd?: Usd
  /** Only a single account has it. */
  readonly limit_status?: readonly Limit[]
  /** Settings without the effect that was meant; only of a single account. */
  readonly warnings?: readonly Notice[]
  /** Only a single account has it. */
  readonly credit?: ReturnType<typeof creditView>
  /** Active ones on it, its teams and its keys; only of a single account. */
  readonly alerts?: readonly AlertAnswer[]
  /** What its statements say of it; only of a single account, with the right `money`. */
  readonly billing?: Account['billing'] | null
  /** Ids; only of a single account. */
  readonly keys?: readonly string[]
}
