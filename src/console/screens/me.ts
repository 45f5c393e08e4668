/** The page of the holder of one key: its limits, its use, and what it may use. */
import { useEffect, useState, useMemo } from 'preact/hooks'
import { takeFragment } from '../fragment.ts'
import {
  acceptInvitation,
  MemberKeys,
  People,
  Statements,
  type MemberAnswer,
  type MemberSession,
  type SignInWay,
} from './member.ts'
import { call, toApiError, useAnswer, type ApiError, withQuery, usePages } from '../api.ts'
import { count, addAmounts, MISSING, ratio, wholeDecimals } from '../format.ts'
import { Mark, ThemeSwitch, ZoneSwitch } from '../frame.ts'
import { html, type Content } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Button } from '../parts/button.ts'
import { Choose } from '../parts/choose.ts'
import { Money, Tile, Time } from '../parts/facts.ts'
import { CheckField, RadioField, TextField, useSubmission } from '../parts/form.ts'
import { lazy } from '../parts/lazy.ts'
import { Limits, valueOf } from '../parts/limits.ts'
import { Answered, Failure, Notice, Empty } from '../parts/states.ts'
import { Tabs } from '../parts/tabs.ts'
import { manual, place, session, setQuery, useTitle, type ScreenProps } from '../state.ts'
import type { Left, Limit } from '../../server/admin/resources/limit.ts'
import type { Read } from '../amounts.ts'
import type { KeyRow, UsageAnswer, UsageCell, ModelRow, Pricing, Usd } from '../answers.ts'
import { Spark, Bar } from '../parts/bar.ts'
import { Panel } from '../parts/panel.ts'
import { Proof } from '../parts/proof.ts'
import { usageTable } from './usage-rows.ts'
import type { HolderCall, RequestDetails } from '../../server/admin/resources/request.ts'
import { Heads } from '../parts/heads.ts'
import { hrefOpening, ListEnd, Table, type Column } from '../parts/table.ts'
import { BillTable } from '../parts/cost.ts'
import { Id } from '../parts/copy.ts'
import { Sheet } from '../parts/sheet.ts'
import { Snippets } from '../parts/snippets.ts'
import { Price, pricesOf } from './model-prices.ts'
import { CALL_COLUMNS } from './outcome.ts'
import { limitText } from '../text.ts'
import { TopUp } from './top-up.ts'

const HolderPlay = lazy(async () => (await import('./me-play.ts')).HolderPlay)
/** A session that the secret of a key has begun. */
interface KeySession {
  readonly key_id: string | null
  readonly account_id: string
  readonly name: string
}

/** What is left for a key, and by which limit; the place that its account or team is. */
interface Place {
  readonly left: Left | null
  readonly left_usd: Usd
  readonly free_tier: boolean
  readonly time_zone: string
  readonly limits?: readonly Read<Limit>[]
  readonly contact: string | null
  readonly last_unanswered:
    | (HolderCall & { readonly message: string | null; readonly rules: readonly string[] })
    | null
}

export function Me({ params }: ScreenProps) {
  const [own, setOwn] = useState<MemberSession | KeySession | null>()
  const [ways, setWays] = useState<readonly SignInWay[]>([])
  const [failure, setFailure] = useState<ApiError>()
  useEffect(() => {
    const { invitation, failure: failed } = takeFragment()
    if (failed) setFailure(failed)
    const begun = invitation === undefined ? Promise.resolve() : acceptInvitation(invitation)
    begun
      .catch((thrown: unknown) => setFailure(toApiError(thrown)))
      .then(() => call<MemberAnswer>('GET', '/me/api/session'))
      .then(
        ({ data, sign_in }) => {
          setWays(sign_in?.providers ?? [])
          setOwn(data)
        },
        () => setOwn(null),
      )
  }, [])
  if (own === undefined) return null
  if (own === null) {
    if (failure) return html`<main class="lone"><${Failure} error=${failure} /></main>`
    return html`<${KeySignIn} ways=${ways} onBegun=${setOwn} />`
  }
  const onLeft = () => setOwn(null)
  return 'key_id' in own && own.key_id !== null
    ? html`<${Holder} own=${own} tab=${params.tab ?? 'overview'} onLeft=${onLeft} />`
    : html`<${Member} member=${own as MemberSession} tab=${params.tab ?? 'overview'} onLeft=${onLeft} />`
}

