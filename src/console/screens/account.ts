/** One account: its money, its bookings, its keys, its statement. */
import { perform, switchOf, useOpened } from '../acts.ts'
import { at } from '../base.ts'
import { useState, useMemo } from 'preact/hooks'
import {
  useAnswer,
  usePages,
  withQuery,
  type Loaded,
  call,
  toApiError,
  to,
  type ApiError,
} from '../api.ts'
import type { AccountRow, KeyRow, Usd } from '../answers.ts'
import {
  addAmounts,
  count,
  exactMoney,
  MISSING,
  plainDecimal,
  money,
  wholeDecimals,
} from '../format.ts'
import { html, type Content } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Button } from '../parts/button.ts'
import { copyText, Id } from '../parts/copy.ts'
import { Facts, Money, Tile, Time } from '../parts/facts.ts'
import { Filters, type Filter } from '../parts/filters.ts'
import { LimitEditor, Limits, limitsOf, textsOf } from '../parts/limits.ts'
import { Answered, Empty, Failure } from '../parts/states.ts'
import { Tabs } from '../parts/tabs.ts'
import { amounts, ListEnd, Table, type Column } from '../parts/table.ts'
import { allows, go, place, type ScreenProps, setQuery, useTitle } from '../state.ts'
import { AccountState, keysOf } from './accounts.ts'
import { KeyList } from './keys.ts'
import { AccountPayments } from './payments.ts'
import { Teams } from './teams.ts'
import { Confirm } from '../parts/confirm.ts'
import { ChangeDialog, seedOf, useChange } from '../parts/conflict.ts'
import { CheckField, FormEnd, SelectField, send, TextField, useSubmission } from '../parts/form.ts'
import { Heads } from '../parts/heads.ts'
import { MoreActs } from '../parts/menu.ts'
import { ActiveAlerts } from '../parts/alerts.ts'
import { Panel } from '../parts/panel.ts'
import { Dialog } from '../parts/sheet.ts'
import { toast } from '../parts/toast.ts'
import { LazyPlot } from '../parts/lazy.ts'
import { Proof } from '../parts/proof.ts'
import type { Balances } from '../../server/admin/resources/usage.ts'
import type { StatementEntry } from '../../server/admin/resources/statement.ts'
import type { Read } from '../amounts.ts'
import { actorText } from '../text.ts'
import type { LedgerEntry } from '../../server/admin/resources/ledger.ts'

const TABS = ['overview', 'bookings', 'payments', 'keys', 'teams', 'statement']
const KINDS: readonly Filter[] = [
  {
    name: 'kind',
    label: 'kind',
    values: ['top-up', 'promo', 'adjust', 'refund', 'expire', 'usage'],
  },
  { name: 'key', label: 'key', chooses: 'key' },
]

const ROWS: readonly Column<LedgerRow>[] = [
  { key: 'seq', label: 'Row', cell: ({ seq }) => count(seq) },
  { key: 'at', label: 'Time', cell: ({ at }) => html`<${Time} at=${at} />`, phone: 'rest' },
  { key: 'kind', label: 'Kind', cell: ({ kind }) => kind, phone: 'rest' },
  { key: 'what', label: 'What', cell: whatOf, phone: 'rest', long: true },
  amounts(({ amount_usd }) => amount_usd, {
    key: 'amount',
    label: 'Amount',
    phone: 'figure',
  }),
  {
    key: 'actor',
    label: 'Who',
    cell: ({ actor, usage }) => (actor ? actorText(actor) : usage ? 'a call' : MISSING),
    phone: 'rest',
  },
]

