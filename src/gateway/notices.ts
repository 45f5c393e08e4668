/**
 * What is set and has no effect, or not the one that was meant: of keys, teams, accounts, tokens of the admin API and the
 * configuration. A notice refuses nothing.
 */
import type { StoredToken } from '../access/credentials.ts'
import { excessOf } from '../access/ceilings.ts'
import type { Chain } from '../accounts/limits.ts'
import type { Account, Key, Team } from '../accounts/stored.ts'
import { coverageWarnings, idleGuards } from '../guard/policy-check.ts'
import { isAllowed, MAX_CANDIDATES } from '../models/allowlist.ts'
import { unpricedVendors } from '../models/by-vendor.ts'
import { lintOfWritten } from '../models/lint.ts'
import { formatPico, parsePico } from '../money/money.ts'
import type { Runtime } from '../pipeline/pipeline.ts'
import { STRONG_LENGTH } from '../server/admin/resources/session.ts'
import { policyWarnings, tighten } from '../policy/policy.ts'
import type { Limit, LimitEntry } from '../server/admin/resources/limit.ts'
import type { LimitMembers } from '../server/admin/resources/limit.ts'
import type { Notice } from '../server/admin/resources/settings.ts'
import { seededMembers } from './seed.ts'

/** What was done with an object that is shown in the answer. */
export type Act = 'create' | 'rotate' | 'play'

/** A notice without its object. */
type Note = readonly [code: string, member: string | null, message: string]

const IDLE_MASK: Note = [
  'mask.idle',
  'mask',
  'no guard of the configuration masks personal data: set "mask" of one in guards.use',
]

interface Seen {
  /** The limits with their use; absent in lists, which do not count. */
  readonly status?: readonly Limit[] | undefined
  readonly act?: Act | undefined
}

/** @param chain the key with its team and its account */
export async function keyNotices(
  runtime: Runtime,
  { key, team, account }: Chain & { readonly key: Key },
  { status, act }: Seen = {},
): Promise<Notice[]> {
  const { config, guards } = runtime
  const owned = { ...(team && { team }), account }
  const place =
    key.owner === undefined ? [] : excessOf(key, (team ?? account).newKeys, config.defaults.limits)
  return about(`key:${key.id}`, [
    ...lifeOf(key, account, act),
    ...reachedOf('key', status),
    ...idleLimits(key, owned),
    ...place.map(({ member, message }) => ['key.above_place', member, message] as const),
    ...modelsOf(runtime, key),
    ...(status ? await freeTierOf(runtime, key) : []),
    ...seededOf(runtime, 'key', key),
    ...(key.mask && guards.maskingFor(true).length === 0 ? [IDLE_MASK] : []),
    ...(key.policy ? (await policyWarnings(key.policy)).map(ofPolicy) : []),
    ...(await coverageWarnings(guards, tighten(key.policy, undefined))).map(
      (message) => ['guard.idle', 'policy', message] as const,
    ),
  ])
}

export function teamNotices(
  runtime: Runtime,
  { team, account }: Chain & { readonly team: Team },
  { status }: Seen = {},
): Notice[] {
  return about(`team:${team.id}`, [
    ...reachedOf('team', status),
    ...idleLimits(team, { account }),
    ...modelsOf(runtime, team),
    ...seededOf(runtime, 'team', team),
  ])
}

/** @param before the account before a change */
export function accountNotices(
  runtime: Runtime,
  account: Account,
  { status, before }: Seen & { readonly before?: Account | undefined } = {},
): Notice[] {
  const isMoved = before && before.timeZone !== account.timeZone
  const moved =
    'its days begin at another time now: the first one is shorter or longer, and a limit may count anew once'
  return about(`account:${account.id}`, [
    ...reachedOf('account', status),
    ...modelsOf(runtime, account),
    ...(isMoved ? [['zone.changed', 'time_zone', moved] as const] : []),
    ...seededOf(runtime, 'account', account),
  ])
}

