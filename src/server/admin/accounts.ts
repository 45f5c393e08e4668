import type { Account } from '../../accounts/stored.ts'
import { note } from './audit.ts'
import { requireRole } from './auth.ts'
import { read, readNew } from './bodies.ts'
import { changing } from './change.ts'
import { adjust, topUp } from './credits.ts'
import {
  ACCOUNT_SETTINGS,
  accountChange,
  accountSettings,
  adjustment,
  credits,
  newAccount,
} from './resources/account.ts'
import { changeOf } from './resources/settings.ts'
import { accountOf, bodyOf, type Answer, type AdminRequest } from './route.ts'
import { wholeAccount } from './views.ts'

export async function createAccount(request: AdminRequest): Promise<Answer> {
  const account = await request.runtime.accounts.createAccount(
    readNew(newAccount, await bodyOf(request)),
  )
  const { id, name } = account
  await note(request, {
    action: 'account.create',
    object: `account:${id}`,
    after: { id, name },
  })
  return { status: 201, body: { data: await wholeAccount(request.runtime, account) } }
}

export async function showAccount({ runtime, id }: AdminRequest): Promise<Answer> {
  return { body: { data: await wholeAccount(runtime, await accountOf(runtime, id)) } }
}

/** Changes an account. The role `billing` may change the note and the threshold of the alert. */
export async function changeAccount(request: AdminRequest): Promise<Answer> {
  const { name, disabled, ...settings } = read(accountChange, await bodyOf(request))
  const forAdmins = Object.entries(ACCOUNT_SETTINGS).flatMap(([member, setting]) =>
    'role' in setting ? [] : [settings[member as keyof typeof settings]],
  )
  if ([name, disabled, ...forAdmins].some((value) => value !== undefined)) {
    requireRole(request.actor, 'admin')
  }
  const change = { name, disabled, ...changeOf(ACCOUNT_SETTINGS, settings) }
  return changing(request, ofAccounts(request), 'update', async (condition) => ({
    item: await request.runtime.accounts.changeAccount(request.id, change, condition),
  }))
}

export async function archiveAccount(request: AdminRequest): Promise<Answer> {
  return changing(request, ofAccounts(request), 'archive', async (condition) => ({
    item: await request.runtime.accounts.archiveAccount(request.id, condition),
  }))
}

const ofAccounts = ({ runtime }: AdminRequest) => ({
  kind: 'account',
  settings: accountSettings,
  view: (account: Account) => wholeAccount(runtime, account),
})

export async function addCredits(request: AdminRequest): Promise<Answer> {
  const body = readNew(credits, await bodyOf(request))
  const { id } = await accountOf(request.runtime, request.id)
  return topUp(request, id, body)
}

export async function adjustBalance(request: AdminRequest): Promise<Answer> {
  const body = readNew(adjustment, await bodyOf(request))
  const { id } = await accountOf(request.runtime, request.id)
  return adjust(request, id, body)
}
