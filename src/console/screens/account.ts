/** One account: its money, its bookings, its keys, its statement. */
import { useState } from 'preact/hooks'
import { useAnswer, usePages, withQuery, type Loaded } from '../api.ts'
import type { AccountRow, KeyRow, LedgerRow, Usd } from '../answers.ts'
import { addAmounts, count, exactMoney } from '../format.ts'
import { html, type Content } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Button } from '../parts/button.ts'
import { copyText, Id } from '../parts/copy.ts'
import { Facts, Money, Tile, Time } from '../parts/facts.ts'
import { Filters, type Filter } from '../parts/filters.ts'
import { Limits } from '../parts/limits.ts'
import { Answered, Empty, Failure } from '../parts/states.ts'
import { Tabs } from '../parts/tabs.ts'
import { Table, type Column } from '../parts/table.ts'
import { allows, go, place, type ScreenProps } from '../state.ts'
import {
  AddCredits,
  Adjust,
  ArchiveAccount,
  DisableAccount,
  EditAccount,
  VerifyNow,
} from './account-actions.ts'
import { AccountState, keysOf } from './accounts.ts'
import { BalanceCurve } from './balance-curve.ts'
import { KeyList } from './keys.ts'
import { Statement } from './statement.ts'

const TABS = ['overview', 'bookings', 'keys', 'statement']
const KINDS: readonly Filter[] = [
  { name: 'kind', label: 'kind', values: ['top-up', 'adjust', 'usage'] },
  { name: 'key', label: 'key', placeholder: 'id of a key' },
]

const ROWS: readonly Column<LedgerRow>[] = [
  { key: 'seq', label: 'Row', cell: ({ seq }) => count(seq) },
  { key: 'at', label: 'Time', cell: ({ at }) => html`<${Time} at=${at} />`, phone: 'rest' },
  { key: 'kind', label: 'Kind', cell: ({ kind }) => kind, phone: 'rest' },
  { key: 'what', label: 'What', cell: whatOf, phone: 'rest' },
  {
    key: 'amount',
    label: 'Amount',
    cell: (row) => html`<${Money} usd=${row.amount_usd} />`,
    end: true,
    phone: 'figure',
  },
]

export function Account({ params }: ScreenProps) {
  const { id = '', tab = 'overview' } = params
  const answer = useAnswer<{ data: AccountRow }>(`/admin/accounts/${id}`)
  return html`<div class="screen">
    <${Answered} of=${answer} lines=${12}>
      ${({ data }: { data: AccountRow }) => html`<div class="screen">
        <header class="screen-head">
          <h1><bdi>${data.name}</bdi></h1>
          <${AccountState} row=${data} />
          <${Id} id=${data.id} />
          <${Actions} row=${data} onChange=${answer.reload} />
        </header>
        <${Tabs} label="Parts of the account" current=${tab} tabs=${TABS.map((key) => ({
          key,
          label:
            key === 'keys' ? `Keys (${count(keysOf(data))})` : key[0]!.toUpperCase() + key.slice(1),
          href: `/console/accounts/${id}/${key}`,
        }))} />
        ${
          tab === 'bookings'
            ? html`<${Bookings} id=${id} />`
            : tab === 'keys'
              ? html`<${AccountKeys} id=${id} />`
              : tab === 'statement'
                ? html`<${Statement} id=${id} />`
                : html`<${Overview} row=${data} answer=${answer} />`
        }
      </div>`}
    <//>
  </div>`
}

