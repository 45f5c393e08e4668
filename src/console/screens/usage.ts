/** Usage: who spent what, on which model, when; and whether the ledger says the same. */
import { at } from '../base.ts'
import { useMemo, useRef } from 'preact/hooks'
import { useAnswer, withQuery } from '../api.ts'
import type { Rollup, UsageAnswer, Usd, Agreement } from '../answers.ts'
import {
  columnMoney,
  count,
  duration,
  money,
  callShare,
  percentOf,
  plainDecimal,
  shortCount,
  wholeDecimals,
} from '../format.ts'
import { html, type Content } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Spark, Bar } from '../parts/bar.ts'
import { Money, Time } from '../parts/facts.ts'
import { Filters, isFiltered, type Filter } from '../parts/filters.ts'
import { LazyPlot } from '../parts/lazy.ts'
import type { PlotProps } from '../parts/plot.ts'
import { Differences } from '../parts/proof.ts'
import { Range, spanOf } from '../parts/range.ts'
import { Answered, Empty, Notice } from '../parts/states.ts'
import { amounts, ColumnChoice, Table, type Column } from '../parts/table.ts'
import { hrefWith, place, setQuery } from '../state.ts'
import { amountOf, next, usageTable, type Metric, type UsageRow } from './usage-rows.ts'

/** The number of series, the last one for all others. */
const MOST_SERIES = 8

