/** The audit log: who changed what, from where, and the differences. */
import { useMemo } from 'preact/hooks'
import { usePages, withQuery } from '../api.ts'
import { html } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Button } from '../parts/button.ts'
import { Diff } from '../parts/diff.ts'
import { Facts, Time } from '../parts/facts.ts'
import { Filters, isFiltered, type Filter } from '../parts/filters.ts'
import { Range, spanOf } from '../parts/range.ts'
import { Sheet } from '../parts/sheet.ts'
import { Empty, Failure, Notice } from '../parts/states.ts'
import { hrefOpening, Table, type Column } from '../parts/table.ts'
import { allows, place, setQuery } from '../state.ts'
import type { ChangeAnswer } from '../../server/admin/resources/audit.ts'

const STANDARD = '-30d'
const FILTERS: readonly Filter[] = [
  { name: 'actor', label: 'actor', placeholder: 'name of a token' },
  { name: 'action', label: 'action', placeholder: 'key.update' },
  { name: 'object', label: 'object', placeholder: 'key:key_…' },
]

const COLUMNS: readonly Column<ChangeAnswer>[] = [
  { key: 'at', label: 'Time', cell: ({ at }) => html`<${Time} at=${at} />` },
  { key: 'actor', label: 'Who', cell: ({ actor }) => actor, phone: 'figure' },
  { key: 'action', label: 'Action', cell: ({ action }) => action, phone: 'rest' },
  {
    key: 'object',
    label: 'Object',
    cell: ({ object }) => html`<span class="mono">${object}</span>`,
    title: ({ object }) => object,
    phone: 'rest',
  },
  {
    key: 'members',
    label: 'Members',
    cell: ({ changes }) => changes.map(({ member }) => member).join(', '),
    phone: 'rest',
  },
  { key: 'address', label: 'From', cell: ({ address }) => address ?? '–', phone: 'none' },
]

export function AuditLog() {
  const { query } = place.value
  const parameters = [...query].filter(([name]) => name !== 'open').join('&')
  const path = useMemo(() => pathOf(query, Date.now()), [parameters])
  const list = usePages<ChangeAnswer>(allows('admin') ? path : null)
  const open = query.get('open') ?? undefined
  const row = list.rows.find(({ id }) => id === open)
  const csv = `${path}${path.includes('?') ? '&' : '?'}format=csv`
  useKeys({ x: () => allows('admin') && location.assign(csv) })
  if (!allows('admin')) return html`<${Notice}>The audit log is shown to the role admin.<//>`
  const isEmpty = !list.loading && !list.error && list.rows.length === 0
  return html`<div class="stack">
    <div class="screen-head"><${Range} standard=${STANDARD} /><${Filters} filters=${FILTERS} /><a class="button quiet" href=${csv} download>CSV</a></div>
    ${list.error && html`<${Failure} error=${list.error} onRetry=${list.reload} keptAt=${list.at} />`}
    ${
      isEmpty
        ? html`<${Empty}
            title=${isFiltered(FILTERS) ? 'No changes match.' : 'No changes in this range.'}
          >
            <p class="muted">Changes of accounts, keys and money, and sign-ins, are listed here.</p>
          <//>`
        : html`<${Table}
            name="audit"
            caption="Changes, newest first"
            columns=${COLUMNS}
            rows=${list.rows}
            idOf=${({ id }: ChangeAnswer) => id}
            hrefOf=${({ id }: ChangeAnswer) => hrefOpening(id)}
            open=${open}
            loading=${list.loading}
          />`
    }
    ${list.next !== null && html`<p class="more"><${Button} busy=${list.loadingMore} onClick=${list.more}>Older<//></p>`}
    ${
      row &&
      html`<${Sheet}
        title=${row.action}
        onClose=${() => setQuery({ open: undefined }, { replace: true })}
      >
        <div class="stack">
          <${Facts}
            facts=${[
              ['Time', html`<${Time} at=${row.at} />`],
              ['Who', row.actor],
              ['From', row.address ?? '–'],
              ['Object', html`<code>${row.object}</code>`],
            ]}
          />
          <${Diff}
            changes=${row.changes.map(({ member, before, after }) => ({
              member,
              from: before,
              to: after,
            }))}
          />
        </div>
      <//>`
    }
  </div>`
}

function pathOf(query: URLSearchParams, now: number): string {
  const { from, to } = spanOf(query, STANDARD, now)
  const parameters = new URLSearchParams()
  for (const { name } of FILTERS) {
    const value = query.get(name)
    if (value !== null) parameters.set(name, value)
  }
  if (from) parameters.set('from', from)
  if (to) parameters.set('to', to)
  return withQuery('/admin/audit', parameters)
}
