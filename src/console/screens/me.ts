/** The page of the holder of one key: its limits, its use, and what it may use. */
import { signal } from '@preact/signals'
import { useEffect, useState, useMemo } from 'preact/hooks'
import { takeFragment } from '../fragment.ts'
import {
  acceptInvitation,
  MemberPage,
  type MemberAnswer,
  type MemberSession,
  type SignInWay,
} from './member.ts'
import { call, toApiError, useAnswer, type ApiError, withQuery, usePages } from '../api.ts'
import { count, shortId, addAmounts, exactMoney, MISSING, ratio } from '../format.ts'
import { Mark } from '../frame.ts'
import { html, type Content } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Money, Tile, Time } from '../parts/facts.ts'
import { CheckField, TextField, useSubmission } from '../parts/form.ts'
import { lazy } from '../parts/lazy.ts'
import { Limits } from '../parts/limits.ts'
import { Answered, Failure, Notice, Empty } from '../parts/states.ts'
import { Tabs } from '../parts/tabs.ts'
import { session, type ScreenProps } from '../state.ts'
import type { HolderKey } from '../../server/admin/resources/key.ts'
import type { Read } from '../amounts.ts'
import type { UsageAnswer, UsageCell, ModelRow, Pricing, Usd } from '../answers.ts'
import { Spark, Bar } from '../parts/bar.ts'
import { Panel } from '../parts/panel.ts'
import { Proof } from '../parts/proof.ts'
import { usageTable } from './usage-rows.ts'
import type { HolderCall } from '../../server/admin/resources/request.ts'
import { Heads } from '../parts/heads.ts'
import { Table, type Column } from '../parts/table.ts'
import { Snippets } from '../parts/snippets.ts'
import { Price, pricesOf } from './model-prices.ts'
import { CALL_COLUMNS } from './outcome.ts'

/** Where the key is kept if its holder asks for that: in this tab, until it is closed. */
const KEPT = 'sluicegate.key'

// The key itself is only in this variable and, if its holder asks for that, in the tab. The signal says only that
// there is one.
let held: string | undefined
const holding = signal(false)

const HolderPlay = lazy(async () => (await import('./me-play.ts')).HolderPlay)
const TABS = [
  { key: 'overview', label: 'Overview', href: '/me' },
  { key: 'usage', label: 'Usage', href: '/me/usage' },
  { key: 'requests', label: 'Requests', href: '/me/requests' },
  { key: 'models', label: 'Models', href: '/me/models' },
  { key: 'play', label: 'Playground', href: '/me/play' },
  { key: 'connect', label: 'Connect', href: '/me/connect' },
]

export function Me({ params }: ScreenProps) {
  const [member, setMember] = useState<MemberSession | null>()
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
          setMember(data)
        },
        () => setMember(null),
      )
  }, [])
  if (member === undefined) return null
  if (member) return html`<${MemberPage} member=${member} onLeft=${() => setMember(null)} />`
  if (failure) return html`<main class="lone"><${Failure} error=${failure} /></main>`
  if (!holding.value && !restore()) return html`<${KeySignIn} ways=${ways} />`
  return html`<${Holder} secret=${held!} tab=${params.tab ?? 'overview'} />`
}