export function Usage() {
  const { query } = place.value
  const question = questionOf(query)
  const path = useMemo(() => pathOf(query, question, Date.now()), [query.toString()])
  const answer = useAnswer<UsageAnswer>(path)
  const screen = useRef<HTMLDivElement>(null)
  useKeys({
    x: () => location.assign(at(csvOf(path))),
    b: () => screen.current?.querySelector<HTMLElement>('[aria-label=By]')?.focus(),
  })
  return html`<div class="screen" ref=${screen}>
    <header class="screen-head">
      <h1>Usage</h1>
      <${Choices} question=${question} />
      <${Range} standard=${STANDARD} />
      <${Filters} filters=${FILTERS} />
      <div class="screen-actions">
        <${ColumnChoice} name="usage" columns=${columnsOf(question, undefined)} />
        <a class="button quiet" href=${csvOf(path)} download>CSV</a>
      </div>
    </header>
    ${
      question.without &&
      html`<${Notice} tone="warn">
        Usage is not kept by ${labelOf(question.group[0])} and ${labelOf(question.without)} together. This is by
        ${' '}${labelOf(question.group[0])} alone.
      <//>`
    }
    <${Answered} of=${answer} lines=${14}>
      ${(data: UsageAnswer) => html`<${Answer} answer=${data} question=${question} />`}
    <//>
  </div>`
}

/** Chooses what is shown: cost by model and key per day, unless the reader changes it. */
function Choices({ question: { group, metric, rollup } }: { readonly question: Question }) {
  const [first = '', second = ''] = group
  const groups = (names: readonly string[], none?: string) => ({
    ...(none && { '': none }),
    ...Object.fromEntries(names.map((name) => [name, GROUPS[name]!.label.toLowerCase()])),
  })
  const setGroup = (one: string, two: string) =>
    setQuery({ group: [one, two].filter(Boolean).join(), top: undefined, hide: undefined })
  return html`<div class="choices-line">
    <${Choice}
      label="Show"
      value=${metric}
      options=${METRICS}
      onChange=${(value: string) => setQuery({ metric: value, top: undefined })}
    />
    <span>by</span>
    <${Choice}
      label="By"
      value=${first}
      options=${groups(Object.keys(GROUPS))}
      onChange=${(value: string) => setGroup(value, fits(value, second) ? second : '')}
    />
    <span>and</span>
    <${Choice}
      label="And by"
      value=${second}
      options=${groups(Object.keys(GROUPS), 'nothing else')}
      whyNot=${(name: string) => (fits(first, name) ? undefined : `not with ${labelOf(first)}`)}
      onChange=${(value: string) => setGroup(first, value)}
    />
    <span>per</span>
    <${Choice}
      label="Per"
      value=${rollup}
      options=${ROLLUPS}
      onChange=${(value: string) => setQuery({ rollup: value || undefined })}
    />
  </div>`
}

function labelOf(group: string | undefined): string {
  return GROUPS[group ?? '']?.label.toLowerCase() ?? ''
}

function Choice({
  label,
  value,
  options,
  whyNot = () => undefined,
  onChange,
}: {
  readonly label: string
  readonly value: string
  readonly options: Readonly<Record<string, string>>
  readonly whyNot?: (name: string) => string | undefined
  readonly onChange: (value: string) => void
}) {
  return html`<select
    aria-label=${label}
    onChange=${(event: Event) => onChange((event.target as HTMLSelectElement).value)}
  >
    ${Object.entries(options).map(
      ([one, text]) =>
        html`<option key=${one} value=${one} selected=${one === value} disabled=${whyNot(one) !== undefined}
          >${[text, whyNot(one)].filter(Boolean).join(': ')}</option
        >`,
    )}
  </select>`
}

function Answer({
  answer,
  question,
}: {
  readonly answer: UsageAnswer
  readonly question: Question
}) {
  const { metric } = question
  const { query } = place.value
  const hidden = query.getAll('hide')
  const { rows, times } = useMemo(() => usageTable(answer, metric), [answer, metric])
  const series = useMemo(() => seriesOf(rows, hidden), [rows, hidden.join('\n')])
  if (rows.length === 0) return html`<${Nothing} answer=${answer} />`
  const { rollup } = answer
  const name = METRICS[metric]!
  return html`<div class="stack">
    <${Incomplete} answer=${answer} />
    <section class="panel">
      <div class="panel-body">
        <${LazyPlot}
          times=${times}
          series=${series}
          kind="bars"
          format=${(value: number) => written(value, metric)}
          formatAxis=${(values: readonly number[]) => axisOf(values, metric)}
          formatTime=${(seconds: number) => stepName(seconds, rollup)}
          label=${`${name} per ${rollup}, UTC. The table has the same numbers.`}
          onSelect=${(first: number, last: number) =>
            setQuery({
              from: isoOf(first * 1000, rollup),
              to: isoOf(next(last * 1000, rollup), rollup),
            })}
        />
        <${Legend} series=${series} hidden=${hidden} />
      </div>
    </section>
    <${Table}
      name="usage"
      caption=${`Usage, by ${name}`}
      columns=${columnsOf(question, answer, rows)}
      rows=${rows}
      idOf=${({ group }: UsageRow) => group?.join(' ') ?? 'Other'}
      hrefOf=${(row: UsageRow) => hrefOf(row, question)}
      markOf=${(row: UsageRow) => (hidden.includes(row.name) ? 'faded' : undefined)}
      totals=${totalsOf(question, answer, rows)}
      whole
    />
    <p class="caption">
      <span title="Approximate, of calls with status 200"
        >Half of the calls took less than ${duration(answer.totals.p50_ms)}, 95 % less than
        ${' '}${duration(answer.totals.p95_ms)}.</span
      >
      ${' '}${rollup === 'hour' ? 'Hours' : 'Days'} and months are UTC.${answer.totals.cost_usd === null ? '' : ' A call counts when it was charged.'}
      ${' '}${
        rows.at(-1)?.group === undefined
          ? html`<a href=${hrefWith({ top: String(question.top + USUAL_TOP) })}>
              Show ${USUAL_TOP} more groups</a
            >`
          : null
      }
    </p>
    <${Proof} ledger=${answer.ledger} cost=${answer.totals.cost_usd} indexed=${answer.indexed} />
  </div>`
}

function Legend({
  series,
  hidden,
}: {
  readonly series: PlotProps['series']
  readonly hidden: readonly string[]
}) {
  if (series.length < 2) return null
  const toggle = (label: string) =>
    setQuery(
      {
        hide: hidden.includes(label) ? hidden.filter((one) => one !== label) : [...hidden, label],
      },
      { replace: true },
    )
  return html`<div class="legend" role="group" aria-label="Series of the plot">
    ${series.map(
      ({ label }, index) =>
        html`<button
          key=${label}
          type="button"
          aria-pressed=${hidden.includes(label) ? 'false' : 'true'}
          onClick=${() => toggle(label)}
        >
          <i class=${`swatch s${index + 1}`} aria-hidden="true"></i>${label}
        </button>`,
    )}
  </div>`
}

function Incomplete({ answer: { partial, indexed } }: { readonly answer: UsageAnswer }) {
  return html`${
    indexed < 1 &&
    html`<${Notice} tone="warn">Usage is being read from the ledger: ${percentOf(indexed)}<//>`
  }
  ${
    partial.from !== null &&
    html`<${Notice}>
      Failed, refused and blocked calls and times are known from ${' '}<${Time} at=${partial.from} />
      on. Calls, quantities and costs are complete.
    <//>`
  }`
}

function Nothing({ answer }: { readonly answer: UsageAnswer }) {
  const filtered = isFiltered(FILTERS)
  return html`<${Incomplete} answer=${answer} /><${Empty}
      title=${filtered ? 'No calls match.' : 'No calls in this range.'}
    >
      <p class="muted">
        ${
          filtered
            ? 'Remove a filter above, or choose a longer range.'
            : 'What calls use is added up here as soon as the ledger has charged them.'
        }
      </p>
      <a href="/console/play">Make a call in the Playground</a>
    <//>`
}