type Part = readonly [key: string, label: string, part: Content]

/** Pages of the manual by the part of the page that is shown; the others are for holders of a key. */
const MANUAL: Readonly<Record<string, string>> = {
  connect: 'clients/index',
  people: 'tasks/members',
}

/** The frame of the page: its parts, its manual, and leaving. */
function Page({
  title,
  who,
  parts,
  tab,
  onLeft,
  children,
}: {
  readonly title: Content
  /** Who is signed in, beside the title. */
  readonly who?: Content
  readonly parts: readonly Part[]
  readonly tab: string
  readonly onLeft: () => void
  /** What is shown above the parts. */
  readonly children?: Content
}) {
  const [current, , part] = parts.find(([key]) => key === tab) ?? parts[0]!
  const openManual = () =>
    (manual.value = MANUAL[current] ?? 'console#for-members-and-holders-of-a-key')
  useKeys({ h: openManual })
  const leave = () => call('DELETE', '/me/api/session', { body: {} }).finally(onLeft)
  return html`<header class="top holder">
      <a class="brand" href="/me"><${Mark} />Sluicegate</a>
      <div class="top-end">
        <${ZoneSwitch} /><${ThemeSwitch} />
        <${Button} kind="quiet" title="Manual of this page (h)" onClick=${openManual}
          ><span aria-hidden="true">?</span><span class="hidden">Manual of this page</span><//
        >
        <${Button} onClick=${leave}>Sign out<//>
      </div>
    </header>
    <main class="holder-main" id="main">
      <div class="screen">
        <header class="screen-head"><h1><bdi>${title}</bdi></h1>${who}</header>
        ${children}
        <${Tabs} label="Parts of the page" tabs=${parts.map(([key, label]) => ({ key, label, href: key === 'overview' ? '/me' : `/me/${key}` }))} current=${current} />
        ${part}
      </div>
    </main>`
}

/** The page of a member: what is left, its keys, their use, and what its place has for those who manage it. */
function Member({
  member,
  tab,
  onLeft,
}: {
  readonly member: MemberSession
  readonly tab: string
  readonly onLeft: () => void
}) {
  const [error, setError] = useState<ApiError>()
  useTitle(member.name, member.account_id)
  const change = (id: string) =>
    call('POST', '/me/api/session', { body: { member: id } }).then(
      () => location.reload(),
      (thrown: unknown) => setError(toApiError(thrown)),
    )
  const managesAll = member.manages && member.team_id === null
  const parts: readonly Part[] = [
    ['overview', 'Overview', html`<${Overview} account=${member.account_id} />`],
    ['requests', 'Calls', html`<${HolderRequests} />`],
    ['keys', 'Keys', html`<${MemberKeys} member=${member} />`],
    ['usage', 'Usage', html`<${HolderUsage} />`],
    ['models', 'Models', html`<${HolderModels} />`],
    ['play', 'Playground', html`<${MemberPlay} member=${member} />`],
    ['connect', 'Connect', html`<${Connect} />`],
    ...(member.manages ? [['people', 'People', html`<${People} />`] as const] : []),
    ...(managesAll ? [['statements', 'Statements', html`<${Statements} />`] as const] : []),
  ]
  const who = html`<span class="muted">${member.name}, ${member.account_id}</span>
    ${member.places
      .filter((one) => !one.current)
      .map(
        ({ member_id, account_id }) =>
          html`<${Button} key=${member_id} onClick=${() => change(member_id)}>Go to ${account_id}<//>`,
      )}`
  return html`<${Page} title="Your keys" who=${who} parts=${parts} tab=${tab} onLeft=${onLeft}>
    ${error && html`<${Failure} error=${error} />`}
  <//>`
}

