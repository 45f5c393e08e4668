/** One account: its money, its bookings, its keys, its statement. */
import { at } from '../base.ts'
import { useState, useMemo } from 'preact/hooks'
import {
  useAnswer,
  usePages,
  withQuery,
  type Loaded,
  call,
  toApiError,
  type ApiError,
} from '../api.ts'
import type { AccountRow, KeyRow, Usd } from '../answers.ts'
import { addAmounts, count, exactMoney, plainDecimal, money } from '../format.ts'
import { html, type Content } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Button } from '../parts/button.ts'
import { copyText, Id } from '../parts/copy.ts'
import { Facts, Money, Tile, Time } from '../parts/facts.ts'
import { Filters, type Filter } from '../parts/filters.ts'
import { LimitEditor, Limits, limitsOf, textsOf } from '../parts/limits.ts'
import { Answered, Empty, Failure } from '../parts/states.ts'
import { Tabs } from '../parts/tabs.ts'
import { Table, type Column } from '../parts/table.ts'
import { allows, go, place, type ScreenProps, setQuery, useTitle } from '../state.ts'
import { AccountState, keysOf } from './accounts.ts'
import { KeyList } from './keys.ts'
import { Teams } from './teams.ts'
import { Confirm } from '../parts/confirm.ts'
import { Conflict, useChange } from '../parts/conflict.ts'
import { Diff } from '../parts/diff.ts'
import { TextField, useSubmission } from '../parts/form.ts'
import { Dialog } from '../parts/sheet.ts'
import { toast } from '../parts/toast.ts'
import { LazyPlot } from '../parts/lazy.ts'
import { Proof } from '../parts/proof.ts'
import type { Balances, StatementAnswer } from '../../server/admin/resources/usage.ts'
import type { Read } from '../amounts.ts'
import type { LedgerEntry } from '../../server/admin/resources/ledger.ts'
import { Heads } from '../parts/heads.ts'

const TABS = ['overview', 'bookings', 'keys', 'teams', 'statement']
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
  useTitle(answer.data?.data.name, 'account')
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
              : tab === 'teams'
                ? html`<${Teams} account=${id} zone=${data.time_zone ?? 'UTC'} />`
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
    e: () => !row.archived_at && allows('keys', 'money') && setOpen('edit'),
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
        : html`<${Button} right=${allows('money') ? 'money' : 'keys'} onClick=${() => setOpen('edit')}>Edit<//>
          <${Button} right="keys" onClick=${() => setOpen('disable')}>${row.disabled ? 'Enable' : 'Disable'}<//>
          <${Button} kind="danger" right="keys" onClick=${() => setOpen('archive')}>Archive<//>
          <${Button} right="money" onClick=${() => setOpen('adjust')}>Adjust<//>
          <${Button} kind="primary" right="money" onClick=${() => setOpen('credits')}>Add credits<//>`
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
  const zone = row.time_zone ?? 'UTC'
  return html`<div class="tiles">
      <${Tile} label="Balance" note=${exactMoney(row.balance_usd)}><${Money} usd=${row.balance_usd} balance /><//>
      <${Tile} label="Held by running calls" note=${`${count(row.running ?? null)} running`} href=${withQuery('/console/requests', { account: row.id, running: 'true' })}><${Money} usd=${held} /><//>
      <${Tile} label="Available" note=${exactMoney(row.available_usd)}><${Money} usd=${row.available_usd} balance /><//>
      <${Tile} label="Spent this month" note=${zone} href=${withQuery('/console/usage', { account: row.id, from: 'month' })}><${Money} usd=${row.spend?.month} /><//>
      <${Tile} label="Spent today" note=${zone}><${Money} usd=${row.spend?.day} /><//>
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
          ${row.limit_status && row.limit_status.length > 0 ? html`<${Limits} limits=${row.limit_status} zone=${zone} owners=${{ account: `/admin/accounts/${row.id}` }} onChange=${answer.reload} />` : html`<p class="muted">Requests a minute, calls at once and spend are unlimited here. Each key has limits of its own.</p>`}
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
    ['Time zone', row.time_zone ?? 'default'],
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
  useKeys({ x: () => location.assign(at(csv)) })
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
    <div class="screen-head"><div class="screen-actions"><${Button} kind="primary" right="keys" onClick=${make}>New key<//></div></div>
    <${KeyList} list=${list} onNew=${make} />
  </div>`
}

