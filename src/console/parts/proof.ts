/** Whether the shown figures agree with the ledger. */
import type { Agreement } from '../answers.ts'
import { exactMoney } from '../format.ts'
import { html } from '../html.ts'
import { Time } from './facts.ts'

export function Proof({ ledger }: { readonly ledger: Agreement | undefined }) {
  if (!ledger) return null
  if (ledger.agrees === null) return html`<p class="muted">Usage is being read from the ledger.</p>`
  return ledger.agrees
    ? html`<p class="ok">✓ Equals the ledger${ledger.as_of ? html`, checked <${Time} at=${ledger.as_of} />` : ''}.</p>`
    : html`<p class="bad">✕ Differs from the ledger. Settings, gateways has the rebuilding of usage.</p>`
}

/** The sums that are not those of the ledger. */
export function Differences({ of }: { readonly of: Agreement['differences'] }) {
  return html`<ul>
    ${of.map(
      ({ account_id, key_id, indexed_usd, ledger_usd }) =>
        html`<li key=${`${account_id}/${key_id}`}>
          <code>${account_id}${key_id === null ? ', balance' : `/${key_id}`}</code>:
          ${' '}${exactMoney(indexed_usd)} here, ${exactMoney(ledger_usd)} in the ledger
        </li>`,
    )}
  </ul>`
}
