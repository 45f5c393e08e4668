/** Recomputes the chains of accounts from the rows of an export. */
import { open } from 'node:fs/promises'
import { beginChain, ChainCheck, type NotedPoint } from '../../state/ledger/chain.ts'
import { CommandError } from '../command.ts'
import { LineError, readItems } from './archive.ts'

/** A seal as the admin API shows it. */
interface Seal {
  readonly account_id: string
  readonly month: string
  readonly n: number
  readonly chain: string
}

/** @param seals of the ledger that was exported. @throws CommandError for a file that is no export */
export async function checkExport(file: string, seals: readonly Seal[]) {
  const bySeal = Map.groupBy(seals, ({ account_id }) => account_id)
  const placesOf = (account: string): NotedPoint[] =>
    (bySeal.get(account) ?? []).map(({ month: where, n, chain }) => ({
      where,
      n: Number(JSON.stringify(n)),
      chain,
    }))
  const checks = new Map<string, ChainCheck>()
  const checkOf = (account: string) => {
    let check = checks.get(account)
    check ??= new ChainCheck(account, beginChain(account), placesOf(account))
    checks.set(account, check)
    return check
  }
  for (const account of bySeal.keys()) checkOf(account)
  let rows = 0
  try {
    const source = await open(file)
    for await (const item of readItems(source.readLines())) {
      if (item.kind === 'limits' || item.kind === 'total' || item.kind === 'counter') continue
      const check = checkOf(item.account)
      if (item.kind === 'account') continue
      if (item.kind === 'base') {
        // The bookings before it stand without the calls that were folded between them.
        checks.set(item.account, new ChainCheck(item.account, item, placesOf(item.account)))
        continue
      }
      check.add(item)
      rows++
    }
  } catch (error) {
    const { message } = error as Error
    throw new CommandError(
      error instanceof LineError ? `${file}, ${message}.` : `${file}: ${message}.`,
    )
  }
  const faults = [...checks.values()].flatMap((check) => check.end() ?? [])
  return {
    accounts: checks.size,
    rows,
    faults: faults.map(({ account: account_id, after, before, rows: between }) => ({
      account_id,
      after: { at: after.where, rows: after.n },
      before: { at: before.where, rows: before.n },
      rows: between,
    })),
  }
}
