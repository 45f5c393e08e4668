/** Guard: what policies blocked or would have blocked, by key and day, and the decisions themselves. */
import { useMemo, useState } from 'preact/hooks'
import { useAnswer, usePages, withQuery } from '../api.ts'
import type { ShownCall, RequestContent } from '../answers.ts'
import { count, duration, shortId } from '../format.ts'
import { html } from '../html.ts'
import { Spark } from '../parts/bar.ts'
import { Button } from '../parts/button.ts'
import { Counted, Time } from '../parts/facts.ts'
import { Filters, isFiltered, type Filter } from '../parts/filters.ts'
import { Heads } from '../parts/heads.ts'
import { Panel } from '../parts/panel.ts'
import { Range, spanOf } from '../parts/range.ts'
import { Answered, Empty, Failure } from '../parts/states.ts'
import { Table, type Column } from '../parts/table.ts'
import { place } from '../state.ts'
import { CALL_COLUMNS } from './outcome.ts'
import type { GuardAnswer } from '../../server/admin/resources/guard.ts'
import { LazyPlot } from '../parts/lazy.ts'
import type { Series } from '../parts/plot.ts'
import { Sheet } from '../parts/sheet.ts'
import { ContentOf, contentPath } from './content.ts'

const DAY_MS = 86_400_000
const MOST_KEYS = 50
const STANDARD = '-7d'
const OUTCOMES = ['blocked', 'monitored', 'error']
const FILTERS: readonly Filter[] = [
  { name: 'guard', label: 'decision', values: OUTCOMES },
  { name: 'key', label: 'key', chooses: 'key' },
  { name: 'account', label: 'account', chooses: 'account' },
  { name: 'model', label: 'model', chooses: 'model' },
]
const WORDS: Readonly<Record<string, string>> = {
  blocked: '■ blocked',
  monitored: '□ monitored',
  error: '! could not check',
}

const COLUMNS: readonly Column<ShownCall>[] = [
  CALL_COLUMNS.at,
  {
    key: 'guard',
    label: 'Decision',
    cell: ({ guard }) =>
      html`<span class=${guard?.outcome === 'monitored' ? '' : 'warn'}
        >${WORDS[guard?.outcome ?? ''] ?? guard?.outcome}</span
      >`,
    phone: 'figure',
  },
  {
    key: 'rules',
    label: 'Rules',
    cell: ({ guard }) => guard?.rules.join(', ') || 'none',
    title: ({ guard }) => guard?.rules.join('\n'),
    phone: 'rest',
    long: true,
  },
  {
    key: 'key',
    label: 'Key',
    cell: ({ account_id, key_id, key_name }) =>
      html`<span class="muted">${account_id}/</span><bdi title=${key_id}>${key_name ?? (key_id && shortId(key_id, 20))}</bdi>`,
    phone: 'rest',
    long: true,
  },
  CALL_COLUMNS.model,
]

