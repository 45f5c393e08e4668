/** Commands that prove a ledger, or decide what becomes of one in doubt. */
import type { Admin } from './admin.ts'
import { CommandError, type Arguments } from './command.ts'
import { print, table } from './output.ts'
import { confirm, needYes } from './terminal.ts'

/** `ledger verify` @throws CommandError if the stored sums differ from the rows */
export async function verifyLedger(admin: Admin, args: Arguments): Promise<void> {
  if (args.on.has('prices')) return verifyPrices(admin, args)
  if (args.on.has('chain')) return verifyChain(admin, args)
  if (['export', 'archive', 'root'].some((name) => args.text[name] !== undefined)) {
    throw new CommandError('--export, --archive and --root belong to --chain.')
  }
  const { data } = await admin.ask('GET', '/ledger/verify')
  const rows = data.discrepancies.map((one: any) => [
    one.account_id,
    one.what,
    one.stored,
    one.recomputed,
  ])
  print(args, data, () =>
    data.ok
      ? 'Every sum equals its rows.\n'
      : table(['ACCOUNT', 'WHAT', 'STORED', 'RECOMPUTED'], rows),
  )
  if (!data.ok)
    throw new CommandError(
      'The ledger does not add up: the table names each sum that its rows contradict.',
    )
}

/** `ledger verify --chain` @throws CommandError where rows were changed, or a root is none of the ledger's */
async function verifyChain(admin: Admin, args: Arguments): Promise<void> {
  const { root, export: file, archive } = args.text
  const { data } = await admin.ask('GET', '/ledger/verify?chain=true')
  const { months, ...here } = data.chain
  let { accounts, rows, faults } = here
  if (file !== undefined) {
    const { data: seals } = await admin.ask('GET', '/ledger/seals')
    ;({ accounts, rows, faults } = await (
      await import('./archive/chain.ts')
    ).checkExport(file, seals.seals))
  }
  const archived = archive === undefined ? undefined : await archivedRows(admin, archive)
  if (archived) faults = [...faults, ...archived.faults]
  const ok = faults.length === 0 && months.every((month: any) => month.ok)
  const lines = faults.map(({ account_id, after, before, rows: between }: any) => {
    // Numbers are kept as the gateway has written them.
    const place = ({ at, rows: n }: any) => `${at} (${JSON.stringify(n)})`
    return [account_id, place(after), place(before), JSON.stringify(between)]
  })
  const wrong = months.filter((month: any) => !month.ok).map((month: any) => month.month)
  const counted = `${JSON.stringify(rows)} rows of ${JSON.stringify(accounts)} accounts`
  const counts = { accounts, rows, months, faults, ...(archived && { archived: archived.rows }) }
  print(args, { ok, ...counts }, () =>
    ok
      ? `The chains of ${counted} agree with the seals of ${months.length} months.${archived?.message ?? ''}\n`
      : table(['ACCOUNT', 'AFTER (ROWS)', 'BEFORE (ROWS)', 'ROWS NOW'], lines),
  )
  if (wrong.length > 0) {
    throw new CommandError(`Seals of ${wrong.join(', ')} are not those that were noted then.`)
  }
  if (!ok) {
    throw new CommandError(
      'Rows were changed, removed, added or moved: the table names the accounts, and the places between which they are.',
    )
  }
  if (root !== undefined && !months.some((month: any) => month.root === root)) {
    throw new CommandError(`${root} is the root of no month of this ledger.`)
  }
}

async function archivedRows(admin: Admin, folder: string) {
  const { data } = await admin.ask('GET', '/ledger/seals')
  const { checkArchive } = await import('./archive/chain.ts')
  const { rows, unproven, faults } = await checkArchive(folder, data.seals, data.bases)
  const more = unproven > 0 ? `; of ${unproven} rows before them the archive does not have all` : ''
  return { rows, faults, message: ` So do ${rows} archived rows${more}.` }
}

/** `ledger verify --prices` @throws CommandError if the cost of a row differs from its quantities at its prices */
async function verifyPrices(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', '/ledger/verify?prices=true')
  // Numbers are kept as the gateway has written them.
  const [checked, unknown] = [data.prices.checked, data.prices.unknown].map((count) =>
    JSON.stringify(count),
  )
  const { wrong } = data.prices
  const rows = wrong.map((one: any) => [
    one.account_id,
    one.request_id,
    one.of,
    one.stored,
    one.recomputed,
  ])
  const missing = unknown !== '0' ? ` ${unknown} more have no stored prices.` : ''
  print(args, data, () =>
    data.ok
      ? `Every sum equals its rows, and ${checked} rows their quantities at their prices.${missing}\n`
      : `${table(['ACCOUNT', 'REQUEST', 'OF', 'STORED', 'RECOMPUTED'], rows)}${missing.trim()}\n`,
  )
  if (!data.ok)
    throw new CommandError(
      'The ledger does not add up: the table names each row whose cost its quantities contradict.',
    )
}

/** `ledger missing`: before `ledger accept`, which makes the index forget them. */
export async function printMissing(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', '/ledger/missing')
  const lines = [
    { kind: 'export', version: 2, at: Date.now() },
    ...data,
    { kind: 'end', lines: data.length + 2 },
  ]
  print(args, data, () => lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
}

/** `ledger accept` @throws CommandError for a ledger that is not in doubt */
export async function acceptLedger(admin: Admin, args: Arguments): Promise<void> {
  needYes(args, 'ledger accept')
  const { data: before } = await admin.ask('GET', '/ledger/state')
  if (!before.doubt) {
    throw new CommandError(
      'The ledger is the one that was used until now: there is nothing to accept.',
    )
  }
  const { kind, known } = before.doubt
  await confirm(args, 'What the ledger lacks is given up. Go on with it?')
  const { data } = await admin.ask('POST', '/ledger/accept', { id: known.id, kind })
  print(args, data, () => `Calls are admitted by ${data.id} from now on.\n`)
}
