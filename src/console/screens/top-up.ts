/** Credit that a customer buys: the amounts that are proposed, one of its own, and what became of an order. */
import { useEffect, useState } from 'preact/hooks'
import type { holderPayment } from '../../server/admin/resources/payment.ts'
import type { Read } from '../amounts.ts'
import { call, useAnswer } from '../api.ts'
import { exactMoney } from '../format.ts'
import { html } from '../html.ts'
import { Button } from '../parts/button.ts'
import { TextField, useSubmission } from '../parts/form.ts'
import { Panel } from '../parts/panel.ts'
import { Failure, Notice } from '../parts/states.ts'

type Payment = Read<ReturnType<typeof holderPayment>>

interface Terms {
  readonly currency: string
  readonly amounts: readonly string[]
  readonly min: string
  readonly max: string
}

const ASK_MS = 5000

/** Nothing where customers do not pay here. @param onBooked called when an order that was paid is booked */
export function TopUp({ onBooked }: { readonly onBooked?: () => void }) {
  const terms = useAnswer<{ terms: Terms }>('/me/api/payments?limit=1').data?.terms
  const [usd, setUsd] = useState('')
  const form = useSubmission(async () => {
    const { data } = await call<{ data: { url: string } }>('POST', '/me/api/checkout', {
      body: { usd: usd.trim() },
    })
    location.assign(data.url)
  })
  if (!terms) return null
  const { amounts, currency, min, max } = terms
  return html`<${Returned} onBooked=${onBooked} />
    <${Panel} title="Add credits">
      <form class="form" onSubmit=${form.submit}>
        <div class="actions">
          ${amounts.map(
            (amount) =>
              html`<${Button} key=${amount} onClick=${() => setUsd(amount)}>${amount} USD<//>`,
          )}
        </div>
        <${TextField} label="Amount in USD" value=${usd} onInput=${setUsd} error=${form.errorFor('usd')} help=${`From ${min} to ${max}. You pay in ${currency.toUpperCase()}, on the page of the payment provider.`} />
        ${form.error && form.error.param !== 'usd' && html`<${Failure} error=${form.error} />`}
        <div class="actions"><${Button} kind="primary" type="submit" busy=${form.busy}>Pay<//></div>
      </form>
    <//>`
}

/** What became of the order whose customer has come back from the page of the provider. */
function Returned({ onBooked }: { readonly onBooked?: (() => void) | undefined }) {
  const reference = new URLSearchParams(location.search).get('payment')
  const [asks, setAsks] = useState(true)
  const path = reference === null ? null : `/me/api/payments/${encodeURIComponent(reference)}`
  const { data } = useAnswer<{ data: Payment }>(path, asks ? { every: ASK_MS } : undefined)
  const payment = data?.data
  useEffect(() => {
    if (!payment || payment.state === 'open') return
    setAsks(false)
    if (payment.state === 'booked') onBooked?.()
  }, [payment?.state])
  if (!payment) return null
  if (payment.state === 'open')
    return html`<${Notice} tone="warn">The payment is being confirmed.<//>`
  if (payment.state === 'booked')
    return html`<${Notice} tone="ok">${exactMoney(payment.usd)} were added.<//>`
  return html`<${Notice} tone="bad">This order was not paid.<//>`
}