const QUANTITIES: readonly { readonly key: Metric; readonly label: string }[] = [
  { key: 'prompt_tokens', label: 'Prompt' },
  { key: 'cached_tokens', label: 'Cached' },
  { key: 'completion_tokens', label: 'Completion' },
  { key: 'reasoning_tokens', label: 'Reasoning' },
  { key: 'images', label: 'Images' },
  { key: 'pages', label: 'Pages' },
  { key: 'seconds', label: 'Seconds' },
  { key: 'characters', label: 'Characters' },
  { key: 'searches', label: 'Searches' },
  { key: 'search_units', label: 'Search units' },
]
/** Metrics that are shown even without values. The others are shown once they are chosen: they are too wide. */
const USUAL: readonly Metric[] = ['prompt_tokens', 'cached_tokens', 'completion_tokens']

function columnsOf(
  { group, metric }: Question,
  answer: UsageAnswer | undefined,
  rows: readonly UsageRow[] = [],
): readonly Column<UsageRow>[] {
  const total = answer ? amountOf(answer.totals, metric) : 0
  const places = new Map(rows.map((row, index) => [row, Math.min(MOST_SERIES, index + 1)]))
  const quantities = QUANTITIES.filter(
    ({ key }) => USUAL.includes(key) || !answer || answer.totals[key] !== null,
  )
  return [
    {
      key: 'group',
      label: group.map((name) => GROUPS[name]!.label).join(' · ') || 'All',
      cell: (row) => html`<i class=${`swatch s${places.get(row) ?? 8}`} aria-hidden="true"></i>
        ${row.name}`,
      title: ({ group, name }) => group?.map((value) => value ?? '(none)').join(' · ') ?? name,
    },
    {
      key: 'calls',
      label: 'Calls',
      cell: (row) => callsOf(row, group, answer?.range),
      title: (row) => count(row.sums.calls),
      end: true,
      phone: 'rest',
    },
    {
      key: 'failed',
      label: 'Failed',
      cell: ({ sums }) => callShare(sums.errors, sums.calls),
      title: ({ sums }) => `${count(sums.errors)} failed, ${count(sums.refused)} refused`,
      end: true,
      phone: 'none',
    },
    ...quantities.map(({ key, label }): Column<UsageRow> => ({
      key,
      label,
      rare: !USUAL.includes(key) && key !== metric,
      cell: ({ sums }) => shortCount(sums[key] as number | null),
      title: ({ sums }) => count(sums[key] as number | null),
      end: true,
      phone: 'none',
    })),
    amounts(({ sums }) => sums.cost_usd, {
      key: 'cost',
      label: 'Cost',
      phone: 'figure',
    }),
    {
      key: 'share',
      label: 'Share',
      cell: ({ sums }) => share(amountOf(sums, metric), total),
      end: true,
      phone: 'rest',
    },
    {
      key: 'trend',
      label: 'Trend',
      cell: (row) => html`<${Spark} values=${row.values} label=${row.name} />`,
      phone: 'none',
    },
  ]
}