/** @param secret that of a token of the configuration, which may be too short */
export function tokenNotices(
  id: string,
  { expiresAt }: Pick<StoredToken, 'expiresAt'>,
  secret?: string,
): Notice[] {
  const weak = `it has fewer than ${STRONG_LENGTH} characters, so that it can be guessed`
  return about(`token:${id}`, [
    ...(isPast(expiresAt)
      ? [
          [
            'token.expired',
            'expires_at',
            `the token expired on ${dayOf(expiresAt!)}: it is refused until expires_at is changed`,
          ] as const,
        ]
      : []),
    ...(secret !== undefined && secret.length < STRONG_LENGTH
      ? [['token.weak', null, weak] as const]
      : []),
  ])
}

/** @param shadow the file that has an entry of this name. @param leftOut why it is not in force */
export function entryNotices(
  { unpriced = [] }: Runtime['config'],
  {
    noun,
    name,
    shadow,
    leftOut,
  }: {
    /** A word such as `provider` or `model`. */
    readonly noun: string
    readonly name: string
    readonly shadow: string | undefined
    readonly leftOut: string | undefined
  },
): Notice[] {
  const isUnpriced = noun === 'model' && unpriced.some(({ id }) => id === name)
  const unserved = 'it is not served: no price list has it any more'
  return about(`${noun}:${name}`, [
    ...(shadow === undefined
      ? []
      : [['managed.shadowed', null, `${shadow} has an entry of this name, which wins`] as const]),
    ...(leftOut === undefined ? [] : [['managed.left_out', null, leftOut] as const]),
    ...(isUnpriced ? [['model.unpriced', null, unserved] as const] : []),
  ])
}

/** Notices about guards, models and prices of the configuration in force. */
function configurationNotices({ config, catalog, guards }: Runtime): Notice[] {
  const notice = (code: string, object: string, message: string) => ({
    code,
    object,
    member: null,
    message,
  })
  return [
    ...weakTokens(config),
    ...unpricedVendors(config.unpriced).map((text) => notice('model.unpriced', '', text)),
    ...idleGuards(guards).map(({ guard, code, message }) =>
      notice(code, `guard ${guard}`, message),
    ),
    ...lintOfWritten(catalog.at().all(), config.prices).flatMap(({ model, code, level, message }) =>
      level === 'warning' ? [notice(code, model, message)] : [],
    ),
  ]
}

function weakTokens({ admin: { token, tokens } }: Runtime['config']): Notice[] {
  const all = [...(token === undefined ? [] : [{ name: 'admin', token }]), ...tokens]
  return all.flatMap((one) => tokenNotices(`file:${one.name}`, {}, one.token))
}

export function logNotices(runtime: Runtime): void {
  for (const { code, object, message } of configurationNotices(runtime)) {
    runtime.log.warn(object === '' ? message : `${code}: ${object}: ${message}`)
  }
}

function about(object: string, all: readonly Note[]): Notice[] {
  return all.map(([code, member, message]) => ({ code, object, member, message }))
}

const dayOf = (at: number): string => new Date(at).toISOString().slice(0, 10)
const isPast = (at: number | undefined): boolean => at !== undefined && at <= Date.now()

function lifeOf({ expiresAt, disabled, archivedAt }: Key, account: Account, act?: Act): Note[] {
  const isRefused = disabled || archivedAt !== undefined || isPast(expiresAt)
  const life: (Note | false)[] = [
    isPast(expiresAt) && [
      'key.expired',
      'expires_at',
      `the key expired on ${dayOf(expiresAt!)}: it is refused until expires_at is changed`,
    ],
    act !== undefined &&
      disabled && [
        'key.disabled',
        'disabled',
        'the key is disabled: it is refused until it is enabled',
      ],
    act !== undefined &&
      account.disabled && [
        'account.disabled',
        null,
        `the account ${account.id} is ${account.archivedAt === undefined ? 'disabled' : 'archived'}: its keys are refused`,
      ],
    act === 'rotate' &&
      isRefused && [
        'key.rotation_idle',
        null,
        'both secrets are refused: that of before and the new one',
      ],
  ]
  return life.filter((one) => one !== false)
}

