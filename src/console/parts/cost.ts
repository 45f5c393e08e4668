/** The cost of a call, in lines that add up. */
import type { Usd } from '../answers.ts'
import { addAmounts, exactMoney, plainDecimal } from '../format.ts'
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
  const sums = lines.length === 0 || addAmounts(lines.map(([, usd]) => usd)) === plainDecimal(total)
  return html`<table class="plain cost">
      <tbody>
        ${lines.map(
          ([name, usd]) =>
            html`<tr key=${name}>
              <th scope="row">${name.replaceAll('_', ' ')}</th>
              <td class="end number">${exactMoney(usd)}</td>
            </tr>`,
        )}
      </tbody>
      <tfoot>
        <tr>
          <th scope="row">Total</th>
          <td class="end"><${Money} usd=${total} exact estimated=${estimated} /></td>
        </tr>
      </tfoot>
    </table>
    ${!sums && html`<p class="muted">Lines below the smallest amount are left out.</p>`}`
}
