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
import { accountOf, bodyOf, type Answer, type Asked } from './route.ts'
import { wholeAccount } from './views.ts'

export async function createAccount(asked: Asked): Promise<Answer> {
  const account = await asked.runtime.accounts.createAccount(
    readNew(newAccount, await bodyOf(asked)),
  )
  const { id, name } = account
  await note(asked, {
    action: 'account.create',
    object: `account:${id}`,
    after: { id, name },
  })
  return { status: 201, body: { data: await wholeAccount(asked.runtime, account) } }
}

export async function showAccount({ runtime, id }: Asked): Promise<Answer> {
  return { body: { data: await wholeAccount(runtime, await accountOf(runtime, id)) } }
}

/** Changes an account. The role `billing` may change the note and the threshold of the alert. */
export async function changeAccount(asked: Asked): Promise<Answer> {
  const { name, disabled, ...settings } = read(accountChange, await bodyOf(asked))
  const forAdmins = Object.entries(ACCOUNT_SETTINGS).flatMap(([member, setting]) =>
    'role' in setting ? [] : [settings[member as keyof typeof settings]],
  )
  if ([name, disabled, ...forAdmins].some((value) => value !== undefined)) {
    requireRole(asked.actor, 'admin')
  }
  const change = { name, disabled, ...changeOf(ACCOUNT_SETTINGS, settings) }
  return changing(asked, ofAccounts(asked), 'update', async (condition) => ({
    item: await asked.runtime.accounts.changeAccount(asked.id, change, condition),
  }))
}

export async function archiveAccount(asked: Asked): Promise<Answer> {
  return changing(asked, ofAccounts(asked), 'archive', async (condition) => ({
    item: await asked.runtime.accounts.archiveAccount(asked.id, condition),
  }))
}

const ofAccounts = ({ runtime }: Asked) => ({
  kind: 'account',
  settings: accountSettings,
  view: (account: Account) => wholeAccount(runtime, account),
})

export async function addCredits(asked: Asked): Promise<Answer> {
  const body = readNew(credits, await bodyOf(asked))
  const { id } = await accountOf(asked.runtime, asked.id)
  return topUp(asked, id, body)
}

export async function adjustBalance(asked: Asked): Promise<Answer> {
  const body = readNew(adjustment, await bodyOf(asked))
  const { id } = await accountOf(asked.runtime, asked.id)
  return adjust(asked, id, body)
}
