/** Requests: why a call failed, its cost, and who made it. */
import { at, ownAddress } from '../base.ts'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { call, to, usePages, withQuery, type Pages, useAnswer } from '../api.ts'
import type { ShownCall, ShownDetails, RequestContent } from '../answers.ts'
import { useEvents } from '../events.ts'
import { MISSING, count, duration, shortId, exactMoney, plainDecimal } from '../format.ts'
import { html, type Content } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Button } from '../parts/button.ts'
import { Facts, Money, Time } from '../parts/facts.ts'
import { Confirm } from '../parts/confirm.ts'
import { Filters, isFiltered, type Filter } from '../parts/filters.ts'
import { Range, spanOf } from '../parts/range.ts'
import { Empty, Failure, Notice, Answered } from '../parts/states.ts'
import { ColumnChoice, hrefOpening, ListEnd, Table, type Column } from '../parts/table.ts'
import { toast } from '../parts/toast.ts'
import { Snippets } from '../parts/snippets.ts'
import { onlyThis } from '../acts.ts'
import { allows, place, setQuery, hrefWith } from '../state.ts'
import { CALL_COLUMNS, EndCall, STATUS_COLUMN, Status } from './outcome.ts'
import { BillTable, CostTable } from '../parts/cost.ts'
import { copyText, Id, Code, Json } from '../parts/copy.ts'
import { Sheet } from '../parts/sheet.ts'
import { contentPath, ContentOf } from './content.ts'
import { curlOf } from './play-request.ts'
import { Tabs } from '../parts/tabs.ts'
import { ENDS, failureText, limitText } from '../text.ts'

const STATUSES = '2xx 4xx 5xx 400 401 402 403 404 405 408 409 413 415 429 500 502 503 504'

const FILTERS: readonly Filter[] = [
  {
    name: 'status',
    label: 'status',
    values: STATUSES.split(' '),
  },
  { name: 'key', label: 'key', chooses: 'key' },
  { name: 'account', label: 'account', chooses: 'account' },
  { name: 'team', label: 'team', chooses: 'team' },
  { name: 'model', label: 'model', chooses: 'model' },
  { name: 'deployment', label: 'deployment', chooses: 'deployment' },
  { name: 'endpoint', label: 'endpoint', placeholder: '/v1/chat/completions' },
  { name: 'code', label: 'code', placeholder: 'rate_limited' },
  { name: 'limited_by', label: 'limit', placeholder: 'key.rpm' },
  {
    name: 'outcome',
    label: 'outcome',
    values: ['completed', 'cancelled', 'failed', 'refused', 'replayed'],
  },
  { name: 'guard', label: 'guard', values: ['passed', 'blocked', 'monitored', 'error'] },
  { name: 'decided', label: 'decision', placeholder: 'block input blocked scope' },
  { name: 'tag', label: 'tag' },
  { name: 'user', label: 'user' },
  { name: 'session', label: 'session' },
  { name: 'stream', label: 'stream', values: ['true', 'false'] },
  { name: 'running', label: 'running', values: ['true', 'false'] },
  { name: 'charged', label: 'charged', values: ['true', 'false'] },
  { name: 'keyed', label: 'with a key', values: ['true', 'false'] },
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
  { key: 'key', label: 'Key', cell: keyOf, phone: 'rest', long: true },
  CALL_COLUMNS.model,
  CALL_COLUMNS.tokens,
  {
    key: 'first',
    label: 'First token',
    cell: (row) => duration(row.times.first_ms),
    end: true,
    phone: 'none',
  },
  CALL_COLUMNS.total,
  CALL_COLUMNS.cost,
  { key: 'guard', label: 'Guard', cell: guardOf, phone: 'none' },
  {
    key: 'end',
    label: 'Acts',
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
    x: () => location.assign(at(csvOf(path))),
    '!': () => setQuery({ end: query.has('end') ? undefined : 'failed' }, { replace: true }),
  })
  const isEmpty = !list.loading && !list.error && list.rows.length === 0
  const ends = query.getAll('end')
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
    <${Tabs}
      label="How calls ended"
      current=${ends.length > 0 ? ends : 'all'}
      tabs=${[
        { key: 'all', label: 'All', href: hrefWith({ end: undefined }) },
        ...Object.entries(ENDS).map(([key, meaning]) => ({
          key,
          label: key[0]!.toUpperCase() + key.slice(1),
          href: hrefWith({ end: key }),
          meaning,
        })),
      ]}
    />
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
              columns=${list.rows.some(({ running }) => running) ? COLUMNS : COLUMNS.slice(0, -1)}
              rows=${list.rows}
              idOf=${(row: ShownCall) => row.id}
              hrefOf=${(row: ShownCall) => hrefOpening(row.id)}
              markOf=${(row: ShownCall) => (row.running ? 'running' : undefined)}
              actsOf=${(row: ShownCall) => [
                ...onlyThis('key', 'key', row.key_id),
                ...onlyThis('account', 'account', row.account_id),
                ...onlyThis('model', 'model', row.model),
                ...onlyThis('user', 'user', row.user),
              ]}
              open=${open}
              loading=${list.loading}
            />
          </div>`
    }
    <${ListEnd} list=${list} verb="Older" />
    ${
      open !== undefined &&
      html`<${RequestSheet}
        id=${open}
        onClose=${() => setQuery({ open: undefined }, { replace: true })}
      />`
    }
  </div>`
}

