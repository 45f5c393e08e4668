/** Rows of the ledger and its checks in the admin API. */
import { usdJson } from '../../money/money.ts'
import { readCursor, readLimit } from './bodies.ts'
import { accountOf, filterOf, notInList, type Answer, type Asked } from './route.ts'
import { orphanView, rowView } from './views.ts'

export async function listRows({ runtime, id, query }: Asked): Promise<Answer> {
  const limit = readLimit(query.get('limit'))
  const before = readCursor(query.get('before'))
  await accountOf(runtime, id)
  const data = []
  for await (const row of runtime.ledger.usage(id, before)) {
    // One row more than requested tells that the list goes on.
    if (data.length === limit) return { body: { data, next: data.at(-1)!.seq } }
    data.push(rowView(row))
  }
  return { body: { data, next: null } }
}

export async function verify(asked: Asked): Promise<Answer> {
  const found = await asked.runtime.ledger.verify(await filterOf(asked))
  const discrepancies = found.map(({ account, what, stored, recomputed }) => ({
    account_id: account,
    what,
    stored: usdJson(stored),
    recomputed: usdJson(recomputed),
  }))
  if (asked.query.get('prices') !== 'true') {
    return { body: { data: { ok: found.length === 0, discrepancies } } }
  }
  const prices = await pricesChecked(asked)
  const ok = found.length === 0 && prices.wrong.length === 0
  return { body: { data: { ok, discrepancies, prices } } }
}

/** Every row priced again. `recomputed` is null where another tier would have applied. */
async function pricesChecked(asked: Asked) {
  const { accounts, ledger, prices } = asked.runtime
  const account = await filterOf(asked)
  const all = account === undefined ? await accounts.listAccounts() : [{ id: account }]
  const ids = all.map(({ id }) => id)
  const { wrong, ...counts } = await prices.check(ledger, ids)
  return {
    ...counts,
    wrong: wrong.map(({ account: id, request, stored, recomputed }) => ({
      account_id: id,
      request_id: request,
      stored: usdJson(stored),
      recomputed: recomputed === undefined ? null : usdJson(recomputed),
    })),
  }
}

/** The page of the orphans that `?limit=` and `?after=<request id>` select. */
export async function listOrphans(asked: Asked): Promise<Answer> {
  const limit = readLimit(asked.query.get('limit'))
  const after = asked.query.get('after')
  let found = after === null
  const data = []
  for await (const orphan of asked.runtime.ledger.orphans(await filterOf(asked))) {
    if (found && data.length === limit) return { body: { data, next: data.at(-1)!.request_id } }
    if (found) data.push(orphanView(orphan))
    found ||= orphan.request === after
  }
  if (!found) throw notInList()
  return { body: { data, next: null } }
}
