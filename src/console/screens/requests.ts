/** Requests: why a call failed, its cost, and who made it. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { usePages, withQuery, type Pages } from '../api.ts'
import type { ShownCall } from '../answers.ts'
import { useEvents } from '../events.ts'
import { count, duration, shortId } from '../format.ts'
import { html, type Content } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Button } from '../parts/button.ts'
import { Time } from '../parts/facts.ts'
import { Filters, isFiltered, type Filter } from '../parts/filters.ts'
import { Range, spanOf } from '../parts/range.ts'
import { Empty, Failure, Notice } from '../parts/states.ts'
import { ColumnChoice, hrefOpening, Table, type Column } from '../parts/table.ts'
import { Snippets } from '../parts/snippets.ts'
import { place, setQuery } from '../state.ts'
import { CALL_COLUMNS, EndCall, STATUS_COLUMN } from './outcome.ts'
import { RequestSheet } from './request.ts'

const FILTERS: readonly Filter[] = [
  {
    name: 'status',
    label: 'status',
    values: ['2xx', '4xx', '5xx', '400', '401', '402', '403', '404', '429', '500', '502', '503'],
  },
  { name: 'key', label: 'key', placeholder: 'id of a key' },
  { name: 'account', label: 'account', placeholder: 'id of an account' },
  { name: 'model', label: 'model', placeholder: 'id of a model' },
  { name: 'deployment', label: 'deployment', placeholder: 'provider/model' },
  { name: 'endpoint', label: 'endpoint', placeholder: '/v1/chat/completions' },
  { name: 'code', label: 'code', placeholder: 'rate_limited' },
  { name: 'limited_by', label: 'limit', placeholder: 'key.rpm' },
  { name: 'outcome', label: 'outcome', values: ['completed', 'cancelled', 'failed', 'refused'] },
  { name: 'guard', label: 'guard', values: ['passed', 'blocked', 'monitored', 'error'] },
  { name: 'tag', label: 'tag' },
  { name: 'user', label: 'user' },
  { name: 'session', label: 'session' },
  { name: 'stream', label: 'stream', values: ['true', 'false'] },
  { name: 'running', label: 'running', values: ['true', 'false'] },
  { name: 'min_cost_usd', label: 'cost from', placeholder: '0.05' },
  { name: 'min_ms', label: 'time from, ms', placeholder: '2000' },
]
const NAME = 'requests'
const LIVE_EVENTS = ['call.started', 'call.ended', 'call.refused', 'skipped']
const LIVE = '/admin/events?type=call.started&type=call.ended&type=call.refused'
/** The most calls that are counted while they wait to be shown. */
const MOST_WAITING = 1000
/** The least time between two requests for the list while calls arrive. */
const LIVE_MS = 1000

const COLUMNS: readonly Column<ShownCall>[] = [
  CALL_COLUMNS.at,
  STATUS_COLUMN,
  { key: 'key', label: 'Key', cell: keyOf, phone: 'rest' },
  CALL_COLUMNS.model,
  CALL_COLUMNS.tokens,
  {
    key: 'first',
    label: 'First',
    cell: (row) => duration(row.times.first_ms),
    end: true,
    phone: 'none',
  },
  CALL_COLUMNS.total,
  CALL_COLUMNS.cost,
  { key: 'guard', label: 'Guard', cell: guardOf, phone: 'none' },
  {
    key: 'end',
    label: '',
    cell: (row) => row.running && html`<${EndCall} id=${row.id} />`,
    phone: 'rest',
  },
]

export function Requests() {
  const { query } = place.value
  const path = useMemo(() => pathOf(query, Date.now()), [query.toString()])
  const list = usePages<ShownCall>(path)
  const open = query.get('open') ?? undefined
  const live = query.get('live') === 'on'
  const { waiting, isLost, show, held } = useLive(
    live && !query.has('to'),
    list,
    open !== undefined,
  )
  useKeys({
    l: () => setQuery({ live: live ? undefined : 'on' }, { replace: true }),
    x: () => location.assign(csvOf(path)),
  })
  const isEmpty = !list.loading && !list.error && list.rows.length === 0
  return html`<div class="screen">
    <header class="screen-head">
      <h1>Requests</h1>
      <${Range} standard="-24h" />
      <${Filters} filters=${FILTERS} />
      <div class="screen-actions">
        <${Button}
          kind="quiet"
          title="New calls appear by themselves (l)"
          onClick=${() => setQuery({ live: live ? undefined : 'on' }, { replace: true })}
          ><span class=${live ? (isLost ? 'live lost' : 'live on') : 'live'} aria-hidden="true">${isLost ? '○' : '●'}</span> Live
          ${live ? (isLost ? 'lost, trying again' : 'on') : 'off'}<//
        >
        <${ColumnChoice} name=${NAME} columns=${COLUMNS.slice(0, -1)} />
        <a class="button quiet" href=${csvOf(path)} download>CSV</a>
      </div>
    </header>
    ${list.error && html`<${Failure} error=${list.error} onRetry=${list.reload} keptAt=${list.at} />`}
    <${Unreadable} days=${list.data?.unreadable_days} />
    ${
      waiting !== '' &&
      html`<button type="button" class="new-rows" aria-live="polite" onClick=${show}>
        ${waiting}
      </button>`
    }
    ${
      isEmpty
        ? html`<${Nothing} />`
        : html`<div
            onPointerEnter=${() => (held.pointer = true)}
            onPointerLeave=${() => (held.pointer = false)}
            onFocusIn=${() => (held.focus = true)}
            onFocusOut=${() => (held.focus = false)}
          >
            <${Table}
              name=${NAME}
              caption="Calls, newest first"
              columns=${COLUMNS}
              rows=${list.rows}
              idOf=${(row: ShownCall) => row.id}
              hrefOf=${(row: ShownCall) => hrefOpening(row.id)}
              markOf=${(row: ShownCall) => (row.running ? 'running' : undefined)}
              open=${open}
              loading=${list.loading}
            />
          </div>`
    }
    <${More} list=${list} />
    ${
      open !== undefined &&
      html`<${RequestSheet}
        id=${open}
        onClose=${() => setQuery({ open: undefined }, { replace: true })}
      />`
    }
  </div>`
}