function Holder({ secret, tab }: { readonly secret: string; readonly tab: string }) {
  const answer = useAnswer<{ data: Read<HolderKey> }>('/v1/key', { key: secret })
  const title = answer.data
    ? `${answer.data.data.account_id} / ${shortId(answer.data.data.key_id, 20)}`
    : ''
  return html`<header class="top holder">
      <a class="brand" href="/me"><${Mark} />Sluicegate</a>
      <span class="mono muted">${secret.slice(0, 14)}…</span>
      <div class="top-end"><${Button} onClick=${signOut}>Sign out<//></div>
    </header>
    <main class="holder-main" id="main">
      <div class="screen">
        ${answer.error?.status === 401 && html`<${Notice} tone="bad">This key does not work any more. ${answer.error.message}<//>`}
        <header class="screen-head"><h1><bdi>${title || 'Your key'}</bdi></h1></header>
        <${Tabs} label="Parts of the page" tabs=${TABS} current=${tab} />
        <${Answered} of=${answer} lines=${8}>
          ${({ data }: { data: Read<HolderKey> }) =>
            tab === 'usage'
              ? html`<${HolderUsage} secret=${secret} />`
              : tab === 'requests'
                ? html`<${HolderRequests} secret=${secret} />`
                : tab === 'models'
                  ? html`<${HolderModels} secret=${secret} />`
                  : tab === 'play'
                    ? html`<${HolderPlay} secret=${secret} account=${data.account_id} onEnded=${answer.reload} />`
                    : tab === 'connect'
                      ? html`<${Connect} secret=${secret} />`
                      : html`<${Overview} data=${data} secret=${secret} />`}
        <//>
      </div>
    </main>`
}

function Overview({ data, secret }: { readonly data: Read<HolderKey>; readonly secret: string }) {
  const { spend_remaining_usd: ofCaps } = data
  const credits = useAnswer<{ data: { balance_usd: Usd } }>('/v1/credits', { key: secret }).data
  const balance = data.free_tier ? null : (credits?.data.balance_usd ?? null)
  const left = lowerOf(ofCaps, balance)
  return html`${data.log_content && html`<${Notice} tone="warn">The content of your calls is kept by the operator of this gateway.<//>`}
    <div class="tiles">
      <${Tile} label="Spent in all"><${Money} usd=${data.spend_usd} /><//>
      <${Tile} label="Left" note=${left === null ? 'no limit of money' : left === balance ? 'of the balance' : 'by the limits below'}>
        ${left === null ? '–' : html`<${Money} usd=${left} balance />`}
      <//>
      <${Tile} label="Requests a minute">${count(data.rpm_limit)}<//>
      <${Tile} label="Calls at once">${count(data.concurrency_limit)}<//>
      <${Tile} label="Expires">${data.expires_at ? html`<${Time} at=${data.expires_at} />` : 'never'}<//>
    </div>
    <${Lately} secret=${secret} />
    ${
      data.limits &&
      html`<section class="panel"><header><h2>Limits</h2></header><div class="panel-body"><${Limits} limits=${data.limits} zone=${data.time_zone} /></div></section>`
    }
    <p class="muted prose">
      All calls of this key are billed to its account, ${data.account_id}. Days and months are those of ${data.time_zone}.
      ${data.free_tier ? ' The account is on the free tier: only models that cost nothing answer.' : ''}
    </p>`
}

/** The lower of two amounts, of which each may be absent. */
function lowerOf(a: Usd | null, b: Usd | null): Usd | null {
  if (a === null || b === null) return a ?? b
  return addAmounts([a, b.startsWith('-') ? b.slice(1) : `-${b}`]).startsWith('-') ? a : b
}

function KeySignIn({ ways }: { readonly ways: readonly SignInWay[] }) {
  const [text, setText] = useState('')
  const [keep, setKeep] = useState(false)
  const [wrong, setWrong] = useState<string>()
  const [error, setError] = useState<ApiError>()
  const form = useSubmission(async () => {
    const secret = text.trim()
    setError(undefined)
    if (secret === '') return setWrong('Enter an API key, such as sk-sluice-…')
    setWrong(undefined)
    try {
      await call('GET', '/v1/key', { key: secret })
    } catch (thrown) {
      return setError(toApiError(thrown))
    }
    setText('')
    hold(secret, keep)
  })
  return html`<main class="lone" id="main">
    <h1 class="brand"><${Mark} />Your key</h1>
    <form class="form" onSubmit=${form.submit}>
      <${TextField} label="API key" type="password" mono value=${text} onInput=${setText} autofocus error=${wrong} help="It stays in this page, and goes to this gateway only." />
      <${CheckField} label="Keep it in this tab" checked=${keep} onChange=${setKeep} help="Until the tab is closed. Otherwise a reload asks again." />
      ${error && html`<${Failure} error=${error} />`}
      <div class="actions"><${Button} kind="primary" type="submit" busy=${form.busy}>Show my key<//></div>
    </form>
    ${ways.map(({ name, label }) => html`<p key=${name}><a class="button" href=${`/login/${name}?side=member`}>Sign in with ${label}</a></p>`)}
    ${session.value && html`<p class="help"><a href="/console">Console</a></p>`}
  </main>`
}

function hold(secret: string, keep: boolean): void {
  held = secret
  if (keep) sessionStorage.setItem(KEPT, secret)
  holding.value = true
}

function restore(): boolean {
  held ??= sessionStorage.getItem(KEPT) ?? undefined
  if (held !== undefined) holding.value = true
  return held !== undefined
}

function signOut(): void {
  held = undefined
  sessionStorage.removeItem(KEPT)
  holding.value = false
}

// The calls of a key at a glance: the last 30 days, and the last refusal.

const MONTH_MS = 30 * 86_400_000

/** Nothing where the operator does not show it here. */
function Lately({ secret }: { readonly secret: string }) {
  const paths = useMemo(() => {
    const from = new Date(Date.now() - MONTH_MS).toISOString()
    return {
      usage: withQuery('/v1/key/usage', { from: from.slice(0, 10), rollup: 'day' }),
      refused: '/v1/key/requests?end=blocked&end=limited&end=rejected&limit=1',
    }
  }, [])
  const usage = useAnswer<UsageAnswer>(paths.usage, { key: secret }).data
  const refused = useAnswer<{ data: readonly HolderCall[] }>(paths.refused, { key: secret }).data
  if (!usage) return null
  const [last] = refused?.data ?? []
  return html`<${Panel} title="Last 30 days">
    <p class="lately">
      <b><${Money} usd=${usage.totals.cost_usd} exact /></b>
      <span class="muted">${count(usage.totals.calls)} ${usage.totals.calls === 1 ? 'call' : 'calls'}</span>
      <${Spark} values=${usageTable(usage, 'cost_usd').rows[0]?.values ?? []} label="Spend by day, USD" />
    </p>
    <${Proof} ledger=${usage.ledger} />
    ${last && html`<${Refusal} of=${last} />`}
  <//>`
}

