/** Commands over the usage of a running gateway: sums, their proof, statements of accounts. */
import type { Admin } from './admin.ts'
import { CommandError, type Arguments } from './command.ts'
import { printCsv } from './csv.ts'
import { USAGE_FILTERS } from '../server/admin/resources/usage.ts'
import { print, table } from './output.ts'
import { queryOf } from './settings.ts'

const FILTERS = Object.keys(USAGE_FILTERS)

const SHOWN = ['calls', 'cost_usd', 'prompt_tokens', 'completion_tokens', 'errors', 'refused']

export async function showUsage(admin: Admin, args: Arguments): Promise<void> {
  const query = queryOf(args, ['from', 'to', 'rollup', 'top', 'metric', ...FILTERS])
  if (args.text.by !== undefined) query.set('group', args.text.by)
  if (args.on.has('csv')) return printCsv(admin, `/usage?${query}`)
  const answer = await admin.ask('GET', `/usage?${query}`)
  print(args, answer, () => {
    const groups = Object.keys(answer.data[0]?.group ?? {})
    const line = (one: any, group: unknown[]) => [
      one.start ?? 'total',
      ...group,
      ...SHOWN.map((name) => one[name]),
    ]
    const rows = [
      ...answer.data.map((one: any) => line(one, Object.values(one.group))),
      ...answer.other.map((one: any) =>
        line(
          one,
          groups.map(() => '(other)'),
        ),
      ),
      line(
        answer.totals,
        groups.map(() => ''),
      ),
    ]
    const headings = ['START', ...[...groups, ...SHOWN].map(headingOf)]
    return table(headings, rows) + proofOf(answer.ledger)
  })
}

/** `usage verify`: adds all of it up again. @throws CommandError when it differs from the ledger */
export async function verifyUsage(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', '/usage/verify')
  print(args, data, () => proofOf(data))
  if (data.agrees === false)
    throw new CommandError('Usage differs from the ledger: "usage rebuild" reads the ledger again.')
}

/** `usage rebuild`: has the ledger read again. */
export async function rebuildUsage(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('POST', '/usage/rebuild')
  print(args, data, () => 'The ledger is read again, in the background.\n')
}

export async function showStatement(admin: Admin, args: Arguments): Promise<void> {
  const [account = ''] = args.positionals
  const query = new URLSearchParams(args.text.month === undefined ? {} : { month: args.text.month })
  const path = `/accounts/${encodeURIComponent(account)}/statement?${query}`
  if (args.on.has('csv')) return printCsv(admin, path)
  const { data, ledger } = await admin.ask('GET', path)
  print(args, { data, ledger }, () => {
    const spent = (of: any[]) => of.map(({ name, calls, cost_usd }) => [name, calls, cost_usd])
    const bookings = data.bookings.map(({ at, kind, reference, amount_usd }: any) => [
      at,
      kind,
      reference,
      amount_usd,
    ])
    return [
      `${data.name} (${data.account_id}), ${data.month}\n\n`,
      table(
        ['AT', 'BOOKING', 'REFERENCE', 'USD'],
        [
          [data.from, 'opening', '', data.opening_usd],
          ...bookings,
          [data.to, 'closing', '', data.closing_usd],
        ],
      ),
      `\n${table(['MODEL', 'CALLS', 'USD'], [...spent(data.models), ['total', '', data.spent_usd]])}`,
      `\n${table(['TAG', 'CALLS', 'USD'], spent(data.tags))}`,
      `\n${proofOf(ledger)}`,
    ].join('')
  })
}

function headingOf(name: string): string {
  return name.replaceAll('_', ' ').toUpperCase()
}

function proofOf({ agrees, as_of, differences }: any): string {
  if (agrees === null) return 'The ledger is being read: some calls are missing.\n'
  if (agrees) return `Equals the ledger, as of ${as_of}.\n`
  const rows = differences.map(({ account_id, key_id, indexed_usd, ledger_usd }: any) => [
    account_id,
    key_id,
    indexed_usd,
    ledger_usd,
  ])
  return `Differs from the ledger:\n${table(['ACCOUNT', 'KEY', 'USAGE USD', 'LEDGER USD'], rows)}`
}
