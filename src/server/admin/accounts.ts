import { toAccountChange, type Account } from '../../accounts/stored.ts'
import { note, audited, changing } from './audit.ts'
import { requireRight } from '../../access/actors.ts'
import {
  ACCOUNT_SETTINGS,
  accountChange,
  accountSettings,
  newAccount,
  accountView,
  creditView,
} from './resources/account.ts'
import { withIds } from '../../models/allowlist.ts'
import {
  accountOf,
  bodyOf,
  idFromKey,
  REPLAYED,
  type Answer,
  type AdminRequest,
  read,
  readNew,
  type Routes,
  needs,
} from './route.ts'
import { InvalidRequest, NotFound } from '../../errors/errors.ts'
import { parsePico, usdJson } from '../../money/money.ts'
import { accountNotices } from '../../gateway/notices.ts'
import { accountAlerts } from './incidents.ts'
import { limitsOf } from './limits.ts'
import { zoneOf } from '../../accounts/limits.ts'
import { ruleOf } from '../../state/ledger/zone.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { listAccounts } from './lists.ts'

export const accountRoutes: Routes = {
  '/accounts': { GET: needs('read', listAccounts), POST: needs('keys', createAccount) },
  '/accounts/:id': {
    GET: needs('read', showAccount),
    PATCH: needs(['keys', 'money'], changeAccount),
    DELETE: needs('keys', archiveAccount),
  },
  '/accounts/:id/answers': { DELETE: needs('keys', purgeAnswers) },
  '/answers': { GET: needs('read', showAnswers) },
}

/** The right for members of an account that have no other one. */
const KEYS = ['keys'] as const

async function createAccount(request: AdminRequest): Promise<Answer> {
  const { accounts } = request.runtime
  const wanted = readNew(newAccount, await bodyOf(request))
  const made = wanted.id === undefined ? idFromKey(request, 'accounts', '') : undefined
  const existing = made === undefined ? undefined : await accounts.account(made)
  if (existing) {
    const data = await wholeAccount(request, existing)
    return { status: 200, headers: REPLAYED, body: { data: { ...data, duplicate: true } } }
  }
  const account = await accounts.createAccount(
    { ...wanted, id: wanted.id ?? made },
    request.actor.id,
  )
  const { id, name } = account
  await note(request, {
    action: 'account.create',
    object: `account:${id}`,
    after: { id, name },
  })
  return { status: 201, body: { data: await wholeAccount(request, account) } }
}

async function showAccount(request: AdminRequest): Promise<Answer> {
  const account = await accountOf(request.runtime, request.id)
  return { body: { data: await wholeAccount(request, account) } }
}

/** Changes an account. Each member of the change needs its own right. */
async function changeAccount(request: AdminRequest): Promise<Answer> {
  const { name, disabled, ...settings } = read(accountChange, await bodyOf(request))
  for (const [member, setting] of Object.entries(ACCOUNT_SETTINGS)) {
    if (settings[member as keyof typeof settings] === undefined) continue
    requireRight(request.actor, ...('rights' in setting ? setting.rights : KEYS))
  }
  if (name !== undefined || disabled !== undefined) requireRight(request.actor, ...KEYS)
  const { catalog } = request.runtime
  checkPriceList(catalog, settings.price_list)
  const change = withIds(catalog, toAccountChange({ name, disabled, ...settings }))
  let before: Account | undefined
  const view = (account: Account) => wholeAccount(request, account, before)
  return changing(request, { ...ofAccounts(request), view }, 'update', async (condition) => {
    const replaced = (former: Account) => {
      before = former
      condition.replaced?.(former)
    }
    const { accounts } = request.runtime
    return { item: await accounts.changeAccount(request.id, change, { ...condition, replaced }) }
  })
}

/** @throws InvalidRequest for a price list that is not configured */
function checkPriceList({ listNames }: Runtime['catalog'], wanted: string | null | undefined) {
  if (wanted == null || listNames.includes(wanted)) return
  const expected =
    listNames.length > 0
      ? `one of ${listNames.join(', ')}`
      : 'null: "prices.lists" of the configuration has none'
  const message = `Invalid 'price_list': expected ${expected}, found ${JSON.stringify(wanted)}.`
  throw new InvalidRequest('invalid_value', message, { param: 'price_list' })
}

async function archiveAccount(request: AdminRequest): Promise<Answer> {
  return changing(request, ofAccounts(request), 'archive', async (condition) => ({
    item: await request.runtime.accounts.archiveAccount(request.id, condition),
  }))
}

/** Makes all stored answers of an account unreadable, for every gateway with its next call. */
async function purgeAnswers(request: AdminRequest): Promise<Answer> {
  return changing(
    request,
    ofAccounts(request),
    'answers.purge',
    async (condition) => ({
      item: await request.runtime.accounts.purgeAnswers(request.id, condition),
    }),
    { answers: 'purged' },
  )
}

/** @throws NotFound where no answers are stored */
function showAnswers({ runtime: { answers } }: AdminRequest): Answer {
  if (!answers)
    throw new NotFound('not_found', 'No answers are stored: "answers" is not configured.')
  const { driver, state, counts, saved } = answers
  const since_start = { ...counts, saved_usd: usdJson(saved) }
  return { body: { data: { driver, state, since_start } } }
}

const ofAccounts = (request: AdminRequest) => ({
  kind: 'account',
  settings: audited(accountSettings),
  view: (account: Account) => wholeAccount(request, account),
})

/** @param before the account before a change */
async function wholeAccount({ runtime, actor }: AdminRequest, account: Account, before?: Account) {
  const { ledger, accounts, config } = runtime
  const zone = zoneOf(account, config.defaults)
  const [totals] = await ledger.balances([account.id], () => ruleOf(zone))
  const keys = await accounts.listKeys(account.id)
  const limit_status = await limitsOf(runtime, { account })
  return accountView(
    account,
    totals!,
    {},
    {
      effective_time_zone: zone ?? 'UTC',
      effective_alert_below_usd: usdJson(
        account.alertBelow === undefined ? config.alerts.balance : parsePico(account.alertBelow),
      ),
      limit_status,
      warnings: accountNotices(runtime, account, { status: limit_status, before }),
      credit: creditView(await ledger.credit(account.id)),
      alerts: await accountAlerts(runtime, account.id),
      ...(actor.rights.has('money') && { billing: account.billing ?? null }),
      keys: keys.map(({ id }) => id),
      key_count: keys.filter(({ archivedAt }) => archivedAt === undefined).length,
    },
  )
}
