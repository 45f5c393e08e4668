/** One key: its rights, its use, its policy. */
import { useMemo, useState } from 'preact/hooks'
import { useAnswer, withQuery } from '../api.ts'
import type { KeyRow, ShownCall, UsageAnswer } from '../answers.ts'
import { exactMoney, shortCount } from '../format.ts'
import { html, type Content } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Spark } from '../parts/bar.ts'
import { Button } from '../parts/button.ts'
import { copyText, Id } from '../parts/copy.ts'
import { Facts, Money, Tile, Time } from '../parts/facts.ts'
import { Limits } from '../parts/limits.ts'
import { spanOf } from '../parts/range.ts'
import { Answered, Notice } from '../parts/states.ts'
import { Tabs } from '../parts/tabs.ts'
import { Table, type Column } from '../parts/table.ts'
import { go, type ScreenProps } from '../state.ts'
import { ArchiveKey, DisableKey, EditKey, RotateKey } from './key-actions.ts'
import { KeyState, policyOf } from './keys.ts'
import { CALL_COLUMNS, STATUS_COLUMN } from './outcome.ts'
import { PolicyEditor } from './policy.ts'
import { usageTable } from './usage-rows.ts'

const DAYS = '-30d'

const { at, model, tokens, total, cost } = CALL_COLUMNS
const LAST_CALLS: readonly Column<ShownCall>[] = [at, STATUS_COLUMN, model, tokens, total, cost]

export function Key({ params }: ScreenProps) {
  const { id = '', tab = 'overview' } = params
  const path = `/admin/keys/${id}`
  const answer = useAnswer<{ data: KeyRow }>(path)
  useKeys({ e: () => go(`/console/keys/${id}/policy`), c: () => void copyText(id) })
  return html`<div class="screen">
    <${Answered} of=${answer} lines=${12}>
      ${({ data }: { data: KeyRow }) => html`<div class="screen">
        <header class="screen-head">
          <h1><a class="quiet" href=${`/console/accounts/${data.account_id}/overview`}>${data.account_id}</a> / ${data.name}</h1>
          <${KeyState} row=${data} />
          <${Id} id=${data.id} />
          <${Actions} row=${data} onChange=${answer.reload} />
        </header>
        <${Tabs} label="Parts of the key" current=${tab} tabs=${[
          'overview',
          'policy',
          'requests',
        ].map((key) => ({
          key,
          label:
            key === 'policy' ? `Policy (${policyOf(data)})` : key[0]!.toUpperCase() + key.slice(1),
          href: `/console/keys/${id}/${key}`,
        }))} />
        ${
          tab === 'policy'
            ? html`<${PolicyEditor} row=${data} onSaved=${(row: KeyRow) => answer.put({ data: { ...data, ...row } })} />`
            : tab === 'requests'
              ? html`<${Calls} id=${id} limit=${50} />`
              : html`<${Overview} row=${data} />`
        }
      </div>`}
    <//>
  </div>`
}

function Overview({ row }: { readonly row: KeyRow }) {
  const path = useMemo(() => usagePath(row.id, Date.now()), [row.id])
  const usage = useAnswer<UsageAnswer>(path).data
  const course = (metric: 'cost_usd' | 'calls', label: string) =>
    usage &&
    html`<span>by UTC day</span>
      <${Spark} values=${usageTable(usage, metric).rows[0]?.values ?? []} label=${label} />`
  return html`<${Warnings} row=${row} />
    <div class="tiles">
      <${Tile} label="Spent this month" href=${withQuery('/console/usage', { key: row.id, from: 'month' })} note=${course('cost_usd', 'Spend by day, USD')}><${Money} usd=${row.spend?.month} /><//>
      <${Tile} label="Calls, 30 days" href=${withQuery('/console/requests', { key: row.id, from: DAYS })} note=${course('calls', 'Calls by day')}>${shortCount(usage?.totals.calls)}<//>
      <${Tile} label="Spent today" note="UTC"><${Money} usd=${row.spend?.day} /><//>
      <${Tile} label="Spent in all" note=${exactMoney(row.spend_usd)}><${Money} usd=${row.spend_usd} /><//>
      <${Tile} label="Running now" href=${withQuery('/console/requests', { key: row.id, running: 'true' })}>${row.running ?? '–'}<//>
    </div>
    <div class="columns">
      <section class="panel" aria-label="Limits">
        <header><h2>Limits</h2></header>
        <div class="panel-body"><${Limits} limits=${row.limits ?? []} /></div>
      </section>
      <section class="panel" aria-label="Settings">
        <header><h2>Settings</h2></header>
        <div class="panel-body"><${Facts} facts=${settingsOf(row)} /></div>
      </section>
    </div>
    <section class="stack" aria-label="Last refusals">
      <h2>Last refusals</h2>
      <${Calls} id=${row.id} limit=${5} refused />
    </section>`
}

