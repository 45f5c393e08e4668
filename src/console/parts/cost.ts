/** The cost of a call, in lines that add up. */
import type { BillAnswer } from '../../server/admin/resources/bill.ts'
import type { Read } from '../amounts.ts'
import type { Usd } from '../answers.ts'
import { addAmounts, count, exactMoney, plainDecimal, wholeDecimals } from '../format.ts'
import { html } from '../html.ts'
import { Money } from './facts.ts'

/** A line for each member of `cost_details` that is not zero, and their sum. */
export function CostTable({
  details,
  total,
  estimated = false,
}: {
  readonly details: Readonly<Record<string, Usd>> | null | undefined
  readonly total: Usd
  readonly estimated?: boolean
}) {
  const lines = Object.entries(details ?? {}).filter(([, usd]) => usd !== '0')
  const decimals = wholeDecimals([...lines.map(([, usd]) => usd), total])
  const sums = lines.length === 0 || addAmounts(lines.map(([, usd]) => usd)) === plainDecimal(total)
  return html`<table class="plain cost">
      <tbody>
        ${lines.map(
          ([name, usd]) =>
            html`<tr key=${name}>
              <th scope="row">${name.replaceAll('_', ' ')}</th>
              <td class="end"><${Money} usd=${usd} decimals=${decimals} /></td>
            </tr>`,
        )}
      </tbody>
      <tfoot>
        <tr>
          <th scope="row">Total</th>
          <td class="end"><${Money} usd=${total} decimals=${decimals} estimated=${estimated} /></td>
        </tr>
      </tfoot>
    </table>
    ${!sums && html`<p class="muted">Lines below the smallest amount are left out.</p>`}`
}

/** A line for each quantity that was charged, with its price, and what else adds up to the cost. */
export function BillTable({ bill }: { readonly bill: Read<BillAnswer> }) {
  const { lines, rounding_usd, waived_usd, waived_because: because, cut_usd, vendor } = bill
  const others = [
    ['rounding', rounding_usd],
    [because ? `waived: ${because.replaceAll('_', ' ')}` : 'waived', minus(waived_usd)],
    ['more than a call may cost', minus(cut_usd)],
  ] as const
  const decimals = wholeDecimals([
    ...lines.map((line) => line.amount_usd),
    ...others.map(([, usd]) => usd),
    bill.cost_usd,
    bill.refund?.usd,
    vendor?.cost_usd,
  ])
  const amount = (usd: Usd, estimated = false) =>
    html`<td class="end"><${Money} usd=${usd} decimals=${decimals} estimated=${estimated} /></td>`
  return html`<table class="plain cost">
    <tbody>
      ${lines.map(
        (
          { source, price, priced_as: as, quantity, unit_price_usd: unit, amount_usd: usd },
          place,
        ) =>
          html`<tr key=${place}>
            <th scope="row">
              ${source === 'model' ? '' : `${source}, `}${price.replaceAll('_', ' ')}${as === price ? '' : ` as ${as.replaceAll('_', ' ')}`}${' '}
              <span class="muted number">
                ${typeof quantity === 'number' ? count(quantity) : quantity} × ${exactMoney(unit)}
              </span>
            </th>
            ${amount(usd)}
          </tr>`,
      )}
      ${others.map(([name, usd]) => usd !== '0' && html`<tr key=${name}><th scope="row">${name}</th>${amount(usd)}</tr>`)}
    </tbody>
    <tfoot>
      <tr>
        <th scope="row">Total</th>
        ${amount(bill.cost_usd, bill.estimated)}
      </tr>
      ${bill.refund && html`<tr><th scope="row">Refunded: <bdi>${bill.refund.reason}</bdi></th>${amount(minus(bill.refund.usd))}</tr>`}
      ${vendor && html`<tr><th scope="row">Vendors are paid</th>${amount(vendor.cost_usd)}</tr>`}
    </tfoot>
  </table>`
}

function minus(usd: Usd): Usd {
  return usd === '0' ? usd : `-${usd}`
}