function Nothing() {
  if (isFiltered(FILTERS) || place.value.query.has('end')) {
    return html`<${Empty} title="No calls match.">
      <p class="muted">Choose All, remove a filter above, or choose a longer range.</p>
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
  for (const name of [...FILTERS.map((one) => one.name), 'end'])
    for (const value of query.getAll(name)) parameters.append(name, value)
  if (from) parameters.set('from', from)
  if (to) parameters.set('to', to)
  return withQuery('/admin/requests', parameters)
}

function csvOf(path: string): string {
  return `${path}${path.includes('?') ? '&' : '?'}format=csv`
}

function keyOf({ account_id, key_id, key_name }: ShownCall): Content {
  if (key_id === null) return MISSING
  return html`<span class="muted">${account_id}/</span><bdi title=${key_id}>${key_name ?? shortId(key_id, 20)}</bdi>`
}

function guardOf({ guard }: ShownCall): Content {
  if (!guard) return MISSING
  return html`<span class=${guard.outcome === 'blocked' || guard.outcome === 'error' ? 'warn' : ''}
    >${guard.outcome}</span
  >`
}

// One call, in a sheet: the request, where its time went, its cost and why.

function RequestSheet({ id, onClose }: { readonly id: string; readonly onClose: () => void }) {
  const answer = useAnswer<{ data: ShownDetails }>(`/admin/requests/${encodeURIComponent(id)}`)
  useKeys({ c: () => void copyText(id) })
  return html`<${Sheet} title=${html`<${Id} id=${id} />`} onClose=${onClose}>
    <${Answered} of=${answer} lines=${12}>
      ${({ data }: { data: ShownDetails }) => html`<${Details} call=${data} />`}
    <//>
  <//>`
}

function Details({ call }: { readonly call: ShownDetails }) {
  return html`<div class="stack">
    <${CallActs} call=${call} />
    <p class="summary">
      <${Status} row=${call} />${` · ${call.outcome ?? 'running'} · ${call.method} ${call.endpoint}`}
      ${`${call.stream ? ' · stream' : ''} · `}<${Time} at=${call.at} />
      ${' '}${call.running ? html`<${EndCall} id=${call.id} />` : null}
    </p>
    ${
      call.log === 'missing' &&
      html`<${Notice} tone="warn"
        >The request log has lost this call. What is shown comes from the ledger.<//
      >`
    }
    ${call.error && html`<${Notice} tone=${(call.status ?? 500) >= 500 ? 'bad' : 'warn'}>${call.error}<//>`}
    <${Waterfall} call=${call} />
    <${Facts} facts=${factsOf(call)} />
    <${Cost} call=${call} />
    ${
      call.content === 'kept'
        ? html`<${KeptContent} call=${call} />`
        : html`<section><h3>As curl</h3><${Code} label="curl" text=${curlWithout(call)} /></section>`
    }
    <details>
      <summary>Raw</summary>
      <${Json} value=${call} label="Answer of the API" />
    </details>
  </div>`
}

/** What can be done with a call. The acts stand first, where few keys lead to them. */
function CallActs({
  call: { id, content, key_id, model, cost_usd: cost },
}: {
  readonly call: ShownDetails
}) {
  const [asking, setAsking] = useState(false)
  const refund = async (reason: string) => {
    const { data } = await call<{ data: { duplicate: boolean } }>(
      'POST',
      `/admin/requests/${encodeURIComponent(id)}/refund`,
      { body: { reason } },
    )
    toast(data.duplicate ? 'It was refunded before' : `Refunded ${exactMoney(cost)}`)
    setAsking(false)
  }
  const isCharged = cost !== null && Number(cost) > 0
  const play = { key: key_id ?? undefined, model: model ?? undefined, from: id }
  if (!isCharged && content !== 'kept') return null
  return html`<p class="actions">
    ${content === 'kept' && allows('contents') && html`<a class="button" href=${to.play(play)}>Open in Playground</a>`}
    ${isCharged && html`<${Button} right="money" onClick=${() => setAsking(true)}>Refund…<//>`}
    ${
      asking &&
      html`<${Confirm} title="Refund this call?" verb="Refund" danger=${false} reason="" act=${refund} onClose=${() => setAsking(false)}>
        <p>The account gets <b><${Money} usd=${cost} exact /></b> back, once. The charge of the call stays in the ledger.</p>
      <//>`
    }
  </p>`
}

function factsOf(call: ShownDetails): (readonly [string, Content])[] {
  const { account_id, key_id, key_name, model, guard, limits } = call
  return [
    [
      'Account',
      account_id && html`<a href=${`/console/accounts/${account_id}/overview`}>${account_id}</a>`,
    ],
    [
      'Key',
      key_id &&
        html`<a href=${`/console/keys/${key_id}/overview`}><bdi>${key_name ?? key_id}</bdi></a>${' '}
          ${key_name && html`<code class="muted">${shortId(key_id, 20)}</code>`}${' '}
          <a class="quiet" href=${hrefWith({ key: key_id, open: undefined })}>its calls</a>`,
    ],
    [
      'Model',
      model &&
        html`${model}${call.deployment ? html` <span class="muted">by ${call.deployment}</span>` : ''}`,
    ],
    ['Tokens', tokensOf(call)],
    [
      'Refused by',
      call.limited_by && html`<span title=${call.limited_by}>${limitText(call.limited_by)}</span>`,
    ],
    ...(limits ?? []).map(({ limit, value, left }): readonly [string, Content] => [
      limitText(limit),
      left === null ? `at most ${value}` : `${count(left)} of ${count(Number(value))} left`,
    ]),
    [
      'Guard',
      guard && `${guard.outcome}${guard.rules.length > 0 ? `: ${guard.rules.join(', ')}` : ''}`,
    ],
    ['Tag', call.tag],
    ['User', call.user],
    [
      'Session',
      call.session &&
        html`<code>${call.session}</code>${' '}
          <a class="quiet" href=${hrefWith({ session: call.session, open: undefined })}>its calls</a>`,
    ],
    ['Client', call.agent],
    [
      'Content',
      call.content === 'not kept'
        ? html`not kept <span class="muted">(the key and the configuration have to allow it)</span>`
        : call.content,
    ],
  ].filter(([, value]) => value) as (readonly [string, Content])[]
}

function tokensOf({ usage, estimated }: ShownDetails): Content {
  const named = Object.entries(usage).filter(([, value]) => value !== null)
  if (named.length === 0) return null
  const text = named
    .map(([name, value]) => `${name.replaceAll('_', ' ')} ${count(value)}`)
    .join(' · ')
  return estimated ? html`<span title=${ESTIMATED}>≈ ${text}</span>` : text
}

function Cost({ call }: { readonly call: ShownDetails }) {
  const { cost_usd: cost, cost_details: details, ledger, bill } = call
  if (cost === null) return null
  const agrees = ledger && plainDecimal(ledger.cost_usd) === plainDecimal(cost)
  return html`<section>
    <h3>Cost</h3>
    ${bill ? html`<${BillTable} bill=${bill} />` : html`<${CostTable} details=${details} total=${cost} estimated=${call.estimated === true} />`}
    ${
      ledger &&
      html`<p class=${agrees ? 'ok' : 'bad'}>
        ${
          agrees
            ? `✓ Row ${count(ledger.seq)} of the ledger says the same.`
            : `✕ Row ${count(ledger.seq)} of the ledger says ${exactMoney(ledger.cost_usd)}.`
        }
      </p>`
    }
  </section>`
}

/** A part of the time of a call, ms since it came. */
interface Step {
  readonly name: string
  readonly from: number
  readonly to: number
  readonly tone: string
  readonly detail?: string
}

const GOOD: ReadonlySet<string> = new Set(['ok', 'passed', 'blocked'])

function Waterfall({ call }: { readonly call: ShownDetails }) {
  const { admit_ms: admit, first_ms: first, total_ms: total } = call.times
  if (total === null || total === 0) return null
  const steps: Step[] = []
  if (admit !== null) steps.push({ name: 'admitted', from: 0, to: admit, tone: 'muted' })
  let at = admit ?? 0
  for (const attempt of call.attempts) {
    if ('skipped' in attempt) {
      const name = `${attempt.model}, not asked: ${failureText(attempt.skipped)}`
      steps.push({ name, from: at, to: at, tone: 'muted' })
      continue
    }
    const { deployment, ms, result, status, message } = attempt
    const to = Math.min(total, at + ms)
    steps.push({
      name: `${deployment}, ${failureText(result)}`,
      from: at,
      to,
      tone: result === 'ok' ? 'accent' : 'bad',
      detail: [status && `status ${status}`, message].filter(Boolean).join(': '),
    })
    at = to
  }
  if (first === null && at < total) {
    const name = call.attempts.length > 0 ? 'rest' : 'answer'
    steps.push({ name, from: at, to: total, tone: 'ok' })
  }
  if (first !== null) {
    if (call.attempts.length === 0)
      steps.push({ name: 'until the first token', from: at, to: first, tone: 'accent' })
    steps.push({ name: 'answer', from: first, to: total, tone: 'ok' })
  }
  for (const { to: what, name, side, at_ms: from, ms, result } of call.questions ?? []) {
    const target = what === 'guard' ? `guard ${name}, ${side}` : `search ${name}`
    const tone = GOOD.has(result) ? 'muted' : 'bad'
    steps.push({ name: `${target}: ${result}`, from, to: Math.min(total, from + ms), tone })
  }
  steps.sort((one, other) => one.from - other.from)
  const place = (ms: number) => Math.min(100, (ms / total) * 100)
  return html`<section>
    <h3>Time</h3>
    <ol class="waterfall">
      ${steps.map(
        ({ name, from, to, tone, detail }) =>
          html`<li>
            <span>${name}${detail && html`<br /><span class="muted">${detail}</span>`}</span>
            <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
              <rect class="track" width="100" height="8" />
              <rect
                class=${`fill ${tone}`}
                x=${place(from)}
                width=${Math.max(0.5, place(to) - place(from))}
                height="8"
              />
            </svg>
            <span class="end number">${duration(to - from)}</span>
          </li>`,
      )}
      <li class="total">
        <span>total</span><span>${first === null ? '' : `first token at ${duration(first)}`}</span>
        <span class="end number">${duration(total)}</span>
      </li>
    </ol>
  </section>`
}

/** A call whose content is not kept: the reader has to fill it in. */
function curlWithout({ method, endpoint, model, stream }: ShownDetails): string {
  if (method === 'GET')
    return `curl ${ownAddress()}${endpoint} \\\n  -H "Authorization: Bearer $API_KEY"`
  const body = { ...(model && { model }), ...(stream && { stream }) }
  return `# The content of this call is not kept: only the model and the form are here.\n${curlOf({ path: endpoint, body }, ownAddress())}`
}

function KeptContent({ call }: { readonly call: ShownDetails }) {
  const [open, setOpen] = useState(false)
  const answer = useAnswer<{ data: RequestContent }>(open ? contentPath(call.id) : null)
  const curl = ({ input }: RequestContent) => {
    // Dialects of chat are kept in the form of chat.
    const path = input.messages ? '/v1/chat/completions' : call.endpoint
    return curlOf({ path, body: { model: call.model, ...input } }, ownAddress(), true)
  }
  return html`<section>
    <h3>Content</h3>
    ${
      open
        ? html`<${Answered} of=${answer}>
            ${({ data }: { data: RequestContent }) => html`<${ContentOf} content=${data} />
              <${Code} label="curl" text=${curl(data)} />`}
          <//>`
        : html`<${Button} right="contents" title="The audit log notes who reads it" onClick=${() => setOpen(true)}
            >Show content<//
          >`
    }
  </section>`
}

const ESTIMATED = 'The vendor reported nothing; 4 characters count as a token.'
