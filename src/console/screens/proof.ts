/** Whether the shown cost equals the ledger's: below every figure about money that comes from the index of usage. */
import type { Usd, Agreement } from '../answers.ts'
import { exactMoney, percentOf } from '../format.ts'
import { html } from '../html.ts'
import { Money, Time } from '../parts/facts.ts'

/** @param cost null where the figures are none of the ledger's */
export function Proof({
  ledger,
  cost,
  indexed,
}: {
  readonly ledger: Agreement & { readonly cost_usd: Usd | null }
  readonly cost: Usd | null
  /** From 0 to 1. */
  readonly indexed: number
}) {
  if (cost === null) {
    return html`<p class="proof muted">
      These figures come from the request log, which has no amounts: there is nothing to compare
      with the ledger.
    </p>`
  }
  return html`<div class="proof">
    ${
      ledger.agrees === true
        ? html`<p class="ok">
            ✓ Equals the ledger: <${Money} usd=${ledger.cost_usd} exact />
            <span class="muted"> (checked <${Time} at=${ledger.as_of} />)</span>
          </p>`
        : ledger.agrees === null
          ? html`<p class="muted">
              ○ Being read from the ledger: ${percentOf(indexed)}. The figures are not complete yet.
            </p>`
          : html`<p class="bad">
                ✕ Differs from the ledger, which says <${Money} usd=${ledger.cost_usd} exact />
                ${' '}(checked <${Time} at=${ledger.as_of} />). The accounts concerned are read again;
                see <a href="/console/settings/gateways">gateways</a>.
              </p>
              <ul>
                ${ledger.differences.map(
                  ({ account_id, key_id, indexed_usd, ledger_usd }) =>
                    html`<li key=${`${account_id}/${key_id}`}>
                      <code>${account_id}${key_id === null ? ', balance' : `/${key_id}`}</code>:
                      ${' '}${exactMoney(indexed_usd)} here, ${exactMoney(ledger_usd)} in the ledger
                    </li>`,
                )}
              </ul>`
    }
    <details>
      <summary>What does this compare?</summary>
      <p class="prose">
        The ledger charges every call and keeps, independently of this page, what each key has spent
        and what each account has left. These tables are made by reading its entries one by one, each
        of them once. For every account in the answer, all that was ever read is compared with those
        sums. If one of them differed by the smallest amount, this line would say so and name the key.
      </p>
    </details>
  </div>`
}