// Actions on an account: credits, corrections, settings, its end.

interface ActionProps {
  readonly row: AccountRow
  readonly onClose: () => void
  readonly onDone: () => void
}

/** Books money. The same reference books once, so that a repeated request is no second booking. */
function AddCredits({ row, onClose, onDone }: ActionProps) {
  const [usd, setUsd] = useState('')
  const [reference, setReference] = useState(() => `console-${crypto.randomUUID().slice(0, 13)}`)
  const [note, setNote] = useState('')
  const after = sumWith(row.balance_usd, usd)
  const form = useSubmission(async () => {
    const body = { usd: usd.trim(), reference, ...(note && { note }) }
    const { data } = await call<{ data: { duplicate: boolean } }>(
      'POST',
      `/admin/accounts/${row.id}/credits`,
      { body },
    )
    toast(data.duplicate ? 'This reference was booked already' : `Added ${exactMoney(usd.trim())}`)
    onDone()
  })
  return html`<${Dialog} title=${html`Add credits to <bdi>${row.name}</bdi>`} onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      <${TextField} label="Amount, USD" value=${usd} onInput=${setUsd} placeholder="10.00" autofocus error=${form.errorFor('usd')} />
      <${TextField} label="Reference" value=${reference} onInput=${setReference} mono help="Booked once: repeating it changes nothing." error=${form.errorFor('reference')} />
      <${TextField} label="Note" value=${note} onInput=${setNote} error=${form.errorFor('note')} />
      <${BeforeAfter} before=${row.balance_usd} after=${after} />
      ${row.free_tier && html`<p class="help">The first credits end the free tier of this account, for good.</p>`}
      ${form.error && !['usd', 'reference', 'note'].includes(form.error.param ?? '') && html`<${Failure} error=${form.error} />`}
      <div class="actions">
        <${Button} kind="primary" type="submit" right="money" busy=${form.busy}>Add credits<//>
        <${Button} onClick=${onClose}>Cancel<//>
      </div>
    </form>
  <//>`
}

function Adjust({ row, onClose, onDone }: ActionProps) {
  const [usd, setUsd] = useState('')
  const [reason, setReason] = useState('')
  const [reference] = useState(() => `console-${crypto.randomUUID().slice(0, 13)}`)
  const [missing, setMissing] = useState(false)
  const form = useSubmission(async () => {
    if (reason.trim() === '') return setMissing(true)
    await call('POST', `/admin/accounts/${row.id}/adjust`, {
      body: { usd: usd.trim(), reason: reason.trim(), reference },
    })
    toast('Adjusted')
    onDone()
  })
  return html`<${Dialog} title=${html`Adjust <bdi>${row.name}</bdi>`} onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      <p>Rows of the ledger are never changed. A correction is a row of its own, with a reason.</p>
      <${TextField} label="Amount, USD" value=${usd} onInput=${setUsd} placeholder="-4.00" autofocus help="With a minus it is taken away." error=${form.errorFor('usd')} />
      <${TextField} label="Reason" value=${reason} onInput=${setReason} error=${missing && reason.trim() === '' ? 'A correction needs a reason.' : form.errorFor('reason')} />
      <${BeforeAfter} before=${row.balance_usd} after=${sumWith(row.balance_usd, usd)} />
      ${form.error && !['usd', 'reason'].includes(form.error.param ?? '') && html`<${Failure} error=${form.error} />`}
      <div class="actions">
        <${Button} kind="primary" type="submit" right="money" busy=${form.busy}>Adjust<//>
        <${Button} onClick=${onClose}>Cancel<//>
      </div>
    </form>
  <//>`
}