export function Account({ params }: ScreenProps) {
  const { id = '', tab = 'overview' } = params
  const answer = useAnswer<{ data: AccountRow }>(`/admin/accounts/${id}`)
  useTitle(answer.data?.data.name, 'account')
  useKeys(Object.fromEntries(TABS.map((name, i) => [`${i + 1}`, () => go(to.account(id, name))])))
  return html`<div class="screen">
    ${!answer.data && html`<h1 class="hidden">Account</h1>`}
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
            : tab === 'payments'
              ? html`<${AccountPayments} row=${data} />`
              : tab === 'keys'
                ? html`<${AccountKeys} id=${id} />`
                : tab === 'teams'
                  ? html`<${Teams} account=${id} zone=${data.effective_time_zone ?? 'UTC'} />`
                  : tab === 'statement'
                    ? html`<${Statements} row=${data} />`
                    : html`<${Overview} row=${data} answer=${answer} />`
        }
      </div>`}
    <//>
  </div>`
}

function Actions({ row, onChange }: { readonly row: AccountRow; readonly onChange: () => void }) {
  const [open, setOpen] = useOpened()
  const close = () => setOpen(undefined)
  useKeys({
    n: () => !row.archived_at && allows('money') && setOpen('credits'),
    e: () => !row.archived_at && allows('keys', 'money') && setOpen('edit'),
    c: () => void copyText(row.id),
  })
  const done = () => {
    close()
    onChange()
  }
  const action = { row, onClose: close, onDone: done }
  const state = row.disabled ? 'disabled' : 'active'
  const disable = switchOf(
    { kind: 'account', id: row.id, name: row.name, state },
    '/admin/accounts',
  )
  return html`<div class="screen-actions">
    ${
      row.archived_at
        ? html`<span class="muted">archived <${Time} at=${row.archived_at} />: it takes no money</span>`
        : html`<${Button} right=${allows('money') ? 'money' : 'keys'} onClick=${() => setOpen('edit')}>Edit<//>
          <${Button} right="keys" onClick=${() => perform(disable)}>${disable.verb}<//>
          <${Button} right="money" onClick=${() => setOpen('adjust')}>Adjust<//>
          <${Button} kind="primary" right="money" onClick=${() => setOpen('credits')}>Add credits<//>
          <${MoreActs} name=${row.name} acts=${[
            { verb: 'Empty the answer cache', right: 'keys', act: async () => setOpen('empty') },
            { verb: 'Archive', right: 'keys', act: async () => setOpen('archive') },
          ]} />`
    }
    ${open === 'credits' && html`<${AddCredits} ...${action} />`}
    ${open === 'adjust' && html`<${Adjust} ...${action} />`}
    ${open === 'edit' && html`<${EditAccount} ...${action} />`}
    ${open === 'archive' && html`<${ArchiveAccount} ...${action} />`}
    ${open === 'empty' && html`<${EmptyCache} ...${action} />`}
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
  const zone = row.effective_time_zone ?? 'UTC'
  const { alerts = [] } = row
  return html`${alerts.length > 0 && html`<${Panel} title="Alerts"><${ActiveAlerts} alerts=${alerts} /><//>`}
    <div class="tiles">
      <${Tile} label="Balance" note=${exactMoney(row.balance_usd)}><${Money} usd=${row.balance_usd} balance /><//>
      <${Tile} label="Reserved by running calls" note=${`${count(row.running ?? null)} running`} href=${withQuery('/console/requests', { account: row.id, running: 'true' })}><${Money} usd=${held} /><//>
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
      <${Credit} row=${row} />
      <section class="panel" aria-label="Limits">
        <header><h2>Limits over all its keys</h2></header>
        <div class="panel-body">
          ${row.limit_status && row.limit_status.length > 0 ? html`<${Limits} limits=${row.limit_status} zone=${zone} owners=${row.archived_at ? {} : { account: `/admin/accounts/${row.id}` }} onChange=${answer.reload} />` : html`<p class="muted">Requests a minute, calls at once and spend are unlimited here. Each key has limits of its own.</p>`}
        </div>
      </section>
      </div>
    </div>
    ${answer.error && html`<${Failure} error=${answer.error} />`}`
}

/** Credit by block, where not all of it is plain. */
function Credit({ row: { credit } }: { readonly row: AccountRow }) {
  if (!credit || credit.blocks.length === 0) return null
  const decimals = wholeDecimals([...credit.blocks.map((one) => one.left_usd), credit.plain_usd])
  return html`<${Panel} title="Credit, what is used first above">
    <table class="plain ruled stacked">
      <${Heads} names=${['Block', 'Ends', 'Left']} end=${['Left']} />
      <tbody>
        ${credit.blocks.map(({ name, reference, kind, left_usd: left, expires_at: end }) => html`<tr key=${name}><th scope="row"><bdi>${reference}</bdi> <span class="muted">${kind === 'promo' ? 'promotional' : 'paid'}</span></th><td data-label="ends">${end ? html`<${Time} at=${end} />` : 'never'}</td><td class="end"><${Money} usd=${left} decimals=${decimals} /></td></tr>`)}
        <tr><th scope="row">Other credit</th><td>never</td><td class="end"><${Money} usd=${credit.plain_usd} decimals=${decimals} /></td></tr>
      </tbody>
    </table>
  <//>`
}

