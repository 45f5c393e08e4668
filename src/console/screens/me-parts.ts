/** Parts of the key holder's page: usage, calls, models, and how to connect a program. */
import { useAnswer, usePages, withQuery, type ApiError } from '../api.ts'
import type { HolderCall } from '../../server/admin/resources/request.ts'
import type { Read } from '../amounts.ts'
import type { ModelRow, Pricing, UsageAnswer, UsageCell } from '../answers.ts'
import { addAmounts, count, exactMoney, MISSING, ratio } from '../format.ts'
import { html, type Content } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Bar } from '../parts/bar.ts'
import { Heads } from '../parts/heads.ts'
import { Proof } from '../parts/proof.ts'
import { Answered, Empty, Failure } from '../parts/states.ts'
import { Table, type Column } from '../parts/table.ts'
import { Snippets } from '../parts/snippets.ts'
import { Price, pricesOf } from './model-prices.ts'
import { CALL_COLUMNS } from './outcome.ts'

interface HolderProps {
  readonly secret: string
}

const CALLS: readonly Column<Read<HolderCall>>[] = [
  CALL_COLUMNS.at,
  {
    key: 'status',
    label: 'Status',
    cell: ({ status, code }) =>
      html`<span class=${(status ?? 0) >= 400 ? 'state warn' : 'state'}>${status ?? '–'}</span> ${code?.replaceAll('_', ' ') ?? ''}`,
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

export function HolderUsage({ secret }: HolderProps) {
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

export function HolderRequests({ secret }: HolderProps) {
  const list = usePages<Read<HolderCall>>('/v1/key/requests', 'after', secret)
  if (list.error?.status === 404) return html`<${SwitchedOff} error=${list.error} />`
  if (!list.loading && !list.error && list.rows.length === 0)
    return html`<${Empty} title="This key has made no call yet." />`
  return html`${list.error && html`<${Failure} error=${list.error} onRetry=${list.reload} keptAt=${list.at} />`}
    <${Table} name="holder-requests" caption="Calls of this key, newest first" columns=${CALLS} rows=${list.rows} idOf=${({ id }: Read<HolderCall>) => id} loading=${list.loading} />
    ${list.next !== null && html`<p class="more"><${Button} busy=${list.loadingMore} onClick=${list.more}>Older<//></p>`}`
}

export function HolderModels({ secret }: HolderProps) {
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

export function Connect({ secret }: HolderProps) {
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