function Holder({
  own: { key_id: id, account_id: account },
  tab,
  onLeft,
}: {
  readonly own: KeySession
  readonly tab: string
  readonly onLeft: () => void
}) {
  const path = `/me/api/keys/${encodeURIComponent(id!)}`
  const answer = useAnswer<{ data: KeyRow }>(path)
  const { data } = answer.data ?? {}
  useTitle(data?.name, 'your key')
  const parts: readonly Part[] = [
    ['overview', 'Overview', data && html`<${Overview} account=${account} row=${data} />`],
    ['requests', 'Calls', html`<${HolderRequests} />`],
    ['usage', 'Usage', html`<${HolderUsage} />`],
    ['models', 'Models', html`<${HolderModels} />`],
    [
      'play',
      'Playground',
      html`<${HolderPlay} path=${path} account=${account} onEnded=${answer.reload} />`,
    ],
    ['connect', 'Connect', html`<${Connect} />`],
  ]
  return html`<${Page} title=${data ? `${account} / ${data.name}` : 'Your key'} parts=${parts} tab=${tab} onLeft=${onLeft}>
    ${
      answer.error?.status === 401
        ? html`<${Notice} tone="bad">This key does not work any more: it was changed, disabled or has expired.<//>`
        : answer.error && html`<${Failure} error=${answer.error} onRetry=${answer.reload} />`
    }
  <//>`
}

/** The Playground of a member: with one of its own keys that are active. */
function MemberPlay({ member }: { readonly member: MemberSession }) {
  const answer = useAnswer<{ data: readonly (KeyRow & { readonly owner?: string | null })[] }>(
    '/me/api/keys',
  )
  return html`<${Answered} of=${answer} lines=${8}>
    ${({ data }: NonNullable<typeof answer.data>) => {
      const own = data.filter((one) => one.owner === member.member_id && !one.disabled)
      const id = place.value.query.get('key')
      const key = own.find((one) => one.id === id) ?? own[0]
      if (!key)
        return html`<${Empty} title="There is no key to try models with."><p class="muted">It needs an active key of your own, which is charged: <a href="/me/keys">Keys</a>.</p><//>`
      const among = own.map((one) => ({ kind: 'key' as const, id: one.id, name: one.name }))
      return html`${own.length > 1 && html`<${Choose} kind="key" label="Key" value=${key.id} known=${key.name} among=${among} onChoose=${(chosen: string) => chosen !== '' && setQuery({ key: chosen })} />`}
        <${HolderPlay} key=${key.id} path=${`/me/api/keys/${encodeURIComponent(key.id)}`} account=${member.account_id} />`
    }}
  <//>`
}