function Actions({ row, onChange }: { readonly row: AccountRow; readonly onChange: () => void }) {
  const [open, setOpen] = useState<'credits' | 'adjust' | 'edit' | 'disable' | 'archive'>()
  const close = () => setOpen(undefined)
  useKeys({
    e: () => !row.archived_at && allows('billing') && setOpen('edit'),
    c: () => void copyText(row.id),
  })
  const done = () => {
    close()
    onChange()
  }
  const action = { row, onClose: close, onDone: done }
  return html`<div class="screen-actions">
    ${
      row.archived_at
        ? html`<span class="muted">archived <${Time} at=${row.archived_at} /></span>`
        : html`<${Button} role="admin" onClick=${() => setOpen('edit')}>Edit<//>
          <${Button} role="admin" onClick=${() => setOpen('disable')}>${row.disabled ? 'Enable' : 'Disable'}<//>
          <${Button} kind="danger" role="admin" onClick=${() => setOpen('archive')}>Archive<//>
          <${Button} role="billing" onClick=${() => setOpen('adjust')}>Adjust<//>
          <${Button} kind="primary" role="billing" onClick=${() => setOpen('credits')}>Add credits<//>`
    }
    ${open === 'credits' && html`<${AddCredits} ...${action} />`}
    ${open === 'adjust' && html`<${Adjust} ...${action} />`}
    ${open === 'edit' && html`<${EditAccount} ...${action} />`}
    ${open === 'disable' && html`<${DisableAccount} ...${action} />`}
    ${open === 'archive' && html`<${ArchiveAccount} ...${action} />`}
  </div>`
}

function Overview({
  row,
  answer,
}: {
  readonly row: AccountRow
  readonly answer: Loaded<{ data: AccountRow }>
}) {
  const held = heldOf(row)
  return html`<div class="tiles">
      <${Tile} label="Balance" note=${exactMoney(row.balance_usd)}><${Money} usd=${row.balance_usd} balance /><//>
      <${Tile} label="Held by running calls" note=${`${count(row.running ?? null)} running`} href=${withQuery('/console/requests', { account: row.id, running: 'true' })}><${Money} usd=${held} /><//>
      <${Tile} label="Available" note=${exactMoney(row.available_usd)}><${Money} usd=${row.available_usd} balance /><//>
      <${Tile} label="Spent this month" note="UTC" href=${withQuery('/console/usage', { account: row.id, from: 'month' })}><${Money} usd=${row.spend?.month} /><//>
      <${Tile} label="Spent today" note="UTC"><${Money} usd=${row.spend?.day} /><//>
    </div>
    <div class="columns">
      <section class="panel broad low" aria-label="Balance over 30 days">
        <header><h2>Balance, 30 days</h2><${VerifyNow} id=${row.id} /></header>
        <div class="panel-body"><${BalanceCurve} id=${row.id} /></div>
      </section>
      <div class="stack upper">
      <section class="panel" aria-label="Settings">
        <header><h2>Settings</h2></header>
        <div class="panel-body"><${Facts} facts=${settingsOf(row)} /></div>
      </section>
      <section class="panel" aria-label="Limits">
        <header><h2>Limits over all its keys</h2></header>
        <div class="panel-body">
          ${row.limits && row.limits.length > 0 ? html`<${Limits} limits=${row.limits} />` : html`<p class="muted">Requests a minute, calls at once and spend are unlimited here. Each key has limits of its own.</p>`}
        </div>
      </section>
      </div>
    </div>
    ${answer.error && html`<${Failure} error=${answer.error} />`}`
}

function settingsOf(row: AccountRow): (readonly [string, Content])[] {
  return [
    ['Tier', row.free_tier ? 'free: never credited' : 'paid'],
    ['Created', html`<${Time} at=${row.created_at} />`],
    ['Alert below', row.alert_below_usd ? exactMoney(row.alert_below_usd) : 'default'],
    ['Note', row.note ?? '–'],
  ]
}

function heldOf({ balance_usd: balance, available_usd: available }: AccountRow): Usd {
  return addAmounts([balance, available.startsWith('-') ? available.slice(1) : `-${available}`])
}

function Bookings({ id }: { readonly id: string }) {
  const { query } = place.value
  const parameters = new URLSearchParams()
  for (const name of ['kind', 'key'])
    for (const value of query.getAll(name)) parameters.append(name, value)
  const path = withQuery(`/admin/accounts/${id}/ledger`, parameters)
  const list = usePages<LedgerRow>(path, 'before')
  const csv = `${path}${path.includes('?') ? '&' : '?'}format=csv`
  useKeys({ x: () => location.assign(csv) })
  const isEmpty = !list.loading && !list.error && list.rows.length === 0
  return html`<div class="screen">
    <div class="screen-head"><${Filters} filters=${KINDS} /><div class="screen-actions"><a class="button quiet" href=${csv} download>CSV</a></div></div>
    ${list.error && html`<${Failure} error=${list.error} onRetry=${list.reload} keptAt=${list.at} />`}
    ${
      isEmpty
        ? html`<${Empty} title="No rows."><p class="muted">Credits, corrections and the charge of each call stand here. Rows are never changed.</p><//>`
        : html`<${Table} name="bookings" caption="Rows of the ledger, newest first" columns=${ROWS} rows=${list.rows} idOf=${({ seq }: LedgerRow) => String(seq)} hrefOf=${(row: LedgerRow) => (row.request_id ? withQuery('/console/requests', { open: row.request_id, account: id, from: '-90d' }) : undefined)} loading=${list.loading} />`
    }
    ${list.next !== null && html`<p class="more"><${Button} busy=${list.loadingMore} onClick=${list.more}>Older<//></p>`}
  </div>`
}

function whatOf(row: LedgerRow): Content {
  if (row.usage) return html`${row.usage.model} <span class="muted">${row.key_id ?? ''}</span>`
  return html`<span class="mono">${row.reference ?? row.request_id ?? ''}</span> <bdi class="muted">${row.reason ?? row.note ?? ''}</bdi>`
}

function AccountKeys({ id }: { readonly id: string }) {
  const list = usePages<KeyRow>(withQuery('/admin/keys', { account: id }))
  const make = () => go(withQuery('/console/keys', { account: id, new: id }))
  return html`<div class="screen">
    <div class="screen-head"><div class="screen-actions"><${Button} kind="primary" role="admin" onClick=${make}>New key<//></div></div>
    <${KeyList} list=${list} onNew=${make} />
  </div>`
}