export function Guard() {
  const { query } = place.value
  const paths = useMemo(() => pathsOf(query, Date.now()), [query.toString()])
  const sums = useAnswer<{ data: GuardAnswer }>(paths.sums)
  const list = usePages<ShownCall>(paths.requests)
  const [reviewing, setReviewing] = useState(false)
  const isEmpty = !list.loading && !list.error && list.rows.length === 0
  return html`<div class="screen">
    <header class="screen-head">
      <h1>Guard</h1>
      <${Range} standard=${STANDARD} />
      <${Filters} filters=${FILTERS} />
    </header>
    <${Answered} of=${sums} lines=${4}>
      ${({ data }: { data: GuardAnswer }) => html`<${Decisions} data=${data} model=${query.getAll('model').join(', ')} />`}
    <//>
    <section class="stack">
      <header class="screen-head">
        <h2>Decisions</h2>
        ${list.rows.length > 0 && html`<${Button} right="contents" onClick=${() => setReviewing(true)}>Review…<//>`}
      </header>
      ${reviewing && html`<${Review} rows=${list.rows} onClose=${() => setReviewing(false)} />`}
      ${list.error && html`<${Failure} error=${list.error} onRetry=${list.reload} keptAt=${list.at} />`}
      ${
        isEmpty
          ? html`<${Empty}
              title=${isFiltered(FILTERS) ? 'No decisions match.' : 'Nothing was blocked or monitored.'}
            >
              <p class="muted">
                Calls that a policy blocks, or would block in the mode <code>monitor</code>, are
                listed here with the rules that did it.
              </p>
              <a href="/console/keys?policy=any">Keys with a policy</a>
            <//>`
          : html`<${Table}
              name="guard"
              caption="Decisions of guards, newest first"
              columns=${COLUMNS}
              rows=${list.rows}
              idOf=${({ id }: ShownCall) => id}
              hrefOf=${({ id }: ShownCall) => `/console/requests?open=${id}`}
              loading=${list.loading}
            />`
      }
      ${
        list.next !== null &&
        html`<p class="more">
          ${list.searchedTo ? html`<span class="muted">searched back to <${Time} at=${list.searchedTo} /></span>` : null}
          <${Button} busy=${list.loadingMore} onClick=${list.more}>Older<//>
        </p>`
      }
    </section>
  </div>`
}

/** Sums of decisions. They are kept by rule, key and account: of one model there are none. @param model the filter, empty for all */
function Decisions({ data, model }: { readonly data: GuardAnswer; readonly model: string }) {
  if (model !== '')
    return html`<div class="stack">
      <p class="muted">
        Decisions are not counted by model: the sums by rule and by key are left out. The list below has
        those about ${model}, as far back as calls are kept.
      </p>
      <${Guards} data=${data} />
    </div>`
  const days = daysOf(data.range)
  const byDay = Map.groupBy(data.decisions, idOf)
  const ofRules = data.rules.filter(({ rule }) => rule !== '')
  const all = data.rules.filter(({ rule }) => rule === '')
  const rules = ofRules.map((one) => {
    const cells = byDay.get(idOf(one)) ?? []
    return {
      ...one,
      label: [one.rule, one.side, one.outcome].join(', '),
      values: days.map((day) => sumOf(cells.filter((cell) => cell.day === day))),
    }
  })
  return html`<div class="stack">
    ${rules.length > 0 && html`<${GuardPlot} rules=${rules} days=${days} />`}
    <p class="muted">
      ${all.length === 0 ? 'No call passed. ' : all.map((one) => html`<${Counted} value=${one.calls} where=${one.where} /> ${one.calls === 1 ? 'call' : 'calls'} ${one.outcome === 'error' ? html`<span class="warn">could not be checked</span>` : 'passed'} in the mode ${one.mode}. `)}
      Counted by this gateway, in UTC days.
    </p>
    <div class="halves">
      <${Panel} title="By rule">
        ${
          rules.length === 0
            ? html`<p class="muted">No rule was violated in this range.</p>`
            : html`<table class="plain stacked">
                <${Heads} names=${['Rule', 'Side', 'Decision', 'Calls', 'Trend']} end=${['Calls']} />
                <tbody>
                  ${rules.map(
                    (one, place) =>
                      html`<tr key=${idOf(one)}>
                        <th scope="row" class="mono"><i class=${swatchOf(place)} aria-hidden="true"></i>${one.rule}</th>
                        <td class="muted whole">${one.side}</td>
                        <td class="whole"><${Became} decision=${one} /></td>
                        <td class="end" data-label="calls"><${Counted} value=${one.calls} where=${one.where} /></td>
                        <td class="wide-only">
                          <${Spark}
                            values=${one.values}
                            label=${`Calls by day that violated ${one.rule}`}
                          />
                        </td>
                      </tr>`,
                  )}
                </tbody>
              </table>`
        }
      <//>
      <${Panel} title="By key">
        ${
          data.keys.length === 0
            ? html`<p class="muted">No key violated a rule in this range.</p>`
            : html`<table class="plain stacked">
                <${Heads} names=${['Key', 'Rule', 'Side', 'Decision', 'Calls']} end=${['Calls']} />
                <tbody>
                  ${data.keys.slice(0, MOST_KEYS).map(
                    (one) =>
                      html`<tr key=${`${one.key_id} ${idOf(one)}`}>
                        <th scope="row">
                          <a href=${`/console/keys/${encodeURIComponent(one.key_id)}/policy`} title=${one.key_id}
                            ><bdi>${one.key_name ?? shortId(one.key_id, 20)}</bdi></a
                          >
                        </th>
                        <td class="mono whole">${one.rule}</td>
                        <td class="muted whole">${one.side}</td>
                        <td class="whole"><${Became} decision=${one} /></td>
                        <td class="end" data-label="calls"><${Counted} value=${one.calls} where=${one.where} /></td>
                      </tr>`,
                  )}
                </tbody>
              </table>`
        }
      <//>
    </div>
    <${Guards} data=${data} />
  </div>`
}

function Guards({ data }: { readonly data: GuardAnswer }) {
  return html`<${Panel} title="Guards">
      <table class="plain stacked">
        <${Heads} names=${['Guard', 'Runs', 'Circuit', 'Errors', 'p50 / p95']} end=${['Errors', 'p50 / p95']} />
        <tbody>
          ${data.guards.map(
            ({ guard, execution, mode, circuits, errors, latency }) =>
              html`<tr key=${guard}>
                <th scope="row" class="mono">${guard}</th>
                <td>${execution}${mode ? `, ${mode}` : ''}</td>
                <td data-label="circuit"><${Circuits} circuits=${circuits} /></td>
                <td class="end" data-label="errors">${count(errors.reduce((sum, one) => sum + one.count, 0))}</td>
                <td class="end" data-label="p50 / p95">
                  ${latency.map(({ side, p50_ms, p95_ms }) => `${side} ${duration(p50_ms)} / ${duration(p95_ms)}`).join(', ') || 'not asked elsewhere'}
                </td>
              </tr>`,
          )}
        </tbody>
      </table>
    <//>`
}