/** @param row the key, where the session is that of one */
function Overview({ account, row }: { readonly account: string; readonly row?: KeyRow }) {
  const answer = useAnswer<{ data: Place }>('/me/api/place')
  return html`${row?.log_content && html`<${Notice} tone="warn">The content of your calls is kept by the operator of this gateway.<//>`}
    <${Answered} of=${answer} lines=${6}>
      ${({ data }: { data: Place }) => html`<${Remaining} account=${account} row=${row} place=${data} />`}
    <//>
    <${TopUp} onBooked=${answer.reload} />`
}

function Remaining({
  account,
  row,
  place,
}: {
  readonly account: string
  readonly row: KeyRow | undefined
  readonly place: Place
}) {
  const { left, free_tier: isFree, contact, limits = [], time_zone: zone } = place
  const byBalance = left?.limit === 'balance'
  const amount = left?.unit !== 'usd' ? null : byBalance ? place.left_usd : String(left.left)
  const binding = limits.find(({ limit }) => limit === left?.limit)
  const bound = binding ? valueOf(binding) : limitText(left?.limit ?? '')
  const isEmpty = amount !== null && (amount === '0' || amount.startsWith('-'))
  const lowest = (unit: string, window: string | null) => {
    const plain = limits.filter((one) => one.unit === unit && one.window === window && !one.models)
    return plain.length === 0
      ? 'no limit'
      : count(Math.min(...plain.map(({ value }) => Number(value))))
  }
  return html`${isEmpty && html`<${Notice} tone="bad">Every call is refused: ${byBalance ? html`the balance is <${Money} usd=${amount} exact />.` : html`the limit of ${bound} is used up, until ${left!.resets_at ? html`<${Time} at=${left!.resets_at} />` : 'it is raised'}.`} ${contact && html`Ask ${contact}.`}<//>`}
    <div class="tiles">
      <${Tile} label="Left" note=${left === null ? (isFree ? 'free tier: only models that cost nothing' : 'no limit of money') : byBalance ? 'of the balance' : `of ${bound}`}>
        ${amount !== null ? html`<${Money} usd=${amount} balance />` : left ? html`${count(Number(left.left))} requests` : 'unlimited'}
      <//>
      ${
        row &&
        html`<${Tile} label="Spent in all"><${Money} usd=${row.spend_usd} /><//>
          <${Tile} label="Requests a minute">${lowest('requests', 'minute')}<//>
          <${Tile} label="Calls at once">${lowest('concurrent', null)}<//>
          <${Tile} label="Expires">${row.expires_at ? html`<${Time} at=${row.expires_at} short />` : 'never'}<//>`
      }
    </div>
    <${Lately} last=${place.last_unanswered} isMember=${!row} />
    ${limits.length > 0 && html`<${Panel} title="Limits"><${Limits} limits=${limits} zone=${zone} /><//>`}
    <p class="muted prose">
      All calls of ${row ? 'this key' : 'your keys'} are billed to the account ${account}. Days and months are those of ${zone}.
      ${isFree ? ' The account is on the free tier: only models that cost nothing answer.' : ''}
    </p>`
}

function KeySignIn({
  ways,
  onBegun,
}: {
  readonly ways: readonly SignInWay[]
  readonly onBegun: (session: KeySession) => void
}) {
  const [text, setText] = useState('')
  const [keep, setKeep] = useState(false)
  const [wrong, setWrong] = useState<string>()
  const form = useSubmission(async () => {
    const key = text.trim()
    if (key === '') return setWrong('Enter an API key, such as sk-sluice-…')
    setWrong(undefined)
    const { data } = await call<{ data: KeySession }>('POST', '/me/api/session', {
      body: { key, keep },
    })
    setText('')
    onBegun(data)
  })
  return html`<main class="lone" id="main">
    <h1 class="brand"><${Mark} />Your key</h1>
    <form class="form" onSubmit=${form.submit}>
      <${TextField} label="API key" type="password" mono value=${text} onInput=${setText} autofocus error=${wrong} help="It goes to this gateway once, and begins a session. The page does not keep it." />
      <${CheckField} label="Keep me signed in" checked=${keep} onChange=${setKeep} help="Otherwise the session ends with the browser." />
      ${form.error && html`<${Failure} error=${form.error} />`}
      <div class="actions"><${Button} kind="primary" type="submit" busy=${form.busy}>Show my key<//></div>
    </form>
    ${ways.map(({ name, label }) => html`<p key=${name}><a class="button" href=${`/login/${name}?side=member`}>Sign in with ${label}</a></p>`)}
    ${session.value && html`<p class="help"><a href="/console">Console</a></p>`}
  </main>`
}

// The calls of a key at a glance: the last 30 days, and the last refusal.

const MONTH_MS = 30 * 86_400_000

/** Nothing where the operator does not show it here. */
function Lately({
  last,
  isMember,
}: {
  readonly last: Place['last_unanswered']
  readonly isMember: boolean
}) {
  const paths = useMemo(() => {
    const from = new Date(Date.now() - MONTH_MS).toISOString()
    return {
      usage: withQuery('/me/api/usage', { from: from.slice(0, 10), rollup: 'day' }),
    }
  }, [])
  const usage = useAnswer<UsageAnswer>(paths.usage).data
  if (!usage) return null
  return html`<${Panel} title="Last 30 days">
    <p class="lately">
      <b><${Money} usd=${usage.totals.cost_usd} exact /></b>
      <span class="muted">${count(usage.totals.calls)} ${usage.totals.calls === 1 ? 'call' : 'calls'}</span>
      <${Spark} values=${usageTable(usage, 'cost_usd').rows[0]?.values ?? []} label="Spend by day, USD" />
    </p>
    ${usage.totals.calls === 0 && html`<p>${isMember && html`Make a key under <a href="/me/keys">Keys</a>. `}Call with it as <a href="/me/connect">Connect</a> shows.</p>`}
    <${Proof} ledger=${usage.ledger} />
    ${last && html`<${Refusal} of=${last} />`}
  <//>`
}

function Refusal({
  of: { id, at, status, code, end, message },
}: {
  readonly of: NonNullable<Place['last_unanswered']>
}) {
  const meaning = MEANINGS[code ?? (end === 'blocked' ? 'policy_violation' : '')]
  return html`<div>
    <p>
      Last refusal: <span class="state warn">${end}</span>${end === 'blocked' ? ' by the policy of this key' : ''} (${status}${code === null ? '' : `, ${code.replaceAll('_', ' ')}`}), <${Time} at=${at} />. <a href=${withQuery('/me/requests', { open: id })}>The call</a>
    </p>
    ${message && html`<p class="prose">${message}</p>`}
    ${
      meaning !== undefined &&
      html`<details>
        <summary>What does that mean?</summary>
        <p class="prose">${meaning}</p>
      </details>`
    }
  </div>`
}

