/** Payments of customers: the list, one payment, and what an operator decides about it. */
import { useState } from 'preact/hooks'
import type { paymentView } from '../../server/admin/resources/payment.ts'
import type { AccountRow } from '../answers.ts'
import type { Read } from '../amounts.ts'
import { call, to, useAnswer, usePages, withQuery, type Pages } from '../api.ts'
import { exactMoney } from '../format.ts'
import { html, type Content } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Choose } from '../parts/choose.ts'
import { Code, Id } from '../parts/copy.ts'
import { Facts, Time } from '../parts/facts.ts'
import { Filters, isFiltered, type Filter } from '../parts/filters.ts'
import { TextField, useSubmission } from '../parts/form.ts'
import { Dialog, Sheet } from '../parts/sheet.ts'
import { Answered, Empty, Failure } from '../parts/states.ts'
import { amounts, hrefOpening, ListEnd, Table, type Column } from '../parts/table.ts'
import { toast } from '../parts/toast.ts'
import { place, setQuery } from '../state.ts'
import { actorText } from '../text.ts'

type Payment = Read<ReturnType<typeof paymentView>>

const STATE: Filter = {
  name: 'state',
  label: 'state',
  values: ['open', 'booked', 'unmatched', 'lapsed'],
}
const FILTERS: readonly Filter[] = [
  STATE,
  { name: 'account', label: 'account', chooses: 'account' },
]

const STATES: Readonly<Record<Payment['state'], readonly [tone: string, shape: string]>> = {
  open: ['muted', '○'],
  booked: ['ok', '●'],
  unmatched: ['warn', '▲'],
  lapsed: ['muted', '✕'],
}

function State({ of }: { readonly of: Payment['state'] }) {
  const [tone, shape] = STATES[of]
  return html`<span class=${tone}><span aria-hidden="true">${shape}</span> ${of}</span>`
}

const paidIn = ({ charge }: Payment) => `${charge.amount} ${charge.currency.toUpperCase()}`

const COLUMNS: readonly Column<Payment>[] = [
  {
    key: 'reference',
    label: 'Reference',
    cell: ({ reference }) => html`<code>${reference}</code>`,
    title: ({ reference }) => reference,
    long: true,
  },
  {
    key: 'state',
    label: 'State',
    cell: ({ state }) => html`<${State} of=${state} />`,
    phone: 'rest',
  },
  {
    key: 'account',
    label: 'Account',
    cell: ({ account_id: id }) =>
      id === null ? 'no account' : html`<a href=${to.account(id)}>${id}</a>`,
    phone: 'rest',
    long: true,
  },
  amounts(({ usd }) => usd, {
    key: 'usd',
    label: 'Credit',
    none: 'undecided',
    phone: 'figure',
  }),
  { key: 'charge', label: 'Price', cell: paidIn, end: true, phone: 'rest' },
  amounts(({ taken_back_usd: usd }) => (usd === '0' ? null : usd), {
    key: 'taken',
    label: 'Taken back',
    none: 'nothing',
    phone: 'none',
  }),
  {
    key: 'created',
    label: 'Ordered',
    cell: ({ created_at: at }) => html`<${Time} at=${at} />`,
    phone: 'rest',
  },
]

export function Payments() {
  const { query } = place.value
  const parameters = new URLSearchParams()
  for (const name of ['state', 'account'])
    for (const value of query.getAll(name)) parameters.append(name, value)
  const list = usePages<Payment>(withQuery('/admin/payments', parameters))
  return html`<div class="screen">
    <header class="screen-head"><h1>Payments</h1><${Filters} filters=${FILTERS} /></header>
    <${List} list=${list} columns=${COLUMNS} filters=${FILTERS} />
  </div>`
}