function Refusal({ of: { at, status, code, end } }: { readonly of: HolderCall }) {
  const meaning = MEANINGS[code ?? (end === 'blocked' ? 'policy_violation' : '')]
  return html`<div>
    <p>
      Last refusal: <span class="state warn">${end}</span>${end === 'blocked' ? ' by the policy of this key' : ''} (${status}${code === null ? '' : `, ${code.replaceAll('_', ' ')}`}), <${Time} at=${at} />
    </p>
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

interface HolderProps {
  readonly secret: string
}

const CALLS: readonly Column<Read<HolderCall>>[] = [
  CALL_COLUMNS.at,
  {
    key: 'status',
    label: 'Status',
    cell: ({ status, code, end }) =>
      html`<span class=${end === 'completed' ? 'state' : 'state warn'}>${status ?? '–'}</span> ${code?.replaceAll('_', ' ') ?? (end === 'completed' ? '' : end)}`,
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
  { key: 'modality', label: 'For', cell: ({ modality }) => modality ?? '–', phone: 'rest' },
  {
    key: 'pricing',
    label: 'Price',
    cell: ({ pricing }) => pricesIn(pricing),
    phone: 'rest',
  },
]

function HolderUsage({ secret }: HolderProps) {
  const from = new Date(Date.now() - 30 * 86_400_000).toISOString().slice(0, 10)
  const answer = useAnswer<UsageAnswer>(
    withQuery('/v1/key/usage', { from, group: 'model', rollup: 'month' }),
    { key: secret },
  )
  if (answer.error?.status === 404) return html`<${SwitchedOff} error=${answer.error} />`
  return html`<${Answered} of=${answer} lines=${5}>
    ${({ data, totals, ledger }: UsageAnswer) => {
      const rows = byModel(data)
      if (rows.length === 0) return html`<${Empty} title="No calls in the last 30 days." />`
      return html`<section class="panel">
        <header><h2>Last 30 days, by model (UTC days)</h2></header>
        <div class="panel-body">
          <table class="plain ruled sums">
            <${Heads} names=${['Model', 'Calls', 'Cost', html`<span class="hidden">Share</span>`]} end=${['Calls', 'Cost']} />
            <tbody>
              ${rows.map(({ name, calls, cost }) => html`<tr key=${name}><td>${name}</td><td class="end number">${count(calls)}</td><td class="end number">${exactMoney(cost)}</td><td class="end wide-only"><${Bar} share=${ratio(cost, totals.cost_usd ?? '0')} label=${`${name}: share of the cost`} /></td></tr>`)}
            </tbody>
            <tfoot><tr><th scope="row">Total</th><td class="end number">${count(totals.calls)}</td><td class="end number">${exactMoney(totals.cost_usd)}</td><td class="wide-only"></td></tr></tfoot>
          </table>
          <${Proof} ledger=${ledger} />
        </div>
      </section>`
    }}
  <//>`
}