function settingsOf(row: AccountRow): (readonly [string, Content])[] {
  return [
    ['Tier', row.free_tier ? 'free: never credited' : 'paid'],
    ['Created', html`<${Time} at=${row.created_at} />`],
    ['Time zone', row.time_zone ?? `default (${row.effective_time_zone})`],
    ['Price list', row.price_list ?? 'prices of the catalog'],
    [
      'Automatic top-up',
      row.auto_top_up ? `below ${exactMoney(row.auto_top_up.below_usd)}` : 'none',
    ],
    ['Credit limit', row.credit_limit_usd ? exactMoney(row.credit_limit_usd) : 'none'],
    [
      'Alert below',
      row.alert_below_usd
        ? exactMoney(row.alert_below_usd)
        : `default (${money(row.effective_alert_below_usd)})`,
    ],
    ['Note', row.note ?? 'none'],
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
        : html`<${Table} name="bookings" caption="Rows of the ledger, newest first" columns=${[...ROWS, reversal(id, list.reload)]} rows=${list.rows} idOf=${({ seq }: LedgerRow) => String(seq)} hrefOf=${(row: LedgerRow) => (row.request_id ? withQuery('/console/requests', { open: row.request_id, account: id, from: '-90d' }) : undefined)} loading=${list.loading} />`
    }
    <${ListEnd} list=${list} verb="Older" />
  </div>`
}

const REVERSED = /^reverse:/

/** What takes a booking back: a row of its own with the opposite amount, once for each booking. */
const reversal = (account: string, onDone: () => void): Column<LedgerRow> => ({
  key: 'act',
  label: 'Acts',
  cell: (row) =>
    (row.kind === 'top-up' || row.kind === 'promo' || row.kind === 'adjust') &&
    !REVERSED.test(row.reference ?? '') &&
    html`<${Reverse} account=${account} row=${row} onDone=${onDone} />`,
  phone: 'rest',
})

function Reverse({
  account,
  row: { seq, kind, amount_usd: usd, reference },
  onDone,
}: {
  readonly account: string
  readonly row: LedgerRow
  readonly onDone: () => void
}) {
  const [asking, setAsking] = useState(false)
  const opposite = usd.startsWith('-') ? usd.slice(1) : `-${usd}`
  const act = async (reason: string) => {
    const block = kind === 'promo' && { takes_from: `promo:${reference}` }
    const body = { usd: opposite, reason, reference: `reverse:${seq}`, ...block }
    const { data } = await call<{ data: { duplicate: boolean } }>(
      'POST',
      `/admin/accounts/${account}/adjust`,
      { body },
    )
    toast(data.duplicate ? 'It was reversed before' : `Booked ${exactMoney(opposite)}`)
    setAsking(false)
    onDone()
  }
  return html`<${Button} kind="quiet" right="money" onClick=${() => setAsking(true)}>Reverse…<//>
    ${
      asking &&
      html`<${Confirm} title=${`Reverse row ${count(seq)}?`} verb="Reverse" reason=${`Row ${seq} was booked by mistake`} act=${act} onClose=${() => setAsking(false)}>
        <p>A correction of <b><${Money} usd=${opposite} exact /></b> is booked. Row ${count(seq)} stays as it is.</p>
      <//>`
    }`
}

function whatOf(row: LedgerRow): Content {
  const paid = row.cash as { readonly amount: string; readonly currency: string } | undefined
  if (row.usage) return html`${row.usage.model} <span class="muted">${row.key_id ?? ''}</span>`
  return html`<span class="mono">${row.reference ?? row.request_id ?? ''}</span> ${paid && `paid ${paid.amount} ${paid.currency} `}<bdi class="muted">${row.reason ?? row.note ?? ''}</bdi>`
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

const KINDS_OF_CREDIT = [
  { value: 'paid', label: 'paid' },
  { value: 'promotional', label: 'promotional' },
]

/** Books money. The same reference books once, so that a repeated request is no second booking. */
function AddCredits({ row, onClose, onDone }: ActionProps) {
  const [usd, setUsd] = useState('')
  const [kind, setKind] = useState('paid')
  const [end, setEnd] = useState('')
  const [note, setNote] = useState('')
  const [unlock, setUnlock] = useState(false)
  const [reference, setReference] = useState(() => `console-${crypto.randomUUID().slice(0, 13)}`)
  const isPromo = kind === 'promotional'
  const body = {
    usd: usd.trim(),
    reference,
    ...(isPromo && { kind }),
    ...(isPromo && unlock && { unlock }),
    ...(end && { expires_at: `${end}T00:00:00Z` }),
    ...(note && { note }),
  }
  const request = { method: 'POST', path: `/admin/accounts/${row.id}/credits`, body }
  const form = useSubmission(async () => {
    const { data } = await send<{ data: { duplicate: boolean } }>(request)
    toast(data.duplicate ? 'This reference was booked already' : `Added ${exactMoney(usd.trim())}`)
    onDone()
  })
  const { errorFor } = form
  return html`<${Dialog} title=${html`Add credits to <bdi>${row.name}</bdi>`} onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      <${TextField} label="Amount, USD" value=${usd} onInput=${setUsd} placeholder="10.00" autofocus decimal error=${errorFor('usd')} />
      <div class="row">
        <${SelectField} label="Kind" value=${kind} options=${KINDS_OF_CREDIT} onChange=${setKind} />
        <${TextField} label="Ends" type="date" value=${end} onInput=${setEnd} help="Start of that UTC day; what is left is gone then. Empty: never." error=${errorFor('expires_at')} />
      </div>
      <${TextField} label="Note" value=${note} onInput=${setNote} error=${errorFor('note')} />
      <${TextField} label="Reference" value=${reference} onInput=${setReference} mono help="Booked once: repeating it changes nothing." error=${errorFor('reference')} />
      ${row.free_tier && isPromo && html`<${CheckField} label="It ends the free tier" checked=${unlock} onChange=${setUnlock} help="Else it waits until the account has paid credits." />`}
      ${row.free_tier && !isPromo && html`<p class="help">The first paid credits end the free tier of this account, for good.</p>`}
      <${BeforeAfter} before=${row.balance_usd} after=${sumWith(row.balance_usd, usd)} />
      <${FormEnd} form=${form} verb="Add credits" right="money" onClose=${onClose} request=${request} />
    </form>
  <//>`
}