/** The payments of one account, and links to pay. */
export function AccountPayments({ row }: { readonly row: AccountRow }) {
  const { query } = place.value
  const [ordering, setOrdering] = useState(false)
  const parameters = new URLSearchParams({ account: row.id })
  for (const state of query.getAll('state')) parameters.append('state', state)
  const list = usePages<Payment>(withQuery('/admin/payments', parameters))
  const isClosed = row.archived_at || row.disabled
  return html`<div class="screen">
    <div class="screen-head">
      <${Filters} filters=${[STATE]} />
      <div class="screen-actions">
        ${isClosed ? html`<span class="muted">No credit is sold to this account.</span>` : html`<${Button} kind="primary" right="money" onClick=${() => setOrdering(true)}>Payment link<//>`}
      </div>
    </div>
    <${List} list=${list} columns=${COLUMNS.filter(({ key }) => key !== 'account')} filters=${[STATE]} />
    ${ordering && html`<${PaymentLink} row=${row} onClose=${() => setOrdering(false)} onDone=${list.reload} />`}
  </div>`
}

function List({
  list,
  columns,
  filters,
}: {
  readonly list: Pages<Payment>
  readonly columns: readonly Column<Payment>[]
  readonly filters: readonly Filter[]
}) {
  const open = place.value.query.get('open') ?? undefined
  const isEmpty = !list.loading && !list.error && list.rows.length === 0
  return html`${list.error && html`<${Failure} error=${list.error} onRetry=${list.reload} keptAt=${list.at} />`}
    ${
      isEmpty
        ? isFiltered(filters)
          ? html`<${Empty} title="No payments match."><p class="muted">Remove a filter above.</p><//>`
          : html`<${Empty} title="There are no payments yet."><p class="muted">Where <code>payments</code> are configured, customers buy credit on the page of a payment provider. Their orders stand here.</p><//>`
        : html`<${Table}
            name="payments"
            caption="Payments of customers, newest first"
            columns=${columns}
            rows=${list.rows}
            idOf=${({ reference }: Payment) => reference}
            hrefOf=${({ reference }: Payment) => hrefOpening(reference)}
            open=${open}
            loading=${list.loading}
          />`
    }
    <${ListEnd} list=${list} />
    ${open !== undefined && html`<${PaymentSheet} key=${open} reference=${open} onChange=${list.reload} />`}`
}

function PaymentSheet({
  reference,
  onChange,
}: {
  readonly reference: string
  readonly onChange: () => void
}) {
  const path = `/admin/payments/${encodeURIComponent(reference)}`
  const answer = useAnswer<{ data: Payment }>(path)
  const changed = (data: Payment) => {
    answer.put({ data })
    onChange()
  }
  return html`<${Sheet} title=${html`<${Id} id=${reference} />`} onClose=${() => setQuery({ open: undefined })}>
    <${Answered} of=${answer}>
      ${({ data }: { data: Payment }) => html`<div class="stack">
        <${Facts} facts=${factsOf(data)} />
        ${data.state === 'unmatched' ? html`<${Book} payment=${data} path=${path} onDone=${changed} />` : html`<${Check} payment=${data} path=${path} onDone=${changed} />`}
      </div>`}
    <//>
  <//>`
}

function factsOf(payment: Payment): (readonly [string, Content])[] {
  const { state, account_id: account, by, usd, rate, payment: id, taken_back_usd: refund } = payment
  const when = ['Created', html`<${Time} at=${payment.created_at} />`] as const
  const shown = ['State', html`<${State} of=${state} />`] as const
  const paid = ['Payment', id === null ? 'not paid' : html`<${Id} id=${id} />`] as const
  if (account === null) return [shown, ['Paid', paidIn(payment)], paid, when]
  const { currency } = payment.charge
  return [
    shown,
    ['Account', html`<a href=${to.account(account)}>${account}</a>`],
    ['Credit', exactMoney(usd)],
    ['Price', paidIn(payment)],
    ['Rate', rate === null ? 'none' : `${rate} ${currency.toUpperCase()} for 1 USD`],
    ['Taken back', refund === '0' ? 'nothing' : exactMoney(refund)],
    ['Ordered by', by === null ? 'not known' : actorText(by)],
    paid,
    when,
    ['Booked', payment.booked_at === null ? 'not yet' : html`<${Time} at=${payment.booked_at} />`],
  ]
}

interface DecisionProps {
  readonly payment: Payment
  readonly path: string
  readonly onDone: (payment: Payment) => void
}

const HELP: Readonly<Partial<Record<Payment['state'], string>>> = {
  open: 'The provider is asked by itself, too: hourly for three days, and when the customer comes back.',
  booked:
    'Money is given back at the payment provider: a refund there takes its share of the credit back here.',
  lapsed: 'It was not paid within three days. A payment that comes later is booked all the same.',
}

