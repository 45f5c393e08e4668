/** Keys of all accounts, and making one. */
import { useState } from 'preact/hooks'
import { usePages, withQuery, type Pages } from '../api.ts'
import type { KeyRow } from '../answers.ts'
import { html } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Button } from '../parts/button.ts'
import { Time } from '../parts/facts.ts'
import { Filters, isFiltered, type Filter } from '../parts/filters.ts'
import { CapBar } from '../parts/limits.ts'
import { Empty, Failure } from '../parts/states.ts'
import { ColumnChoice, Table, type Column } from '../parts/table.ts'
import { place } from '../state.ts'
import { NewKey } from './new-key.ts'

const FILTERS: readonly Filter[] = [
  { name: 'q', label: 'text', placeholder: 'part of a name, id or start' },
  { name: 'account', label: 'account', placeholder: 'id of an account' },
  { name: 'state', label: 'state', values: ['active', 'disabled', 'expired', 'archived'] },
  { name: 'policy', label: 'policy', values: ['any', 'none'] },
]
const NAME = 'keys'

const COLUMNS: readonly Column<KeyRow>[] = [
  { key: 'name', label: 'Name', cell: ({ name }) => name, sort: 'name' },
  {
    key: 'state',
    label: 'State',
    cell: (row) => html`<${KeyState} row=${row} />`,
    phone: 'figure',
  },
  { key: 'account', label: 'Account', cell: ({ account_id }) => account_id, phone: 'rest' },
  {
    key: 'start',
    label: 'Start',
    cell: ({ start }) => html`<code>${start}…</code>`,
    phone: 'rest',
  },
  { key: 'policy', label: 'Policy', cell: (row) => policyOf(row), phone: 'rest' },
  {
    key: 'spend',
    label: 'Spend',
    cell: (row) => html`<${CapBar} spent=${spentOf(row)} cap=${row.spend_cap} />`,
    sort: 'spend_usd',
    phone: 'rest',
  },
  {
    key: 'running',
    label: 'Running',
    cell: ({ running }) => running ?? '–',
    end: true,
    phone: 'none',
  },
  {
    key: 'used',
    label: 'Last used',
    cell: ({ last_used_at: at }) => (at === null ? 'never' : html`<${Time} at=${at} short />`),
    sort: 'last_used_at',
    phone: 'none',
  },
  {
    key: 'expires',
    label: 'Expires',
    cell: ({ expires_at: at }) => (at === null ? 'never' : html`<${Time} at=${at} short />`),
    phone: 'none',
  },
]

export function Keys() {
  const { query } = place.value
  const [creating, setCreating] = useState(query.has('new'))
  useKeys({ n: () => setCreating(true) })
  const list = usePages<KeyRow>(pathOf(query))
  return html`<div class="screen">
    <header class="screen-head">
      <h1>Keys</h1>
      <${Filters} filters=${FILTERS} />
      <div class="screen-actions">
        <${ColumnChoice} name=${NAME} columns=${COLUMNS} />
        <${Button} kind="primary" role="admin" onClick=${() => setCreating(true)}>New key<//>
      </div>
    </header>
    <${KeyList} list=${list} onNew=${() => setCreating(true)} />
    ${
      creating &&
      html`<${NewKey}
      account=${query.get('account') ?? query.get('new') ?? ''}
      onClose=${() => setCreating(false)}
      onCreated=${list.reload}
    />`
    }
  </div>`
}

export function KeyList({
  list,
  onNew,
}: {
  readonly list: Pages<KeyRow>
  readonly onNew?: () => void
}) {
  if (list.error && list.rows.length === 0) {
    return html`<${Failure} error=${list.error} onRetry=${list.reload} />`
  }
  if (!list.loading && list.rows.length === 0) {
    return isFiltered(FILTERS)
      ? html`<${Empty} title="No keys match."><p class="muted">Remove a filter above.</p><//>`
      : html`<${Empty} title="There are no keys yet.">
          <p class="muted">A key belongs to an account, which pays for its calls.</p>
          <${Button} kind="primary" role="admin" onClick=${onNew}>New key<//>
        <//>`
  }
  return html`${list.error && html`<${Failure} error=${list.error} onRetry=${list.reload} keptAt=${list.at} />`}
    <${Table}
      name=${NAME}
      caption="Keys"
      columns=${COLUMNS}
      rows=${list.rows}
      idOf=${({ id }: KeyRow) => id}
      hrefOf=${({ id }: KeyRow) => `/console/keys/${id}/overview`}
      loading=${list.loading}
    />
    ${
      list.next !== null &&
      html`<p class="more"><${Button} busy=${list.loadingMore} onClick=${list.more}>More<//></p>`
    }`
}

export function KeyState({ row }: { readonly row: KeyRow }) {
  const [word, tone, shape] = row.archived_at
    ? ['archived', 'muted', '○']
    : row.disabled
      ? ['disabled', 'warn', '○']
      : row.expires_at !== null && Date.parse(row.expires_at) < Date.now()
        ? ['expired', 'warn', '○']
        : ['active', 'ok', '●']
  return html`<span class=${tone}><span aria-hidden="true">${shape}</span> ${word}</span>`
}

export function policyOf({ policy }: Pick<KeyRow, 'policy'>): string {
  if (!policy) return 'none'
  const rules =
    (policy.deny?.length ?? 0) + (policy.bannedPatterns?.length ?? 0) + (policy.scope ? 1 : 0)
  const text = rules === 0 ? 'no rules' : rules === 1 ? '1 rule' : `${rules} rules`
  return policy.guard?.mode === 'monitor' ? `${text}, monitor` : text
}

/** The amount that counts against the cap of a key. */
function spentOf({ spend, spend_cap, spend_usd }: KeyRow): string {
  return (spend_cap && spend?.[spend_cap.scope]) ?? spend_usd
}

function pathOf(query: URLSearchParams): string {
  const parameters = new URLSearchParams()
  for (const name of ['q', 'account', 'state', 'policy', 'sort']) {
    for (const value of query.getAll(name)) parameters.append(name, value)
  }
  return withQuery('/admin/keys', parameters)
}
