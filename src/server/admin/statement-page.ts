/** A statement as a page of its own, which prints on A4 and Letter, and can be saved and mailed: it has no script and loads nothing. */
import { hash } from 'node:crypto'
import { STATEMENT_TABLES, type Statement, type StatementLine } from './resources/statement.ts'

class Markup {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

type Value = string | number | null | undefined | Markup | readonly Markup[]

/** Text of HTML: every value is escaped but other text of HTML. */
function html(parts: TemplateStringsArray, ...values: readonly Value[]): Markup {
  return new Markup(String.raw({ raw: parts }, ...values.map(textOf)))
}

function textOf(value: Value): string {
  if (value instanceof Markup) return value.text
  if (Array.isArray(value)) return value.map(({ text }: Markup) => text).join('')
  return String(value ?? '').replaceAll(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`)
}

const STYLE = `
:root { color-scheme: light; font: 10pt/1.45 system-ui, sans-serif; color: #111; background: #fff }
body { max-width: 180mm; margin: 12mm auto; padding: 0 6mm }
h1 { font-size: 18pt; margin: 0 0 1mm } h2 { font-size: 11pt; margin: 8mm 0 2mm; break-after: avoid }
.parties { display: flex; gap: 12mm; margin: 6mm 0; justify-content: space-between }
.parties p, .note { margin: 0; white-space: pre-line; overflow-wrap: anywhere } .note { color: #444; margin-top: 2mm }
.mark { color: #a40000; font-weight: 700; letter-spacing: .1em }
table { border-collapse: collapse; width: 100% }
thead { display: table-header-group } tr { break-inside: avoid }
th, td { text-align: start; vertical-align: top; padding: 1mm 2mm 1mm 0; border-bottom: .2mm solid #ccc; overflow-wrap: anywhere }
th { font-weight: 600 } th, .kind { white-space: nowrap } .end { text-align: end; padding-inline: 2mm 0; font-variant-numeric: tabular-nums; white-space: nowrap }
tfoot td, tfoot th, .total th, .total td { border-bottom: 0; font-weight: 600 }
footer { margin-top: 10mm; color: #444; overflow-wrap: anywhere }
@page { margin: 16mm 14mm } @media print { body { margin: 0; max-width: none; padding: 0 } }`

const POLICY = [
  `default-src 'none'`,
  `style-src 'sha256-${hash('sha256', STYLE, 'base64')}'`,
  `frame-ancestors 'none'`,
].join('; ')

export function statementPage(statement: Statement): Response {
  const { number, month, account_id } = statement
  const title = `Statement ${number ?? 'DRAFT'}, ${account_id}, ${month}`
  const page = html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${title}</title>
<meta name="viewport" content="width=device-width"><style>${new Markup(STYLE)}</style></head>
<body>${headOf(statement)}${sumsOf(statement)}${bookingsOf(statement)}${USAGE_TITLES.map(([table, title]) => usageOf(title, statement.usage[table], table === 'tags' || table === 'teams'))}${creditOf(statement)}${taxOf(statement)}${footOf(statement)}</body></html>
`
  return new Response(page.text, {
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': POLICY,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
    },
  })
}

const TITLES = ['Usage by model', 'Usage by key', 'Usage by team', 'Usage by day', 'Usage by tag']
const USAGE_TITLES = STATEMENT_TABLES.map((table, i) => [table, TITLES[i]!] as const)

function headOf({ number, state, month, time_zone, issued_at, void_reason, ...one }: Statement) {
  const mark = state === 'issued' ? '' : state === 'void' ? 'VOID' : 'DRAFT'
  return html`<header><h1>Statement ${number} ${mark && html`<span class="mark">${mark}</span>`}</h1>
<p class="note">${month}, days of ${time_zone}${issued_at && `, issued ${issued_at}`}. All amounts are in USD.</p>
${void_reason && html`<p class="note">Void: <bdi>${void_reason}</bdi></p>`}
<div class="parties">${one.seller && partyOf('From', one.seller)}${partyOf('For', one.buyer, one.account_id)}</div></header>`
}

function partyOf(title: string, party: Statement['buyer'] | Statement['seller'], id?: string) {
  const { name, address = [], email, tax_id, web } = party!
  const lines = [name, ...address, email, web, tax_id && `Tax id ${tax_id}`, id && `Account ${id}`]
  const shown = lines.filter((line) => line !== undefined && line !== '')
  return html`<p><strong>${title}</strong>${shown.map((line) => html`\n<bdi>${line}</bdi>`)}</p>`
}

/** Amounts with as many decimals as the longest needs, at least two: printed numbers add up as printed. */
function aligned(amounts: readonly string[]): (amount: string) => string {
  const decimals = (amount: string) => amount.split('.')[1]?.length ?? 0
  const most = Math.max(2, ...amounts.map(decimals))
  return (amount) => {
    const [whole = '', fraction = ''] = amount.split('.')
    return `${whole}.${fraction.padEnd(most, '0')}`
  }
}

function sumsOf(statement: Statement): Markup {
  const { opening_usd, late_usd, bookings_usd, usage_usd, closing_usd } = statement
  const spent =
    usage_usd === '0' ? '0' : usage_usd.startsWith('-') ? usage_usd.slice(1) : `-${usage_usd}`
  const rows = [
    ['Opening balance', opening_usd],
    ...(late_usd === '0' ? [] : [['Calls of earlier months, settled later', late_usd]]),
    ['Booked', bookings_usd],
    ['Used', spent],
  ] as [string, string][]
  const usd = aligned([...rows.map(([, amount]) => amount), closing_usd])
  return html`<table class="sums"><tbody>${rows.map(([name, amount]) => html`<tr><th scope="row">${name}</th><td class="end">${usd(amount)}</td></tr>`)}</tbody>
<tfoot><tr><th scope="row">Closing balance</th><td class="end">${usd(closing_usd)}</td></tr></tfoot></table>`
}

function bookingsOf({ bookings }: Statement): Markup {
  if (bookings.length === 0) return html``
  const usd = aligned(bookings.map((one) => one.amount_usd))
  const rows = bookings.map(({ at, kind, reference, note, amount_usd, cash }) => {
    const paid = cash as { amount: string; currency: string } | null
    return html`<tr><td>${at.slice(0, 16).replace('T', ' ')}</td><td class="kind">${kind}</td><td><bdi>${reference}</bdi>${note && html`<br><bdi>${note}</bdi>`}${paid && html`<br>paid ${paid.amount} ${paid.currency.toUpperCase()}`}</td><td class="end">${usd(amount_usd)}</td></tr>`
  })
  return html`<h2>Bookings</h2><table><thead><tr><th>Time, UTC</th><th>Kind</th><th>Reference, note</th><th class="end">USD</th></tr></thead><tbody>${rows}</tbody></table>`
}

function usageOf(title: string, lines: readonly StatementLine[], isLabel: boolean): Markup {
  // A table without any label would say the same as the others.
  if (lines.length === 0 || (isLabel && lines.every(({ id }) => id === null))) return html``
  const amounts = ['amount_usd', 'refunds_usd', 'total_usd'] as const
  const usd = aligned(lines.flatMap((line) => amounts.map((name) => line[name])))
  const rows = lines.map(
    (line) =>
      html`<tr><td><bdi>${line.name ?? line.id ?? '–'}</bdi></td><td class="end">${line.calls}</td>${amounts.map((name) => html`<td class="end">${usd(line[name])}</td>`)}</tr>`,
  )
  return html`<h2>${title}</h2><table><thead><tr><th>Name</th><th class="end">Calls</th><th class="end">USD</th><th class="end">Refunded</th><th class="end">Total</th></tr></thead><tbody>${rows}</tbody></table>`
}

function creditOf({ credit }: Statement): Markup {
  if (credit.blocks.length === 0) return html``
  const usd = aligned([credit.plain_usd, ...credit.blocks.map((one) => one.left_usd)])
  const rows = credit.blocks.map(
    ({ name, left_usd, expires_at }) =>
      html`<tr><td><bdi>${name}</bdi></td><td>${expires_at?.slice(0, 10) ?? 'no end'}</td><td class="end">${usd(left_usd)}</td></tr>`,
  )
  return html`<h2>Credit at the end of the month</h2><table><thead><tr><th>Credit</th><th>Ends</th><th class="end">Left, USD</th></tr></thead><tbody>${rows}<tr><td>other credit</td><td>no end</td><td class="end">${usd(credit.plain_usd)}</td></tr></tbody></table>`
}

function taxOf({ tax }: Statement): Markup {
  if (!tax) return html``
  const usd = aligned([tax.base_usd, tax.tax_usd])
  const how = tax.included ? 'included in' : 'on'
  return html`<h2>Tax</h2><table><tbody><tr><th scope="row">Usage less refunds</th><td class="end">${usd(tax.base_usd)}</td></tr>
<tr><th scope="row"><bdi>${tax.name}</bdi>, rate ${tax.rate}, ${how} usage</th><td class="end">${usd(tax.tax_usd)}</td></tr></tbody></table>
<p class="note">For information: no balance depends on it. ${tax.note && html`<bdi>${tax.note}</bdi>`}</p>`
}

function footOf({ chain, ledger, footer }: Statement): Markup {
  const agrees = ledger.agrees
    ? 'The figures agree with the ledger.'
    : 'Some calls may be missing: the ledger was still being read.'
  const proof =
    chain && html` Entries of the account: ${chain.n}, chain ${chain.chain.slice(0, 16)}.`
  return html`<footer><p>${agrees}${proof}</p>${footer && html`<p><bdi>${footer}</bdi></p>`}</footer>`
}