function share(part: number, total: number): Content {
  if (total === 0) return 'none'
  const text = percentOf(part / total)
  return html`<span class="share"
    ><${Bar} share=${part / total} label=${text} /><span>${text}</span></span
  >`
}

/** The number of calls, a link where the list of requests can show just these. */
function callsOf(
  { group, sums }: UsageRow,
  names: readonly string[],
  range: UsageAnswer['range'] | undefined,
): Content {
  const text = shortCount(sums.calls)
  if (group === undefined) return text
  const href = requestsHref(
    Object.fromEntries(names.map((name, i) => [name, group[i] ?? ''])),
    range,
  )
  return href === undefined ? text : html`<a href=${href} data-figure=${sums.calls}>${text}</a>`
}

/** The address of the same question about one group alone; that of the others together shows more of them. */
function hrefOf({ group: values }: UsageRow, { group, top }: Question): string {
  if (values === undefined) return hrefWith({ top: String(top + USUAL_TOP) })
  const set = group.flatMap((name, i) => (values[i] ? [[name, values[i]] as const] : []))
  const within = group.length === 1 ? GROUPS[group[0]!]!.within : ''
  const rest = set.length === group.length ? within : group.join()
  return hrefWith({ ...Object.fromEntries(set), group: rest, top: undefined, hide: undefined })
}

function totalsOf(
  question: Question,
  { totals, range }: UsageAnswer,
  rows: readonly UsageRow[],
): Readonly<Record<string, Content>> {
  const decimals = wholeDecimals([...rows.map(({ sums }) => sums.cost_usd), totals.cost_usd])
  const none = Object.fromEntries(question.group.map((name) => [name, undefined]))
  const href = requestsHref(none, range)
  const calls = count(totals.calls)
  const quantity = (value: number | null) =>
    html`<span title=${count(value)}>${shortCount(value)}</span>`
  return {
    group: 'Total',
    calls:
      href === undefined ? calls : html`<a href=${href} data-figure=${totals.calls}>${calls}</a>`,
    failed: callShare(totals.errors, totals.calls),
    ...Object.fromEntries(
      QUANTITIES.map(({ key }) => [key, quantity(totals[key] as number | null)]),
    ),
    cost: html`<${Money} usd=${totals.cost_usd} decimals=${decimals} />`,
  }
}

function seriesOf(rows: readonly UsageRow[], hidden: readonly string[]): PlotProps['series'] {
  const shown = rows.length > MOST_SERIES ? rows.slice(0, MOST_SERIES - 1) : rows
  const rest = rows.slice(shown.length)
  const named = shown.map(({ name, values }) => ({
    label: name,
    values,
    hidden: hidden.includes(name),
  }))
  if (rest.length === 0) return named
  const values = rest[0]!.values.map((_, step) => {
    const numbers = rest.flatMap((row) => row.values[step] ?? [])
    return numbers.length === 0 ? null : numbers.reduce((sum, one) => sum + one, 0)
  })
  const label = `Other (${rest.length})`
  return [...named, { label, values, hidden: hidden.includes(label) }]
}

function written(value: number, metric: Metric): string {
  return metric === 'cost_usd' ? money(plainDecimal(String(value))) : shortCount(value)
}

/** Labels of the axis, all with the same number of decimals. */
function axisOf(values: readonly number[], metric: Metric): string[] {
  if (metric !== 'cost_usd') return values.map((value) => shortCount(Number(value.toPrecision(6))))
  const texts = values.map((value) => plainDecimal(String(Number(value.toPrecision(6)))))
  const decimals = Math.max(...texts.map((text) => text.split('.')[1]?.length ?? 0))
  return texts.map((text) => columnMoney(text, decimals === 1 ? 2 : decimals))
}