// Parts of the key holder's page: usage, calls, models, and how to connect a program.

const CALLS: readonly Column<Read<HolderCall>>[] = [
  CALL_COLUMNS.at,
  {
    key: 'status',
    label: 'Status',
    cell: ({ status, code, end }) =>
      html`<span class=${end === 'completed' ? 'state' : 'state warn'}>${status ?? MISSING}</span> ${code?.replaceAll('_', ' ') ?? (end === 'completed' ? '' : end)}`,
    phone: 'figure',
  },
  CALL_COLUMNS.model,
  { key: 'endpoint', label: 'Endpoint', cell: ({ endpoint }) => endpoint, phone: 'rest' },
  CALL_COLUMNS.tokens,
  CALL_COLUMNS.total,
  CALL_COLUMNS.cost,
]

const MODELS: readonly Column<ModelRow>[] = [
  { key: 'id', label: 'Model', cell: ({ id }) => id },
  { key: 'modality', label: 'For', cell: ({ modality }) => modality ?? MISSING, phone: 'rest' },
  {
    key: 'pricing',
    label: 'Price',
    cell: ({ pricing }) => pricesIn(pricing),
    phone: 'rest',
  },
]

const USAGE_BY = [
  { value: 'model', label: 'model' },
  { value: 'key', label: 'key' },
  { value: 'tag', label: 'tag' },
]

function HolderUsage() {
  const [by, setBy] = useState('model')
  const from = new Date(Date.now() - 30 * 86_400_000).toISOString().slice(0, 10)
  const answer = useAnswer<UsageAnswer>(
    withQuery('/me/api/usage', { from, group: by, rollup: 'month' }),
  )
  if (answer.error?.status === 404) return html`<${SwitchedOff} error=${answer.error} />`
  return html`<${RadioField} label="By" value=${by} options=${USAGE_BY} onChange=${setBy} />
    <${Answered} of=${answer} lines=${5}>
    ${({ data, totals, ledger }: UsageAnswer) => {
      const rows = sumsBy(by, data)
      if (rows.length === 0) return html`<${Empty} title="No calls in the last 30 days." />`
      const decimals = wholeDecimals([...rows.map(({ cost }) => cost), totals.cost_usd])
      return html`<section class="panel">
        <header><h2>Last 30 days (UTC days)</h2></header>
        <div class="panel-body">
          <table class="plain ruled sums">
            <${Heads} names=${[by[0]!.toUpperCase() + by.slice(1), 'Calls', 'Cost', html`<span class="hidden">Share</span>`]} end=${['Calls', 'Cost']} />
            <tbody>
              ${rows.map(({ name, calls, cost }) => html`<tr key=${name}><td>${name}</td><td class="end number">${count(calls)}</td><td class="end"><${Money} usd=${cost} decimals=${decimals} /></td><td class="end wide-only"><${Bar} share=${ratio(cost, totals.cost_usd ?? '0')} label=${`${name}: share of the cost`} /></td></tr>`)}
            </tbody>
            <tfoot><tr><th scope="row">Total</th><td class="end number">${count(totals.calls)}</td><td class="end"><${Money} usd=${totals.cost_usd} decimals=${decimals} /></td><td class="wide-only"></td></tr></tfoot>
          </table>
          <${Proof} ledger=${ledger} />
        </div>
      </section>`
    }}
  <//>`
}

function HolderRequests() {
  const list = usePages<Read<HolderCall>>('/me/api/requests')
  const open = place.value.query.get('open') ?? undefined
  if (list.error?.status === 404) return html`<${SwitchedOff} error=${list.error} />`
  if (!list.loading && !list.error && list.rows.length === 0)
    return html`<${Empty} title="No call was made yet." />`
  return html`${list.error && html`<${Failure} error=${list.error} onRetry=${list.reload} keptAt=${list.at} />`}
    <${Table} name="holder-requests" caption="Calls, newest first" columns=${CALLS} rows=${list.rows} idOf=${({ id }: Read<HolderCall>) => id} hrefOf=${({ id }: Read<HolderCall>) => hrefOpening(id)} open=${open} loading=${list.loading} />
    <${ListEnd} list=${list} verb="Older" />
    ${open !== undefined && html`<${CallSheet} key=${open} id=${open} />`}`
}