function EditAccount({ row, onClose, onDone }: ActionProps) {
  const [name, setName] = useState(row.name)
  const [limits, setLimits] = useState(textsOf(row.limits))
  const [zone, setZone] = useState(row.time_zone ?? '')
  const [alert, setAlert] = useState(row.alert_below_usd ?? '')
  const [note, setNote] = useState(row.note ?? '')
  const wanted: Record<string, unknown> = {
    name: name.trim(),
    limits: limitsOf(limits),
    time_zone: zone.trim() || null,
    alert_below_usd: alert.trim() || null,
    note: note || null,
  }
  const { form, changes, versions } = useChange(
    `/admin/accounts/${row.id}`,
    { ...row, limits: limitsOf(textsOf(row.limits)) },
    wanted,
    onDone,
  )
  const { errorFor } = form
  return html`<${Dialog} title=${html`Settings of <bdi>${row.name}</bdi>`} wide onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      <${TextField} label="Name" value=${name} onInput=${setName} error=${errorFor('name')} disabled=${!allows('keys')} />
      <p class="help">These hold for all its keys together, beside the limits of each key.</p>
      <${LimitEditor} limits=${limits} onChange=${setLimits} none="None." errorFor=${errorFor} />
      <${TextField} label="Time zone" value=${zone} onInput=${setZone} placeholder="default" help="Such as Europe/Berlin. Days, weeks and months turn in it: the first ones after a change may be shorter or longer, and a cap may open once." error=${errorFor('time_zone')} />
      <${TextField} label="Alert below, USD" value=${alert} onInput=${setAlert} placeholder="default" error=${errorFor('alert_below_usd')} />
      <${TextField} label="Note" value=${note} onInput=${setNote} rows=${2} most=${1000} error=${errorFor('note')} />
      <section><h3>What will change</h3><${Diff} changes=${changes} none="Nothing yet." /></section>
      ${form.error && html`<${Failure} error=${form.error} />`}
      ${versions && html`<${Conflict} ...${versions} />`}
      <div class="actions">
        <${Button} kind="primary" type="submit" right=${allows('keys') ? 'keys' : 'money'} busy=${form.busy}>${versions ? 'Apply mine on top' : 'Save'}<//>
        <${Button} onClick=${onClose}>Cancel<//>
      </div>
    </form>
  <//>`
}

/** Refuses all keys of the account, or lets them work again. */
function DisableAccount({ row, onClose, onDone }: ActionProps) {
  const act = async () => {
    await call('PATCH', `/admin/accounts/${row.id}`, {
      body: { disabled: !row.disabled },
      revision: row.revision ?? null,
    })
    onDone()
  }
  if (row.disabled) {
    return html`<${Confirm} title="Enable this account?" verb="Enable" danger=${false} act=${act} onClose=${onClose}>
      <p>Its ${keysOf(row)} keys work again from the next call on.</p>
    <//>`
  }
  return html`<${Confirm} title="Disable this account?" verb="Disable" typed=${row.name} act=${act} onClose=${onClose}>
    <p>Its ${keysOf(row)} keys are refused from the next call on, until it is enabled again.</p>
  <//>`
}

/** Refuses all keys of the account for good. */
function ArchiveAccount({ row, onClose, onDone }: ActionProps) {
  const act = async () => {
    await call('DELETE', `/admin/accounts/${row.id}`, { revision: row.revision ?? null })
    onDone()
  }
  return html`<${Confirm} title="Archive this account?" verb="Archive account" typed=${row.name} act=${act} onClose=${onClose}>
    <p>Its ${keysOf(row)} keys are refused for good. Its rows, its balance (${exactMoney(row.balance_usd)}) and its statements stay.</p>
  <//>`
}