function Adjust({ row, onClose, onDone }: ActionProps) {
  const [usd, setUsd] = useState('')
  const [reason, setReason] = useState('')
  const [reference] = useState(() => `console-${crypto.randomUUID().slice(0, 13)}`)
  const [missing, setMissing] = useState(false)
  const body = { usd: usd.trim(), reason: reason.trim(), reference }
  const request = { method: 'POST', path: `/admin/accounts/${row.id}/adjust`, body }
  const form = useSubmission(async () => {
    if (reason.trim() === '') return setMissing(true)
    await send(request)
    toast('Adjusted')
    onDone()
  })
  return html`<${Dialog} title=${html`Adjust <bdi>${row.name}</bdi>`} onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      <p>Rows of the ledger are never changed. A correction is a row of its own, with a reason.</p>
      <${TextField} label="Amount, USD" value=${usd} onInput=${setUsd} placeholder="-4.00" autofocus decimal help="With a minus it is taken away." error=${form.errorFor('usd')} />
      <${TextField} label="Reason" value=${reason} onInput=${setReason} error=${missing && reason.trim() === '' ? 'A correction needs a reason.' : form.errorFor('reason')} />
      <${BeforeAfter} before=${row.balance_usd} after=${sumWith(row.balance_usd, usd)} />
      <${FormEnd} form=${form} verb="Adjust" right="money" onClose=${onClose} request=${request} />
    </form>
  <//>`
}