type BilledCall = Read<HolderCall & Pick<RequestDetails, 'bill' | 'bill_missing'>>

/** One call, with what was charged for it. */
function CallSheet({ id }: { readonly id: string }) {
  const answer = useAnswer<{ data: BilledCall }>(`/me/api/requests/${encodeURIComponent(id)}`)
  return html`<${Sheet} title=${html`<${Id} id=${id} />`} onClose=${() => setQuery({ open: undefined })}>
    <${Answered} of=${answer}>
      ${({
        data: { at, model, end, bill, bill_missing: missing },
      }: {
        data: BilledCall
      }) => html`<div class="stack">
        <p><${Time} at=${at} /> · ${model ?? MISSING} · ${end ?? 'running'}</p>
        ${bill ? html`<${BillTable} bill=${bill} />` : html`<p class="muted">${missing === 'folded' ? 'Its charge is a part of a daily total by now, or it had none.' : 'Its prices are not stored any more.'}</p>`}
      </div>`}
    <//>
  <//>`
}

function HolderModels() {
  const answer = useAnswer<{ data: readonly ModelRow[] }>('/me/api/models')
  return html`<${Answered} of=${answer} lines=${8}>
    ${({
      data,
    }: {
      data: readonly ModelRow[]
    }) => html`<${Table} name="holder-models" caption="Models that may be used" columns=${MODELS} rows=${data} idOf=${({ id }: ModelRow) => id} />
      <p class="caption">${data.length === 1 ? '1 model' : `${count(data.length)} models`}. Prices of tokens are for a million.</p>`}
  <//>`
}

function Connect() {
  const models = useAnswer<{ data: readonly ModelRow[] }>('/me/api/models').data?.data
  return html`<div class="stack prose">
    <p>Set the base URL and the key in your program. <code>$API_KEY</code> stands for the key of this page.</p>
    ${models && html`<${Snippets} model=${models.find(({ modality }) => modality === 'chat')?.id ?? '…'} />`}
  </div>`
}

function SwitchedOff({ error }: { readonly error: ApiError }) {
  return html`<${Empty} title="The operator does not show this here."><p class="muted">${error.message}</p><//>`
}

function sumsBy(by: string, rows: readonly UsageCell[]) {
  const models = new Map<string, { calls: number; costs: string[] }>()
  for (const { group, calls, cost_usd: cost } of rows) {
    const name = (group as Readonly<Record<string, string | null>>)[by] ?? 'none'
    const sums = models.get(name) ?? { calls: 0, costs: [] }
    sums.calls += calls ?? 0
    sums.costs.push(cost ?? '0')
    models.set(name, sums)
  }
  return [...models]
    .filter(([, { calls }]) => calls > 0)
    .map(([name, { calls, costs }]) => ({ name, calls, cost: addAmounts(costs) }))
    .sort((one, other) => Number(other.cost) - Number(one.cost))
}

function pricesIn(pricing: ModelRow['pricing']): Content {
  const named = pricesOf((pricing ?? {}) as Pricing)
  if (named.length === 0) return MISSING
  return html`<span class="prices"
    >${named.map(
      ([name, usd], place) =>
        html`${place > 0 && ' · '}${name.replaceAll('_', ' ')} <${Price} name=${name} usd=${usd} />`,
    )}</span
  >`
}

/** Advice for the holder of a key after a refusal, by `code`. */
const MEANINGS: Readonly<Record<string, string>> = {
  rate_limited:
    'The key, or all keys of its account together, made more requests than a minute allows. The header Retry-After says when to try again.',
  too_many_concurrent:
    'As many calls as the key may make at once were running. Wait for one of them to end.',
  insufficient_credits:
    'The account that pays for the key has too little money left. Its owner can add credits.',
  key_limit_exceeded:
    'The key has spent what it may spend in this window. The window is under Limits, with the moment at which it begins anew.',
  model_not_found: 'The gateway has no model of that name. Models lists those that there are.',
  model_not_allowed: 'The key may not use that model. Models lists those that it may.',
  policy_violation: 'The request, or its answer, is against the policy of the key.',
  content_policy_violation: 'The vendor of the model refused the request.',
  invalid_request_error: 'The request was not in the form that the endpoint takes.',
}