type Decision = Omit<GuardAnswer['decisions'][number], 'day' | 'calls'>

function Became({ decision: { outcome, mode } }: { readonly decision: Decision }) {
  const isSeen = outcome === 'seen'
  return html`<span class=${isSeen ? '' : 'warn'} title=${`mode ${mode}`}
    >${isSeen ? '□' : '■'} ${outcome}</span
  >`
}

function Circuits({ circuits }: { readonly circuits: GuardAnswer['guards'][number]['circuits'] }) {
  const open = circuits.filter(({ state }) => state !== 'closed')
  if (open.length === 0) return html`<span class="ok">● closed</span>`
  return html`<span class="warn">○ ${open.map(({ state, origin }) => `${state} (${origin})`).join(', ')}</span>`
}

function idOf({ rule, mode, side, outcome }: Decision): string {
  return [rule, mode, side, outcome].join(' ')
}

function sumOf(cells: readonly { readonly calls: number }[]): number {
  return cells.reduce((sum, { calls }) => sum + calls, 0)
}

function daysOf({ from, to }: GuardAnswer['range']): string[] {
  const days: string[] = []
  const end = Date.parse(to)
  for (let at = Date.parse(from.slice(0, 10)); at < end; at += DAY_MS) {
    days.push(new Date(at).toISOString().slice(0, 10))
  }
  return days
}

function pathsOf(query: URLSearchParams, now: number) {
  const { from, to } = spanOf(query, STANDARD, now)
  const shared = new URLSearchParams()
  if (from) shared.set('from', from)
  if (to) shared.set('to', to)
  for (const name of ['key', 'account', 'model']) {
    for (const value of query.getAll(name)) shared.append(name, value)
  }
  const sums = new URLSearchParams([...shared].filter(([name]) => name !== 'model'))
  const chosen = query.getAll('guard')
  const outcomes = chosen.length > 0 ? chosen : OUTCOMES
  const requests = new URLSearchParams([
    ...shared,
    ...outcomes.map((outcome) => ['guard', outcome]),
  ])
  return {
    sums: withQuery('/admin/guard', sums),
    requests: withQuery('/admin/requests', requests),
  }
}

// Violations by day: monitored ones beside those that were blocked.

/** One rule, the effect of its violations, and their number on each day. */
interface Violations {
  readonly label: string
  readonly values: readonly number[]
}

/** The number of series of their own; the eighth has the others. */
const MOST_SERIES = 7

/** The class of a rule's colour. @param place the index among all rules */
function swatchOf(place: number): string {
  return `swatch s${Math.min(MOST_SERIES, place) + 1}`
}

