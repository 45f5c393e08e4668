/** The statement of an account for a month: four sums that agree, as a page that can be printed. */
import { useAnswer, withQuery } from '../api.ts'
import type { Usd } from '../amounts.ts'
import { addAmounts, count, exactMoney, plainDecimal } from '../format.ts'
import { html } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Button } from '../parts/button.ts'
import { Time } from '../parts/facts.ts'
import { Heads } from '../parts/heads.ts'
import { Proof } from '../parts/proof.ts'
import { Answered } from '../parts/states.ts'
import { place, setQuery } from '../state.ts'
import type { StatementAnswer } from '../../server/admin/resources/usage.ts'
import type { Read } from '../amounts.ts'

export function Statement({ id }: { readonly id: string }) {
  const month = place.value.query.get('month') ?? new Date().toISOString().slice(0, 7)
  const path = withQuery(`/admin/accounts/${id}/statement`, { month })
  const answer = useAnswer<Read<StatementAnswer>>(path)
  useKeys({ x: () => location.assign(`${path}&format=csv`) })
  return html`<div class="screen statement">
    <div class="screen-head no-print">
      <label class="actions">Month, UTC <input type="month" value=${month} onChange=${(event: Event) => setQuery({ month: (event.target as HTMLInputElement).value || undefined })} /></label>
      <div class="screen-actions">
        <a class="button" href=${`${path}&format=csv`} download>CSV</a>
        <${Button} onClick=${() => print()}>Print<//>
      </div>
    </div>
    <${Answered} of=${answer} lines=${8}>${(found: Read<StatementAnswer>) => html`<${Sheet} found=${found} />`}<//>
  </div>`
}

function Sheet({ found: { data, ledger } }: { readonly found: Read<StatementAnswer> }) {
  const booked = addAmounts(data.bookings.map(({ amount_usd: usd }) => usd))
  const spent = negated(data.spent_usd)
  const sums = addAmounts([data.opening_usd, booked, spent]) === plainDecimal(data.closing_usd)
  return html`<section class="panel">
    <header><h2><bdi>${data.name}</bdi>, ${data.month} (UTC)</h2></header>
    <div class="panel-body">
      <table class="plain ruled sums">
        <tbody>
          <tr><th scope="row">Opening balance</th><td class="end number">${exactMoney(data.opening_usd)}</td></tr>
          <tr><th scope="row">Booked</th><td class="end number">${exactMoney(booked)}</td></tr>
          <tr><th scope="row">Used</th><td class="end number">${exactMoney(spent)}</td></tr>
        </tbody>
        <tfoot><tr><th scope="row">Closing balance</th><td class="end number">${exactMoney(data.closing_usd)}</td></tr></tfoot>
      </table>
      <p class=${sums ? 'ok' : 'bad'}>${sums ? '✓ Opening, booked and used make the closing balance.' : '✕ Opening, booked and used do not make the closing balance.'}</p>
      <${Proof} ledger=${ledger} />
      ${
        data.bookings.length > 0 &&
        html`<h3>Bookings</h3>
        <table class="plain ruled stacked sums">
          <${Heads} names=${['Time', 'Kind', 'Reference, note', 'Amount']} end=${['Amount']} />
          <tbody>
            ${data.bookings.map((one) => html`<tr key=${one.seq}><td><${Time} at=${one.at} /></td><td>${one.kind}</td><td><bdi>${[one.reference, one.note].filter(Boolean).join(' · ')}</bdi></td><td class="end number">${exactMoney(one.amount_usd)}</td></tr>`)}
          </tbody>
        </table>`
      }
      <${Spending} title="By model" rows=${data.models} none="No calls were charged in this month." />
      ${data.tags.some(({ name }) => name !== null) && html`<${Spending} title="By tag" rows=${data.tags} none="" />`}
    </div>
  </section>`
}

function negated(usd: Usd): Usd {
  return usd === '0' ? usd : usd.startsWith('-') ? usd.slice(1) : `-${usd}`
}

function Spending({
  title,
  rows,
  none,
}: {
  readonly title: string
  readonly rows: Read<StatementAnswer>['data']['models']
  readonly none: string
}) {
  return html`<h3>${title}</h3>
    ${
      rows.length === 0
        ? html`<p class="muted">${none}</p>`
        : html`<table class="plain ruled sums">
          <${Heads} names=${['Name', 'Calls', 'Cost']} end=${['Calls', 'Cost']} />
          <tbody>${rows.map(({ name, calls, cost_usd: cost }) => html`<tr key=${name}><td><bdi>${name ?? '–'}</bdi></td><td class="end number">${count(calls)}</td><td class="end number">${exactMoney(cost)}</td></tr>`)}</tbody>
        </table>`
    }`
}