function stepName(seconds: number, rollup: Rollup): string {
  const text = new Date(seconds * 1000).toISOString()
  if (rollup === 'month') return text.slice(0, 7)
  return rollup === 'day' ? text.slice(0, 10) : `${text.slice(0, 10)} ${text.slice(11, 16)}`
}

function isoOf(ms: number, rollup: Rollup): string {
  const text = new Date(ms).toISOString()
  return rollup === 'hour' ? text : text.slice(0, 10)
}

// Whether the shown cost equals the ledger's: below every figure about money that comes from the index of usage.

/** @param cost null where the figures are none of the ledger's */
function Proof({
  ledger,
  cost,
  indexed,
}: {
  readonly ledger: Agreement & { readonly cost_usd: Usd | null }
  readonly cost: Usd | null
  /** The indexed share, 0 to 1. */
  readonly indexed: number
}) {
  if (cost === null) {
    return html`<p class="proof muted">
      These figures come from the request log, which has no amounts: there is nothing to compare
      with the ledger.
    </p>`
  }
  return html`<div class="proof">
    ${
      ledger.agrees === true
        ? html`<p class="ok">
            ✓ Equals the ledger: <${Money} usd=${ledger.cost_usd} exact />
            <span class="muted"> (checked <${Time} at=${ledger.as_of} />)</span>
          </p>`
        : ledger.agrees === null
          ? html`<p class="muted">
              ○ Being read from the ledger: ${percentOf(indexed)}. The figures are not complete yet.
            </p>`
          : html`<p class="bad">
                ✕ Differs from the ledger, which says <${Money} usd=${ledger.cost_usd} exact />
                ${' '}(checked <${Time} at=${ledger.as_of} />). The accounts concerned are read again;
                see <a href="/console/settings/gateways">gateways</a>.
              </p>
              <${Differences} of=${ledger.differences} />`
    }
    <details>
      <summary>What does this compare?</summary>
      <p class="prose">
        The ledger charges every call and keeps, independently of this page, what each key has spent
        and what each account has left. These tables are made by reading its entries one by one, each
        of them once. For every account in the answer, all that was ever read is compared with those
        sums. If one of them differed by the smallest amount, this line would say so and name the key.
      </p>
    </details>
  </div>`
}

// The question about usage that the address asks, and the addresses of the answers behind a figure.

const STANDARD = '-30d'
/** Groups shown by themselves where the address has no number, and by how many more a link shows. */
const USUAL_TOP = 20

const METRICS: Readonly<Record<string, string>> = {
  cost_usd: 'Cost',
  calls: 'Calls',
  prompt_tokens: 'Prompt tokens',
  cached_tokens: 'Cached tokens',
  cache_write_tokens: 'Cache writes',
  completion_tokens: 'Completion tokens',
  reasoning_tokens: 'Reasoning tokens',
  images: 'Images',
  pages: 'Pages',
  seconds: 'Seconds of sound',
  characters: 'Characters',
  searches: 'Searches',
  search_units: 'Search units',
  errors: 'Failed calls',
  refused: 'Refused calls',
  blocked: 'Blocked calls',
}
/** Spans of time; '' leaves the choice to the gateway. */
const ROLLUPS: Readonly<Record<string, string>> = {
  '': 'day or hour',
  hour: 'hour',
  day: 'day',
  month: 'month',
}