/** Stacked bars. The table below is the legend. */
function GuardPlot({
  rules,
  days,
}: {
  readonly rules: readonly Violations[]
  readonly days: readonly string[]
}) {
  const key = JSON.stringify([rules, days])
  const times = useMemo(() => days.map((day) => Date.parse(day) / 1000), [key])
  const series = useMemo(() => seriesOf(rules, days), [key])
  return html`<section class="panel"><div class="panel-body">
    <${LazyPlot}
      times=${times}
      series=${series}
      kind="bars"
      format=${count}
      formatAxis=${(values: readonly number[]) => values.map((value) => (Number.isInteger(value) ? count(value) : ''))}
      formatTime=${(seconds: number) => new Date(seconds * 1000).toISOString().slice(0, 10)}
      label="Calls by day that violated a rule, UTC; the table below has them by rule"
    />
  </div></section>`
}

function seriesOf(rules: readonly Violations[], days: readonly string[]): Series[] {
  const shown = rules.slice(0, MOST_SERIES)
  const others = rules.slice(MOST_SERIES)
  if (others.length === 0) return [...shown]
  const values = days.map((_, day) => others.reduce((sum, one) => sum + one.values[day]!, 0))
  return [...shown, { label: 'Other', values }]
}

// Judges decisions of guards by the contents of their calls. The judgements stay in the page until they are exported.

/** A text, and the verdict expected of a policy: a line of the file that `policy test --cases` reads. */
interface Case {
  readonly side: string
  readonly text: string
  readonly rule: string
  readonly expected: 'block' | 'pass'
}

function Review({
  rows,
  onClose,
}: {
  readonly rows: readonly ShownCall[]
  readonly onClose: () => void
}) {
  const [at, setAt] = useState(0)
  const [cases, setCases] = useState<ReadonlyMap<string, Case>>(new Map())
  const row = rows[at]!
  const answer = useAnswer<{ data: RequestContent }>(contentPath(row.id))
  const isMissing = answer.error?.status === 404
  return html`<${Sheet}
    title=${`Review, ${count(at + 1)} of ${count(rows.length)}`}
    onClose=${onClose}
    actions=${html`<div class="actions">
      <${Button} onClick=${() => setAt(Math.max(0, at - 1))}>Previous<//>
      <${Button} onClick=${() => setAt(Math.min(rows.length - 1, at + 1))}>Next<//>
      <${Button} kind="primary" title="Lines of JSON for policy test --cases" onClick=${() => save(cases)}
        >Export ${count(cases.size)}<//
      >
    </div>`}
  >
    <p class="mono">${row.id}</p>
    ${
      isMissing
        ? html`<p class="muted">The content of this call is not kept.</p>`
        : html`<${Answered} of=${answer}>
            ${({ data }: { data: RequestContent }) =>
              html`<div class="stack">
                ${data.decided.map((one) => {
                  const id = [data.id, one.side, one.rule].join()
                  const judge = (expected: Case['expected']) =>
                    setCases(new Map([...cases, [id, { ...textOf(data, one), expected }]]))
                  return html`<fieldset key=${id} class="actions">
                    <legend>${one.side}: ${one.rule}, ${one.outcome}</legend>
                    ${(['block', 'pass'] as const).map(
                      (expected) =>
                        html`<label class="check"
                          ><input
                            type="radio"
                            name=${id}
                            checked=${cases.get(id)?.expected === expected}
                            onChange=${() => judge(expected)}
                          />${expected === 'block' ? 'right' : 'wrong'}</label
                        >`,
                    )}
                  </fieldset>`
                })}
                <${ContentOf} content=${data} />
              </div>`}
          <//>`
    }
  <//>`
}

/** The judged text: the last message, or the answer. Of a refused answer only the part before the refusal is known. */
function textOf(
  { input, output }: RequestContent,
  { side, rule }: RequestContent['decided'][number],
): Pick<Case, 'side' | 'text' | 'rule'> {
  const last = input.messages?.at(-1)?.content ?? input
  const question = Array.isArray(last)
    ? last.map((part: { readonly text?: string }) => part.text ?? '').join('')
    : typeof last === 'string'
      ? last
      : JSON.stringify(last)
  const text = side === 'input' ? question : output.map((one) => one.text).join('\n')
  return { side, text, rule }
}

function save(cases: ReadonlyMap<string, Case>): void {
  const lines = [...cases.values()].map((one) => `${JSON.stringify(one)}\n`)
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob(lines, { type: 'application/jsonl' }))
  link.download = 'cases.jsonl'
  link.click()
  URL.revokeObjectURL(link.href)
}