/** Limits whose window has used them up. */
function reachedOf(kind: 'key' | 'team' | 'account', status: readonly Limit[] = []): Note[] {
  return status.flatMap(({ limit, source, unit, window, used, value, resets_at }): Note[] => {
    if (source !== kind || window === null || window === 'minute') return []
    // An amount may be an object that only JSON prints.
    const counted = JSON.stringify(used)
    if (Number(counted) < Number(value)) return []
    const until = resets_at === null ? 'until it is raised or reset' : `until ${resets_at}`
    const shown = `${counted} of ${value} ${unit === 'usd' ? 'USD' : unit}`
    const message = `the limit ${limit} is reached, with ${shown}: calls are refused ${until}`
    return [['cap.reached', 'limits', message]]
  })
}

/** Limits that a lower one of the team or of the account makes idle. */
function idleLimits(record: LimitMembers, above: Readonly<Record<string, LimitMembers>>): Note[] {
  return (record.limits ?? []).flatMap((own) => {
    const { name } = own
    return Object.entries(above).flatMap(([owner, its]): Note[] => {
      const lower = its.limits?.find((one) => one.name === name && amountOf(one) < amountOf(own))
      if (!lower) return []
      const code = own.unit === 'usd' ? 'cap.above_account' : 'limit.above_account'
      const [mine, theirs] = [own, lower].map(({ unit, value }) =>
        unit === 'usd' ? `${formatPico(parsePico(String(value)))} USD` : value,
      )
      return [
        [code, 'limits', `the limit ${name} of ${mine} has no effect: the ${owner} has ${theirs}`],
      ]
    })
  })
}

const amountOf = ({ value }: LimitEntry): bigint => parsePico(String(value))

/** Names in lists of models that mean none, or several. */
function modelsOf(
  { catalog }: Runtime,
  { models = [], denyModels = [] }: Pick<Key, 'models' | 'denyModels'>,
): Note[] {
  const check =
    (member: string) =>
    (entry: string): Note[] => {
      if (catalog.get(entry) || Object.hasOwn(catalog.naming.wildcards, entry)) return []
      if (catalog.all().some(({ id }) => isAllowed([entry], id))) return []
      const several = catalog.candidates(entry)
      const shown = JSON.stringify(entry)
      if (several.length > 0) {
        const some = several.slice(0, MAX_CANDIDATES).join(', ')
        return [['models.ambiguous', member, `several models are called ${shown}: ${some}`]]
      }
      const meant = catalog.suggest(entry)
      const hint = meant === undefined ? '' : `; did you mean ${JSON.stringify(meant)}?`
      return [['models.unknown', member, `the catalog has no model ${shown}${hint}`]]
    }
  return [...models.flatMap(check('models')), ...denyModels.flatMap(check('deny_models'))]
}

/** A list of paid models alone, on an account that has none of its own money. */
async function freeTierOf({ catalog, ledger }: Runtime, { models, account }: Key): Promise<Note[]> {
  if (!models || catalog.freeTier().some(({ id }) => isAllowed(models, id))) return []
  const { paid } = await ledger.account(account)
  if (paid) return []
  return [
    [
      'models.free_tier',
      'models',
      'the account is on the free tier, which has none of these models',
    ],
  ]
}

function seededOf(
  { config: { seed } }: Runtime,
  kind: 'account' | 'team' | 'key',
  record: Account | Team | Key,
): Note[] {
  const { named, different } = seededMembers(seed, kind, record)
  if (named.length === 0) return []
  if (seed.manage) {
    return [
      [
        'seed.managed',
        null,
        `the next start or reload sets ${named.join(', ')} as the seed of the configuration has them`,
      ],
    ]
  }
  if (different.length === 0) return []
  return [
    [
      'seed.differs',
      null,
      `the seed of the configuration differs in ${different.join(', ')}; the store is used`,
    ],
  ]
}

/** Warnings of policies begin with their code. */
function ofPolicy(text: string): Note {
  const [, code = 'policy', message = text] = /^([\w.-]+): (.*)$/s.exec(text) ?? []
  return [code, 'policy', message]
}
