/** `credits show`: the balance of an account with the last rows of its ledger. */
import type { Admin } from './admin.ts'
import type { Arguments } from './command.ts'
import { lookUp } from './look-up.ts'
import { card, print, table } from './output.ts'

const SHOWN_ROWS = 20

export async function showCredits(admin: Admin, args: Arguments): Promise<void> {
  const { path } = await lookUp(admin, 'account', args)
  const { data } = await admin.ask('GET', path)
  const { data: rows } = await admin.ask('GET', `${path}/ledger?limit=${SHOWN_ROWS}`)
  const { id: account_id, balance_usd, available_usd, free_tier } = data
  const credits = { account_id, balance_usd, available_usd, free_tier }
  const { credit } = data
  print(args, { ...credits, credit, rows }, () => {
    const lines = rows.map((row: any) => [
      row.at,
      row.kind,
      row.amount_usd,
      row.usage?.model ?? row.note ?? row.reason,
      row.request_id ?? row.reference,
    ])
    const headings = ['AT', 'KIND', 'AMOUNT USD', 'FOR', 'REFERENCE']
    const blocks = credit.blocks.map((one: any) => [one.name, one.left_usd, one.expires_at])
    const open =
      blocks.length === 0
        ? ''
        : `${table(['CREDIT', 'LEFT USD', 'EXPIRES'], [...blocks, ['plain', credit.plain_usd, null]])}\n`
    return `${card(credits)}\n${open}${table(headings, lines, ['FOR', 'REFERENCE'])}`
  })
}