/** Asks the provider what became of an order. */
function Check({ payment, path, onDone }: DecisionProps) {
  const form = useSubmission(async () => {
    const { data } = await call<{ data: Payment }>('POST', `${path}/check`, { body: {} })
    const isSame = data.state === payment.state && data.taken_back_usd === payment.taken_back_usd
    toast(isSame ? 'The provider tells nothing new' : `The payment is ${data.state}`)
    onDone(data)
  })
  return html`<form class="form" onSubmit=${form.submit}>
    <p class="help">
      ${HELP[payment.state]}
    </p>
    ${form.error && html`<${Failure} error=${form.error} />`}
    <div class="actions"><${Button} type="submit" right="money" busy=${form.busy}>Ask the provider<//></div>
  </form>`
}

/** Decides whose a payment without an order is. It is booked once. */
function Book({ payment, path, onDone }: DecisionProps) {
  const [account, setAccount] = useState('')
  const [usd, setUsd] = useState('')
  const [note, setNote] = useState('')
  const [missing, setMissing] = useState(false)
  const form = useSubmission(async () => {
    if (account === '') return setMissing(true)
    const body = {
      account_id: account,
      ...(usd.trim() && { usd: usd.trim() }),
      ...(note.trim() && { note: note.trim() }),
    }
    const { data } = await call<{ data: Payment }>('POST', `${path}/book`, { body })
    toast(`Booked ${exactMoney(data.usd)} to ${account}`)
    onDone(data)
  })
  const placed = ['account_id', 'usd', 'note']
  return html`<section class="stack">
    <h3>Book it</h3>
    <p class="help">This was paid, and for no order of that amount. It is booked once, to the account that you name.</p>
    <form class="form" onSubmit=${form.submit}>
      <${Choose} kind="account" label="Account" value=${account} onChoose=${setAccount} error=${missing && account === '' ? 'Choose the account of this customer.' : form.errorFor('account_id')} />
      <${TextField} label="Credit, USD" value=${usd} onInput=${setUsd} placeholder=${`${paidIn(payment)} by the present rate`} error=${form.errorFor('usd')} />
      <${TextField} label="Note" value=${note} onInput=${setNote} error=${form.errorFor('note')} />
      ${form.error && !placed.includes(form.error.param ?? '') && html`<${Failure} error=${form.error} />`}
      <div class="actions"><${Button} kind="primary" type="submit" right="money" busy=${form.busy}>Book<//></div>
    </form>
  </section>`
}

/** Orders credit, and shows the page on which it is paid: the operator sends it. */
function PaymentLink({
  row,
  onClose,
  onDone,
}: {
  readonly row: AccountRow
  readonly onClose: () => void
  readonly onDone: () => void
}) {
  const [usd, setUsd] = useState('')
  const [made, setMade] = useState<{ readonly url: string; readonly charge: Payment['charge'] }>()
  const form = useSubmission(async () => {
    const path = `/admin/accounts/${row.id}/checkout`
    const { data } = await call<{ data: NonNullable<typeof made> }>('POST', path, {
      body: { usd: usd.trim() },
    })
    setMade(data)
    onDone()
  })
  const title = html`Payment link for <bdi>${row.name}</bdi>`
  if (made) {
    return html`<${Dialog} title=${title} onClose=${onClose}>
      <p>Send it to the customer. The credit is booked once ${made.charge.amount} ${made.charge.currency.toUpperCase()} are paid there.</p>
      <${Code} text=${made.url} label="Page of the payment provider" wrap />
      <div class="actions"><${Button} kind="primary" onClick=${onClose}>Done<//></div>
    <//>`
  }
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      <${TextField} label="Credit, USD" value=${usd} onInput=${setUsd} placeholder="25" autofocus error=${form.errorFor('usd')} />
      ${form.error && form.error.param !== 'usd' && html`<${Failure} error=${form.error} />`}
      <div class="actions">
        <${Button} kind="primary" type="submit" right="money" busy=${form.busy}>Make the link<//>
        <${Button} onClick=${onClose}>Cancel<//>
      </div>
    </form>
  <//>`
}