function VerifyNow({ id }: { readonly id: string }) {
  const [state, setState] = useState<'idle' | 'busy' | 'ok' | 'wrong'>('idle')
  const [error, setError] = useState<ApiError>()
  const verify = async () => {
    setState('busy')
    setError(undefined)
    try {
      const { data } = await call<{ data: { ok: boolean } }>(
        'GET',
        `/admin/ledger/verify?account=${encodeURIComponent(id)}`,
      )
      setState(data.ok ? 'ok' : 'wrong')
    } catch (thrown) {
      setError(toApiError(thrown))
      setState('idle')
    }
  }
  return html`<span class="actions" aria-live="polite">
    ${state === 'ok' && html`<span class="ok">✓ sums equal their rows</span>`}
    ${state === 'wrong' && html`<span class="bad">✕ sums differ from their rows</span>`}
    ${error && html`<span class="bad">${error.message}</span>`}
    <${Button} busy=${state === 'busy'} onClick=${verify}>Verify now<//>
  </span>`
}

function BeforeAfter({
  before,
  after,
}: {
  readonly before: string
  readonly after: string | undefined
}) {
  return html`<p aria-live="polite">Balance <b class="number">${exactMoney(before)}</b> → <b class="number">${after === undefined ? '–' : exactMoney(after)}</b></p>`
}

/** The balance with an amount that is being typed; undefined while it is none. */
function sumWith(balance: string, typed: string): string | undefined {
  try {
    return addAmounts([balance, plainDecimal(typed.trim())])
  } catch {
    return undefined
  }
}

// The balance of an account over 30 days, with its bookings.

const DAYS = 30
const DAY_MS = 86_400_000
const HEIGHT = 160

function BalanceCurve({ id }: { readonly id: string }) {
  const from = new Date(Date.now() - DAYS * DAY_MS).toISOString().slice(0, 10)
  const answer = useAnswer<Read<Balances>>(withQuery(`/admin/accounts/${id}/balance`, { from }))
  return html`<${Answered} of=${answer} lines=${6}>
    ${(balances: Read<Balances>) => html`<${Curve} balances=${balances} />`}
  <//>`
}

function Curve({ balances: { data, ledger } }: { readonly balances: Read<Balances> }) {
  const plot = useMemo(() => {
    // The day, and not the moment at which it was over.
    const times = data.map(({ at }) => (Date.parse(at) - DAY_MS) / 1000)
    return {
      times,
      series: [{ label: 'Balance', values: data.map((one) => Number(one.balance_usd)) }],
      marks: times.filter((_, index) => data[index]!.booked_usd !== '0'),
    }
  }, [data])
  const booked = data.filter((one) => one.booked_usd !== '0')
  const write = (value: number) => money(plainDecimal(String(value)))
  const lines = data.map((one) => `${dayOf(one.at)} ${exactMoney(one.balance_usd)}`)
  return html`<${LazyPlot}
      ...${plot}
      kind="lines"
      height=${HEIGHT}
      format=${write}
      formatAxis=${(values: readonly number[]) => values.map(write)}
      formatTime=${(seconds: number) => new Date(seconds * 1000).toISOString().slice(0, 10)}
      label=${`Balance at the end of each UTC day: ${lines[0]} to ${lines.at(-1)}`}
    />
    <p class="help">
      At the end of each UTC day.
      ${booked.length > 0 && html` <span class="ok" aria-hidden="true">▲</span> booked: ${booked.map((one) => `${dayOf(one.at)} ${exactMoney(one.booked_usd)}`).join(', ')}.`}
    </p>
    <${Proof} ledger=${ledger} />`
}

function dayOf(end: string): string {
  return new Date(Date.parse(end) - DAY_MS).toISOString().slice(0, 10)
}

type LedgerRow = Read<LedgerEntry>

// The statement of an account for a month: four sums that agree, as a page that can be printed.

