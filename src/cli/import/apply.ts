/** Creates accounts and keys of an import in a running gateway. Accounts and keys that exist stay as they are. */
import type { MigratedKey, Migration } from '../../plugin.ts'
import { Refused, type Admin } from '../admin.ts'

/** Counts of what an import has created or found, for its report. */
export interface Applied {
  readonly accounts: { created: number; same: number; credited: number }
  readonly keys: { created: number; same: number; refused: number }
  /** Rows that the gateway has refused, and why. */
  readonly refusals: { readonly row: number; readonly message: string }[]
}

/**
 * Creates accounts and keys that do not exist yet. May be repeated: ids are derived from those of the other program, and
 * credits have a reference.
 * @param source the name of the other program, which references of credits begin with
 * @param credits USD as decimal text, for each account that has no credit in the source
 * @throws CommandError when the gateway does not answer, or refuses more than a row
 */
export async function apply(
  admin: Admin,
  source: string,
  { accounts, keys }: Pick<Migration, 'accounts' | 'keys'>,
  credits: string | undefined,
): Promise<Applied> {
  const done: Applied = {
    accounts: { created: 0, same: 0, credited: 0 },
    keys: { created: 0, same: 0, refused: 0 },
    refusals: [],
  }
  const idsOf = async (path: string) => {
    return new Set((await admin.list(path)).map(({ id }: { id: string }) => id))
  }
  const [knownAccounts, knownKeys] = [await idsOf('/accounts'), await idsOf('/keys')]
  for (const [id, { name, settings, credit: own }] of accounts) {
    if (knownAccounts.has(id)) done.accounts.same++
    else {
      await admin.ask('POST', '/accounts', { id, name })
      if (Object.keys(settings).length > 0) await admin.ask('PATCH', `/accounts/${id}`, settings)
      done.accounts.created++
    }
    const usd = own ?? credits
    if (usd === undefined) continue
    if (await credit(admin, id, usd, `${source}-import:${id}`)) done.accounts.credited++
  }
  for (const key of keys) {
    const outcome = knownKeys.has(key.id) ? 'same' : await create(admin, key)
    if (outcome === 'created' || outcome === 'same') done.keys[outcome]++
    else {
      done.keys.refused++
      done.refusals.push({ row: key.row, message: outcome.message })
    }
  }
  return done
}

/** False when an import has credited the account before, with whatever amount. */
async function credit(admin: Admin, id: string, usd: string, reference: string): Promise<boolean> {
  const body = { usd, reference, note: 'import' }
  try {
    return !(await admin.ask('POST', `/accounts/${id}/credits`, body)).data.duplicate
  } catch (error) {
    if (error instanceof Refused && error.status === 409) return false
    throw error
  }
}

async function create(admin: Admin, key: MigratedKey): Promise<'created' | 'same' | Refused> {
  const { account, settings, row: _, ...own } = key
  try {
    await admin.ask('POST', `/accounts/${account}/keys`, { ...own, ...settings })
    return 'created'
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 400) throw error
    // Another key has the same hash: the secret works already.
    return error.param === 'sha256' || error.param === 'id' ? 'same' : error
  }
}