function HolderRequests({ secret }: HolderProps) {
  const list = usePages<Read<HolderCall>>('/v1/key/requests', 'after', secret)
  if (list.error?.status === 404) return html`<${SwitchedOff} error=${list.error} />`
  if (!list.loading && !list.error && list.rows.length === 0)
    return html`<${Empty} title="This key has made no call yet." />`
  return html`${list.error && html`<${Failure} error=${list.error} onRetry=${list.reload} keptAt=${list.at} />`}
    <${Table} name="holder-requests" caption="Calls of this key, newest first" columns=${CALLS} rows=${list.rows} idOf=${({ id }: Read<HolderCall>) => id} loading=${list.loading} />
    ${list.next !== null && html`<p class="more"><${Button} busy=${list.loadingMore} onClick=${list.more}>Older<//></p>`}`
}

function HolderModels({ secret }: HolderProps) {
  const answer = useAnswer<{ data: readonly ModelRow[] }>('/v1/models', { key: secret })
  return html`<${Answered} of=${answer} lines=${8}>
    ${({
      data,
    }: {
      data: readonly ModelRow[]
    }) => html`<${Table} name="holder-models" caption="Models that this key may use" columns=${MODELS} rows=${data} idOf=${({ id }: ModelRow) => id} />
      <p class="caption">${count(data.length)} models. Prices of tokens are for a million.</p>`}
  <//>`
}

function Connect({ secret }: HolderProps) {
  return html`<div class="stack prose">
    <p>Set the base URL and the key in your program. <code>$API_KEY</code> stands for the key of this page.</p>
    <${Snippets} asKey=${secret} />
  </div>`
}

function SwitchedOff({ error }: { readonly error: ApiError }) {
  return html`<${Empty} title="The operator does not show this here."><p class="muted">${error.message}</p><//>`
}

function byModel(rows: readonly UsageCell[]) {
  const models = new Map<string, { calls: number; costs: string[] }>()
  for (const { group, calls, cost_usd: cost } of rows) {
    const sums = models.get(group.model ?? '–') ?? { calls: 0, costs: [] }
    sums.calls += calls ?? 0
    sums.costs.push(cost ?? '0')
    models.set(group.model ?? '–', sums)
  }
  return [...models]
    .filter(([, { calls }]) => calls > 0)
    .map(([name, { calls, costs }]) => ({ name, calls, cost: addAmounts(costs) }))
    .sort((one, other) => Number(other.cost) - Number(one.cost))
}

function pricesIn(pricing: ModelRow['pricing']): Content {
  const named = pricesOf((pricing ?? {}) as Pricing)
  if (named.length === 0) return MISSING
  return named.map(
    ([name, usd], place) =>
      html`${place > 0 && ' · '}${name.replaceAll('_', ' ')} <${Price} name=${name} usd=${usd} />`,
  )
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