/** Groups of calls, and the parts that a group leads to. */
const GROUPS: Readonly<Record<string, { readonly label: string; readonly within: string }>> = {
  model: { label: 'Model', within: 'key' },
  account: { label: 'Account', within: 'key' },
  team: { label: 'Team', within: 'key' },
  key: { label: 'Key', within: 'model' },
  deployment: { label: 'Deployment', within: 'model' },
  endpoint: { label: 'Endpoint', within: 'model' },
  outcome: { label: 'Outcome', within: 'model' },
  tag: { label: 'Tag', within: 'key' },
  user: { label: 'User', within: 'key' },
  code: { label: 'Error code', within: 'key' },
  limit: { label: 'Limit', within: 'key' },
}
/** Groups that only the request log has: no amounts. */
const CIRCUMSTANCES = ['code', 'limit']
const LABELS = ['tag', 'user']
/** Groups whose members are too many to be typed. */
const CHOSEN = ['account', 'team', 'key', 'model', 'deployment'] as const
const FILTERS: readonly Filter[] = Object.entries(GROUPS).map(([name, { label }]) => {
  const chooses = CHOSEN.find((one) => one === name)
  return { name, label: label.toLowerCase(), ...(chooses && { chooses }) }
})
/** Names of the filters in the list of requests; it has no filter for the others. */
const IN_REQUESTS: Readonly<Record<string, string>> = {
  account: 'account',
  team: 'team',
  key: 'key',
  model: 'model',
  deployment: 'deployment',
  endpoint: 'endpoint',
  outcome: 'outcome',
  code: 'code',
  limit: 'limited_by',
  tag: 'tag',
  user: 'user',
}

interface Question {
  readonly group: readonly string[]
  readonly metric: Metric
  readonly rollup: string
  readonly top: number
  /** A second group of the address that is not kept together with the first. */
  readonly without?: string
}

/** Reads the address; the usual values replace missing and invalid ones. */
function questionOf(query: URLSearchParams): Question {
  const [first = '', second = ''] = (query.get('group') ?? 'model')
    .split(',')
    .filter((name) => name in GROUPS)
  const group = [first, fits(first, second) ? second : ''].filter(Boolean)
  const usual = group.some((name) => CIRCUMSTANCES.includes(name)) ? 'calls' : 'cost_usd'
  const metric = query.get('metric') ?? usual
  return {
    group,
    metric: (metric in METRICS ? metric : usual) as Metric,
    rollup: query.get('rollup') ?? '',
    top: Number(query.get('top')) || USUAL_TOP,
    ...(second !== '' && group.length < 2 && { without: second }),
  }
}

function fits(one: string, other: string): boolean {
  if (one === other || other === '') return other === ''
  const [first, second] = [one, other].map((name) =>
    LABELS.includes(name) ? 'label' : CIRCUMSTANCES.includes(name) ? 'circumstance' : name,
  )
  if (first === 'label') return second === 'key' || second === 'account'
  if (second === 'label') return first === 'key' || first === 'account'
  const settled = ['deployment', 'outcome']
  if (first === 'circumstance') return !settled.includes(second!)
  return second !== 'circumstance' || !settled.includes(first!)
}

function pathOf(query: URLSearchParams, { group, metric, rollup, top }: Question, now: number) {
  const { from, to } = spanOf(query, STANDARD, now)
  const parameters = new URLSearchParams({ metric, top: String(top) })
  if (group.length > 0) parameters.set('group', group.join())
  if (rollup !== '') parameters.set('rollup', rollup)
  if (from) parameters.set('from', from)
  if (to) parameters.set('to', to)
  for (const { name } of FILTERS)
    for (const value of query.getAll(name)) parameters.append(name, value)
  return withQuery('/admin/usage', parameters)
}

function csvOf(path: string): string {
  return `${path}&format=csv`
}

/**
 * The address of the list of the calls that are counted here, with filters and the range as it was counted.
 * @param more the values of the groups; undefined for all of them
 */
function requestsHref(
  more: Readonly<Record<string, string | undefined>>,
  range: UsageAnswer['range'] | undefined,
): string | undefined {
  const { query } = place.value
  const parameters = new URLSearchParams({ ...range })
  const filters = [...query].filter(([name]) => name in GROUPS && !(name in more))
  const all = [...filters, ...Object.entries(more)]
  for (const [name, value] of all) {
    if (!(name in IN_REQUESTS)) return undefined
    if (value !== undefined) parameters.append(IN_REQUESTS[name]!, value)
  }
  // Circumstances are known of every call with a key, and all else of those that were charged.
  const isOfLog = all.some(([name]) => CIRCUMSTANCES.includes(name))
  parameters.set(isOfLog ? 'keyed' : 'charged', 'true')
  return withQuery('/console/requests', parameters)
}