function EditAccount({ row, onClose, onDone }: ActionProps) {
  const [name, setName] = useState(row.name)
  const [limits, setLimits] = useState(textsOf(row.limits))
  const [zone, setZone] = useState(row.time_zone ?? '')
  const [alert, setAlert] = useState(row.alert_below_usd ?? '')
  const [credit, setCredit] = useState(row.credit_limit_usd ?? '')
  const [note, setNote] = useState(row.note ?? '')
  const wanted: Record<string, unknown> = {
    name: name.trim(),
    limits: limitsOf(limits),
    time_zone: zone.trim() || null,
    credit_limit_usd: credit.trim() || null,
    alert_below_usd: alert.trim() || null,
    note: note || null,
  }
  const changing = useChange(
    `/admin/accounts/${row.id}`,
    { ...row, limits: limitsOf(textsOf(row.limits)) },
    wanted,
    onDone,
  )
  const { errorFor } = changing.form
  const { credit_limit_usd: _, alert_below_usd: __, ...named } = seedOf(wanted)
  const entry = { seed: { accounts: [{ id: row.id, ...named }] } }
  return html`<${ChangeDialog} title=${html`Settings of <bdi>${row.name}</bdi>`} right=${allows('keys') ? 'keys' : 'money'} changing=${changing} entry=${entry} onClose=${onClose}>
    <${TextField} label="Name" value=${name} onInput=${setName} error=${errorFor('name')} disabled=${!allows('keys')} />
    <p class="help">These hold for all its keys together, beside the limits of each key.</p>
    <${LimitEditor} limits=${limits} onChange=${setLimits} none="None." errorFor=${errorFor} />
    <${TextField} label="Time zone" value=${zone} onInput=${setZone} placeholder="default" help="Such as Europe/Berlin. Days, weeks and months turn in it: the first ones after a change may be shorter or longer, and a cap may open once." error=${errorFor('time_zone')} />
    <${TextField} label="Credit limit, USD" value=${credit} onInput=${setCredit} placeholder="none" help="How far below zero its calls may take the balance." error=${errorFor('credit_limit_usd')} disabled=${!allows('money')} />
    <${TextField} label="Alert below, USD" value=${alert} onInput=${setAlert} placeholder="default" error=${errorFor('alert_below_usd')} />
    <${TextField} label="Note" value=${note} onInput=${setNote} rows=${2} most=${1000} error=${errorFor('note')} />
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

function EmptyCache({ row, onClose, onDone }: ActionProps) {
  const act = async () => {
    await call('DELETE', `/admin/accounts/${row.id}/answers`, { revision: row.revision ?? null })
    onDone()
  }
  return html`<${Confirm} title="Empty the answer cache?" verb="Empty it" act=${act} onClose=${onClose}>
    <p>No call of this account gets an answer that was stored until now. Models are asked again, and charged.</p>
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
  return html`<p aria-live="polite">Balance <b><${Money} usd=${before} exact /></b>${after !== undefined && html` → <b><${Money} usd=${after} exact /></b>`}</p>`
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
  const write = (value: number) => money(plainDecimal(String(value)), true)
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

// Statements: a draft of any month, and those that were issued, as pages of their own.

function Statements({
  row: { id, effective_time_zone, created_at },
}: {
  readonly row: AccountRow
}) {
  const list = usePages<Read<StatementEntry>>(withQuery('/admin/statements', { account: id }))
  const running = monthOf(Date.now() - SETTLING_MS, effective_time_zone)
  const issued = list.rows.filter(({ state }) => state === 'issued').map(({ month }) => month)
  const newest = issued.toSorted().at(-1)
  const [firstEver] = list.rows.map(({ month }) => month).toSorted()
  const began = monthOf(Date.parse(created_at), effective_time_zone)
  const last = monthAfter(running, -1)
  const next =
    newest === undefined ? (firstEver ?? (last < began ? began : last)) : monthAfter(newest, 1)
  const month = place.value.query.get('month') ?? (next < running ? next : running)
  const draft = withQuery(`/admin/accounts/${id}/statement`, { month })
  const form = useSubmission(async () => {
    const body = { account_id: id, month }
    const { data } = await call<{ data: { number: string } }>('POST', '/admin/statements', { body })
    toast(`Issued ${data.number}`)
    setQuery({ month: undefined })
    list.reload()
  })
  const why = issued.includes(month)
    ? 'This month is issued.'
    : month >= running
      ? 'It can be issued two hours after the month has ended.'
      : firstEver !== undefined && month !== next
        ? `The next one to issue is ${next}.`
        : undefined
  const isKnown = list.at > 0
  return html`<div class="screen statement">
    <form class="screen-head" onSubmit=${form.submit}>
      <label class="actions">Month <input type="month" value=${month} onChange=${(event: Event) => setQuery({ month: (event.target as HTMLInputElement).value || undefined })} /></label>
      <div class="screen-actions">
        ${isKnown && why && html`<span class="muted">${why}</span>`}
        <${Forms} path=${draft} />
        ${isKnown && !why && html`<${Button} kind="primary" type="submit" right="money" busy=${form.busy}>Issue<//>`}
      </div>
    </form>
    ${form.error && html`<${Failure} error=${form.error} />`}
    ${list.error && html`<${Failure} error=${list.error} onRetry=${list.reload} keptAt=${list.at} />`}
    ${
      !list.loading && !list.error && list.rows.length === 0
        ? html`<${Empty} title="No statement is issued."><p class="muted">Open shows a draft of the month. A month that is over can be issued: its statement gets a number, and never changes.</p><//>`
        : html`<${Table} name="statements" caption="Issued statements, newest first" columns=${statementColumns(newest)} rows=${list.rows} idOf=${({ number }: Read<StatementEntry>) => number!} whole=${list.next === null} loading=${list.loading} />`
    }
  </div>`
}

/** Time after its end from which on a month can be issued. */
const SETTLING_MS = 7_200_000

/** The month of a moment, such as `2026-10`. */
function monthOf(at: number, zone = 'UTC'): string {
  const parts = new Intl.DateTimeFormat('en', { timeZone: zone, year: 'numeric', month: '2-digit' })
  const { year, month } = Object.fromEntries(
    parts.formatToParts(at).map(({ type, value }) => [type, value]),
  )
  return `${year}-${month}`
}

function monthAfter(month: string, many: number): string {
  const [year, number] = month.split('-').map(Number) as [number, number]
  return new Date(Date.UTC(year, number - 1 + many)).toISOString().slice(0, 7)
}

function Forms({ path }: { readonly path: string }) {
  const form = (format: string) => at(`${path}${path.includes('?') ? '&' : '?'}format=${format}`)
  return html`<a class="button quiet" href=${form('html')} target="_blank">Open</a>
    <a class="button quiet" href=${form('csv')} download>CSV</a>
    <a class="button quiet" href=${form('json')} target="_blank">JSON</a>`
}

function VoidStatement({ number }: { readonly number: string }) {
  const [reason, setReason] = useState<string>()
  const form = useSubmission(async () => {
    await call('POST', `/admin/statements/${encodeURIComponent(number)}/void`, { body: { reason } })
    location.reload()
  })
  if (reason === undefined)
    return html`<${Button} kind="quiet" right="money" onClick=${() => setReason('')}>Void<//>`
  return html`<${Dialog} title=${`Void ${number}`} onClose=${() => setReason(undefined)}>
    <form class="form" onSubmit=${form.submit}>
      <p class="help">It stays, marked as void, and its month can be issued again.</p>
      <${TextField} label="Reason" value=${reason} onInput=${setReason} error=${form.errorFor('reason')} autofocus />
      ${form.error && html`<${Failure} error=${form.error} />`}
      <div class="actions"><${Button} kind="danger" type="submit" right="money" busy=${form.busy}>Void<//><${Button} onClick=${() => setReason(undefined)}>Cancel<//></div>
    </form>
  <//>`
}

/** @param newest the issued month that can be voided */
const statementColumns = (newest: string | undefined): Column<Read<StatementEntry>>[] => [
  {
    key: 'number',
    label: 'Number',
    cell: ({ number }) => html`<span class="mono">${number}</span>`,
  },
  { key: 'month', label: 'Month', cell: ({ month }) => month },
  { key: 'state', label: 'State', cell: ({ state }) => state },
  amounts(({ closing_usd }) => closing_usd, {
    key: 'closing',
    label: 'Closing balance',
  }),
  {
    key: 'actions',
    label: 'Actions',
    cell: ({ number, state, month }) =>
      html`<${Forms} path=${`/admin/statements/${number}`} />${state === 'issued' && month === newest && html`<${VoidStatement} number=${number!} />`}`,
  },
]