function Statement({ id }: { readonly id: string }) {
  const month = place.value.query.get('month') ?? new Date().toISOString().slice(0, 7)
  const path = withQuery(`/admin/accounts/${id}/statement`, { month })
  const answer = useAnswer<Read<StatementAnswer>>(path)
  useKeys({ x: () => location.assign(at(`${path}&format=csv`)) })
  return html`<div class="screen statement">
    <div class="screen-head no-print">
      <label class="actions">Month, UTC <input type="month" value=${month} onChange=${(event: Event) => setQuery({ month: (event.target as HTMLInputElement).value || undefined })} /></label>
      <div class="screen-actions">
        <a class="button" href=${`${path}&format=csv`} download>CSV</a>
        <${Button} onClick=${() => print()}>Print<//>
      </div>
    </div>
    <${Answered} of=${answer} lines=${8}>${(found: Read<StatementAnswer>) => html`<${Sheet} found=${found} />`}<//>
  </div>`
}

function Sheet({ found: { data, ledger } }: { readonly found: Read<StatementAnswer> }) {
  const booked = addAmounts(data.bookings.map(({ amount_usd: usd }) => usd))
  const spent = negated(data.spent_usd)
  const sums = addAmounts([data.opening_usd, booked, spent]) === plainDecimal(data.closing_usd)
  return html`<section class="panel">
    <header><h2><bdi>${data.name}</bdi>, ${data.month} (UTC)</h2></header>
    <div class="panel-body">
      <table class="plain ruled sums">
        <tbody>
          <tr><th scope="row">Opening balance</th><td class="end number">${exactMoney(data.opening_usd)}</td></tr>
          <tr><th scope="row">Booked</th><td class="end number">${exactMoney(booked)}</td></tr>
          <tr><th scope="row">Used</th><td class="end number">${exactMoney(spent)}</td></tr>
        </tbody>
        <tfoot><tr><th scope="row">Closing balance</th><td class="end number">${exactMoney(data.closing_usd)}</td></tr></tfoot>
      </table>
      <p class=${sums ? 'ok' : 'bad'}>${sums ? '✓ Opening, booked and used make the closing balance.' : '✕ Opening, booked and used do not make the closing balance.'}</p>
      <${Proof} ledger=${ledger} />
      ${
        data.bookings.length > 0 &&
        html`<h3>Bookings</h3>
        <table class="plain ruled stacked sums">
          <${Heads} names=${['Time', 'Kind', 'Reference, note', 'Amount']} end=${['Amount']} />
          <tbody>
            ${data.bookings.map((one) => html`<tr key=${one.seq}><td><${Time} at=${one.at} /></td><td>${one.kind}</td><td><bdi>${[one.reference, one.note].filter(Boolean).join(' · ')}</bdi></td><td class="end number">${exactMoney(one.amount_usd)}</td></tr>`)}
          </tbody>
        </table>`
      }
      <${Spending} title="By model" rows=${data.models} none="No calls were charged in this month." />
      ${data.tags.some(({ name }) => name !== null) && html`<${Spending} title="By tag" rows=${data.tags} none="" />`}
    </div>
  </section>`
}

function negated(usd: Usd): Usd {
  return usd === '0' ? usd : usd.startsWith('-') ? usd.slice(1) : `-${usd}`
}

function Spending({
  title,
  rows,
  none,
}: {
  readonly title: string
  readonly rows: Read<StatementAnswer>['data']['models']
  readonly none: string
}) {
  return html`<h3>${title}</h3>
    ${
      rows.length === 0
        ? html`<p class="muted">${none}</p>`
        : html`<table class="plain ruled sums">
          <${Heads} names=${['Name', 'Calls', 'Cost']} end=${['Calls', 'Cost']} />
          <tbody>${rows.map(({ name, calls, cost_usd: cost }) => html`<tr key=${name}><td><bdi>${name ?? '–'}</bdi></td><td class="end number">${count(calls)}</td><td class="end number">${exactMoney(cost)}</td></tr>`)}</tbody>
        </table>`
    }`
}
