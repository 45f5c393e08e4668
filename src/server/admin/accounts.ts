/** Accounts in the admin API. */
import { note } from './audit.ts'
import { readAccount, readAdjustment, readCredits } from './bodies.ts'
import { adjust, topUp } from './credits.ts'
import { accountOf, bodyOf, page, type Answer, type Asked } from './route.ts'
import { accountView } from './views.ts'

export async function listAccounts(asked: Asked): Promise<Answer> {
  const { items, next } = page(asked, await asked.runtime.accounts.listAccounts())
  const data = await Promise.all(items.map((account) => accountView(asked.runtime, account)))
  return { body: { data, next } }
}

export async function createAccount(asked: Asked): Promise<Answer> {
  const account = await asked.runtime.accounts.createAccount(readAccount(await bodyOf(asked)))
  const { id, name } = account
  await note(asked, {
    action: 'account.create',
    object: `account:${id}`,
    after: { id, name },
  })
  return { status: 201, body: { data: await accountView(asked.runtime, account) } }
}

export async function showAccount({ runtime, id }: Asked): Promise<Answer> {
  return { body: { data: await accountView(runtime, await accountOf(runtime, id)) } }
}

export async function addCredits(asked: Asked): Promise<Answer> {
  const body = readCredits(await bodyOf(asked))
  const { id } = await accountOf(asked.runtime, asked.id)
  return topUp(asked, id, body)
}

export async function adjustBalance(asked: Asked): Promise<Answer> {
  const body = readAdjustment(await bodyOf(asked))
  const { id } = await accountOf(asked.runtime, asked.id)
  return adjust(asked, id, body)
}
