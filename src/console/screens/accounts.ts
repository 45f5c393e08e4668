/** Accounts: balances, spend, and making one. */
import { useState } from 'preact/hooks'
import { usePages, withQuery } from '../api.ts'
import type { AccountRow } from '../answers.ts'
import { count } from '../format.ts'
import { html } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Button } from '../parts/button.ts'
import { Time } from '../parts/facts.ts'
import { Filters, isFiltered, type Filter } from '../parts/filters.ts'
import { FormEnd, send, TextField, useSubmission } from '../parts/form.ts'
import { Dialog } from '../parts/sheet.ts'
import { Empty, Failure } from '../parts/states.ts'
import { amounts, ColumnChoice, ListEnd, Table, type Column } from '../parts/table.ts'
import { allows, go, place } from '../state.ts'
import { actsOf, useOpened } from '../acts.ts'

const FILTERS: readonly Filter[] = [
  { name: 'q', label: 'text', placeholder: 'part of a name or id' },
  { name: 'state', label: 'state', values: ['active', 'disabled', 'archived'] },
]
const NAME = 'accounts'

const COLUMNS: readonly Column<AccountRow>[] = [
  {
    key: 'name',
    label: 'Name',
    cell: ({ name }) => html`<bdi>${name}</bdi>`,
    title: ({ name }) => name,
    sort: 'name',
    long: true,
  },
  {
    key: 'id',
    label: 'Id',
    cell: ({ id }) => html`<code>${id}</code>`,
    title: ({ id }) => id,
    phone: 'rest',
    long: true,
  },
  {
    key: 'state',
    label: 'State',
    cell: (row) => html`<${AccountState} row=${row} />`,
    phone: 'rest',
  },
  amounts(({ balance_usd }) => balance_usd, {
    key: 'balance',
    label: 'Balance',
    sort: 'balance_usd',
    balance: true,
    phone: 'figure',
  }),
  amounts(({ available_usd }) => available_usd, {
    key: 'available',
    label: 'Available',
    balance: true,
    phone: 'none',
  }),
  amounts(({ spend }) => spend?.month, {
    key: 'month',
    label: 'Spent this month',
    sort: 'spend_month_usd',
    phone: 'rest',
  }),
  { key: 'keys', label: 'Keys', cell: (row) => count(keysOf(row)), end: true, phone: 'none' },
  {
    key: 'tier',
    label: 'Tier',
    cell: ({ free_tier: free }) => (free ? 'free' : 'paid'),
    phone: 'rest',
  },
  {
    key: 'created',
    label: 'Created',
    cell: (row) => html`<${Time} at=${row.created_at} />`,
    sort: 'created_at',
    phone: 'none',
  },
]

export function Accounts() {
  const { query } = place.value
  const [creating, setCreating] = useOpened('new')
  const list = usePages<AccountRow>(pathOf(query))
  useKeys({ n: () => setCreating('') })
  const isEmpty = !list.loading && !list.error && list.rows.length === 0
  return html`<div class="screen">
    <header class="screen-head">
      <h1>Accounts</h1>
      <${Filters} filters=${FILTERS} />
      <div class="screen-actions">
        ${allows('money') && html`<a class="button quiet" href="/console/payments">Payments</a>`}
        <${ColumnChoice} name=${NAME} columns=${COLUMNS} />
        <${Button} kind="primary" right="keys" onClick=${() => setCreating('')}>New account<//>
      </div>
    </header>
    ${list.error && html`<${Failure} error=${list.error} onRetry=${list.reload} keptAt=${list.at} />`}
    ${
      isEmpty
        ? isFiltered(FILTERS)
          ? html`<${Empty} title="No accounts match."><p class="muted">Remove a filter above.</p><//>`
          : html`<${Empty} title="There are no accounts yet.">
            <p class="muted">An account holds money, and pays for the calls of its keys.</p>
            <${Button} kind="primary" right="keys" onClick=${() => setCreating('')}>New account<//>
          <//>`
        : html`<${Table}
          name=${NAME}
          caption="Accounts"
          columns=${COLUMNS}
          rows=${list.rows}
          idOf=${({ id }: AccountRow) => id}
          hrefOf=${({ id }: AccountRow) => `/console/accounts/${id}/overview`}
          nameOf=${({ name }: AccountRow) => name}
          actsOf=${({ id, name, archived_at: archived, disabled }: AccountRow) =>
            actsOf({
              kind: 'account',
              id,
              name,
              state: archived ? 'archived' : disabled ? 'disabled' : 'active',
            })}
          loading=${list.loading}
        />`
    }
    <${ListEnd} list=${list} noun="account" />
    ${creating !== undefined && html`<${NewAccount} onClose=${() => setCreating(undefined)} />`}
  </div>`
}

export function AccountState({ row }: { readonly row: AccountRow }) {
  const [word, tone, shape] = row.archived_at
    ? ['archived', 'muted', '○']
    : row.disabled
      ? ['disabled', 'warn', '○']
      : ['active', 'ok', '●']
  return html`<span class=${tone}><span aria-hidden="true">${shape}</span> ${word}</span>`
}

export function keysOf({ keys, key_count: counted }: AccountRow): number {
  return counted ?? keys?.length ?? 0
}

function NewAccount({ onClose }: { readonly onClose: () => void }) {
  const [name, setName] = useState('')
  const [id, setId] = useState('')
  const [missing, setMissing] = useState(false)
  const body = { name: name.trim(), ...(id.trim() && { id: id.trim() }) }
  const request = { method: 'POST', path: '/admin/accounts', body }
  const entry = { seed: { accounts: [{ id: id.trim() || 'account', name: name.trim() }] } }
  const form = useSubmission(async () => {
    if (name.trim() === '') return setMissing(true)
    const { data } = await send<{ data: AccountRow }>(request)
    onClose()
    go(`/console/accounts/${data.id}/overview`)
  })
  return html`<${Dialog} title="New account" onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      <${TextField} label="Name" value=${name} onInput=${setName} autofocus error=${missing && name === '' ? 'An account needs a name, such as a customer or a team.' : form.errorFor('name')} />
      <${TextField} label="Id" value=${id} onInput=${setId} mono placeholder="made for you" help="Lower-case letters, digits, _ and -. It never changes." error=${form.errorFor('id')} />
      <${FormEnd} form=${form} verb="Create account" right="keys" onClose=${onClose} request=${request} entry=${entry} />
    </form>
  <//>`
}

function pathOf(query: URLSearchParams): string {
  const parameters = new URLSearchParams()
  for (const name of ['q', 'state', 'sort'])
    for (const value of query.getAll(name)) parameters.append(name, value)
  return withQuery('/admin/accounts', parameters)
}