/** Loads the rest of a list, and shows how far a search came. */
export function More({ list }: { readonly list: ReturnType<typeof usePages<ShownCall>> }) {
  if (list.next === null) return null
  return html`<p class="more">
    ${list.searchedTo ? html`<span class="muted">searched back to <${Time} at=${list.searchedTo} /></span>` : null}
    <${Button} busy=${list.loadingMore} onClick=${list.more}
      >${list.searchedTo ? 'Keep looking' : 'Older'}<//
    >
  </p>`
}

function Nothing() {
  if (isFiltered(FILTERS)) {
    return html`<${Empty} title="No calls match.">
      <p class="muted">Remove a filter above, or choose a longer range.</p>
    <//>`
  }
  return html`<${Empty} title="No calls in this range.">
    <p class="muted">Every call of a client is listed here within a second. This makes one:</p>
    <${Snippets} first />
  <//>`
}

function Unreadable({ days }: { readonly days: readonly string[] | undefined }) {
  if (!days || days.length === 0) return null
  return html`<${Notice} tone="warn">
    The request log is not complete: the files of ${days.join(', ')} cannot be read. Costs are
    complete.
  <//>`
}

/** New calls wait while the pointer or the focus is in the list, older calls were asked for, or a sheet is open. */
function useLive(on: boolean, list: Pages<ShownCall>, isOpen: boolean) {
  const [waiting, setWaiting] = useState('')
  const unseen = useRef({ ids: new Set<string>(), isMore: false, timer: 0 })
  const held = useRef({ pointer: false, focus: false })
  const show = () => {
    clearTimeout(unseen.current.timer)
    unseen.current = { ids: new Set(), isMore: false, timer: 0 }
    setWaiting('')
    list.reload()
  }
  const decide = useRef(show)
  const decideLater = () => {
    unseen.current.timer ||= setTimeout(() => decide.current(), LIVE_MS)
  }
  decide.current = () => {
    unseen.current.timer = 0
    // A question that is given up is answered all the same.
    if (list.loading) return decideLater()
    const { pointer, focus } = held.current
    if (!pointer && !focus && !isOpen && !list.hasMore) return show()
    const { ids, isMore } = unseen.current
    for (const { id } of list.rows) ids.delete(id)
    setWaiting(ids.size > 0 || isMore ? `${count(ids.size)}${isMore ? '+' : ''} new` : '')
  }
  const isLost = useEvents(on ? LIVE : null, LIVE_EVENTS, ({ type, data }) => {
    const now = unseen.current
    if (type === 'skipped' || now.ids.size >= MOST_WAITING) now.isMore = true
    else if (type !== 'again') now.ids.add((data as ShownCall).id)
    // One answer for many events: a busy gateway ends hundreds of calls a second.
    decideLater()
  })
  useEffect(() => () => clearTimeout(unseen.current.timer), [])
  return { waiting: on ? waiting : '', isLost, show, held: held.current }
}

function pathOf(query: URLSearchParams, now: number): string {
  const { from, to } = spanOf(query, '-24h', now)
  const parameters = new URLSearchParams()
  for (const { name } of FILTERS)
    for (const value of query.getAll(name)) parameters.append(name, value)
  if (from) parameters.set('from', from)
  if (to) parameters.set('to', to)
  return withQuery('/admin/requests', parameters)
}

function csvOf(path: string): string {
  return `${path}${path.includes('?') ? '&' : '?'}format=csv`
}

function keyOf({ account_id, key_id, key_name }: ShownCall): Content {
  if (key_id === null) return '–'
  return html`<span class="muted">${account_id}/</span><bdi title=${key_id}>${key_name ?? shortId(key_id, 20)}</bdi>`
}

function guardOf({ guard }: ShownCall): Content {
  if (!guard) return '–'
  return html`<span class=${guard.outcome === 'blocked' || guard.outcome === 'error' ? 'warn' : ''}
    >${guard.outcome}</span
  >`
}