function usagePath(key: string, now: number): string {
  const { from } = spanOf(new URLSearchParams({ from: DAYS }), undefined, now)
  return withQuery('/admin/usage', { key, from, rollup: 'day' })
}

function settingsOf(row: KeyRow): (readonly [string, Content])[] {
  return [
    ['Start', html`<code>${row.start}…</code>`],
    ['Created', html`<${Time} at=${row.created_at} />`],
    ['Expires', row.expires_at ? html`<${Time} at=${row.expires_at} />` : 'never'],
    [
      'Models',
      row.models ? html`<span class="mono">${row.models.join(', ') || 'none'}</span>` : 'all',
    ],
    ['Policy', html`<a href=${`/console/keys/${row.id}/policy`}>${policyOf(row)}</a>`],
    ['Tag', row.tag ?? 'from each request'],
    ['Contents', row.log_content ? 'kept, where the configuration allows it' : 'not kept'],
    ['Note', row.note ?? '–'],
    ...(row.previous_secret
      ? [
          [
            'Secret before',
            html`<code>${row.previous_secret.start}…</code> works until <${Time} at=${row.previous_secret.until} />`,
          ] as const,
        ]
      : []),
  ]
}

function Warnings({ row }: { readonly row: KeyRow }) {
  if (!row.warnings || row.warnings.length === 0) return null
  return html`<${Notice} tone="warn">
    <ul>${row.warnings.map((one) => html`<li key=${one}>${one}</li>`)}</ul>
  <//>`
}

function Actions({ row, onChange }: { readonly row: KeyRow; readonly onChange: () => void }) {
  const [open, setOpen] = useState<'edit' | 'disable' | 'rotate' | 'archive'>()
  const close = () => setOpen(undefined)
  const done = () => {
    close()
    onChange()
  }
  if (row.archived_at)
    return html`<span class="muted">archived <${Time} at=${row.archived_at} /></span>`
  return html`<div class="screen-actions">
    <${Button} role="admin" onClick=${() => setOpen('edit')}>Edit<//>
    <${Button} role="admin" onClick=${() => setOpen('disable')}>${row.disabled ? 'Enable' : 'Disable'}<//>
    <${Button} role="admin" onClick=${() => setOpen('rotate')}>Rotate<//>
    <a class="button" href=${withQuery('/console/play', { key: row.id })}>Play</a>
    <${Button} kind="danger" role="admin" onClick=${() => setOpen('archive')}>Archive<//>
    ${open === 'edit' && html`<${EditKey} row=${row} onClose=${close} onDone=${done} />`}
    ${open === 'disable' && html`<${DisableKey} row=${row} onClose=${close} onDone=${done} />`}
    ${open === 'rotate' && html`<${RotateKey} row=${row} onClose=${close} onDone=${done} />`}
    ${open === 'archive' && html`<${ArchiveKey} row=${row} onClose=${close} onDone=${done} />`}
  </div>`
}

function Calls({
  id,
  limit,
  refused = false,
}: {
  readonly id: string
  readonly limit: number
  readonly refused?: boolean
}) {
  const filter = { key: id, ...(refused && { status: '4xx' }) }
  const answer = useAnswer<{ data: readonly ShownCall[] }>(
    withQuery('/admin/requests', { ...filter, limit }),
  )
  return html`<${Answered} of=${answer} lines=${limit > 5 ? 10 : 3}>
    ${({ data }: { data: readonly ShownCall[] }) =>
      data.length === 0
        ? html`<p class="muted">${refused ? 'No call of this key was refused.' : 'This key has made no call yet.'}</p>`
        : html`<div class="stack">
            <${Table}
              name="calls"
              caption=${refused ? 'Refused calls' : 'Calls'}
              columns=${LAST_CALLS}
              rows=${data}
              idOf=${(row: ShownCall) => row.id}
              hrefOf=${(row: ShownCall) => withQuery('/console/requests', { key: id, open: row.id })}
            />
            <p><a href=${withQuery('/console/requests', { ...filter, from: '-30d' })}>All of them</a></p>
          </div>`}
  <//>`
}
