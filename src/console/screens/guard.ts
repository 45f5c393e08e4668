/** Guard: what policies blocked or would have blocked, by key and day, and the decisions themselves. */
import { useMemo } from 'preact/hooks'
import { useAnswer, usePages, withQuery } from '../api.ts'
import type { RequestRow } from '../answers.ts'
import type { UsageAnswer } from '../answers-reports.ts'
import { count, percent, shortId } from '../format.ts'
import { html } from '../html.ts'
import { Spark } from '../parts/bar.ts'
import { Button } from '../parts/button.ts'
import { Time } from '../parts/facts.ts'
import { Filters, isFiltered, type Filter } from '../parts/filters.ts'
import { Panel } from '../parts/panel.ts'
import { Range, spanOf } from '../parts/range.ts'
import { Answered, Empty, Failure } from '../parts/states.ts'
import { Table, type Column } from '../parts/table.ts'
import { place } from '../state.ts'
import { usageTable, type UsageRow } from './usage-rows.ts'

const STANDARD = '-7d'
const OUTCOMES = ['blocked', 'monitored', 'error']
const FILTERS: readonly Filter[] = [
  { name: 'guard', label: 'decision', values: OUTCOMES },
  { name: 'key', label: 'key', placeholder: 'id of a key' },
  { name: 'account', label: 'account', placeholder: 'id of an account' },
  { name: 'model', label: 'model', placeholder: 'id of a model' },
]
const WORDS: Readonly<Record<string, string>> = {
  blocked: '■ blocked',
  monitored: '□ monitored',
  error: '! could not check',
}

const COLUMNS: readonly Column<RequestRow>[] = [
  { key: 'at', label: 'Time', cell: ({ at }) => html`<${Time} at=${at} />` },
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
    cell: ({ guard }) => guard?.rules.join(', ') || '–',
    title: ({ guard }) => guard?.rules.join('\n'),
    phone: 'rest',
  },
  {
    key: 'key',
    label: 'Key',
    cell: ({ account_id, key_id }) =>
      html`<span class="muted">${account_id}/</span>${key_id && shortId(key_id, 20)}`,
    phone: 'rest',
  },
  { key: 'model', label: 'Model', cell: ({ model }) => model ?? '–', phone: 'rest' },
]

/** The screen. */
export function Guard() {
  const { query } = place.value
  const paths = useMemo(() => pathsOf(query, Date.now()), [query.toString()])
  const usage = useAnswer<UsageAnswer>(paths.usage)
  const list = usePages<RequestRow>(paths.requests)
  const isEmpty = !list.loading && !list.error && list.rows.length === 0
  return html`<div class="screen">
    <header class="screen-head">
      <h1>Guard</h1>
      <${Range} standard=${STANDARD} />
      <${Filters} filters=${FILTERS} />
    </header>
    <${Answered} of=${usage} lines=${4}>
      ${(answer: UsageAnswer) => html`<${ByKey} answer=${answer} />`}
    <//>
    <section class="stack">
      <h2>Decisions</h2>
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
              idOf=${({ id }: RequestRow) => id}
              hrefOf=${({ id }: RequestRow) => `/console/requests?open=${id}`}
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

/** Blocked calls of each key. */
function ByKey({ answer }: { readonly answer: UsageAnswer }) {
  const { rows } = usageTable(answer, 'blocked')
  const blocked = rows.filter(({ sums }) => (sums.blocked ?? 0) > 0)
  const requests = (key: string) => {
    const { query } = place.value
    const asked = new URLSearchParams({
      key,
      guard: 'blocked',
      from: query.get('from') ?? STANDARD,
    })
    const to = query.get('to')
    if (to !== null) asked.set('to', to)
    return withQuery('/console/requests', asked)
  }
  return html`<${Panel} title=${`Blocked calls: ${count(answer.totals.blocked ?? 0)}`}>
    ${
      blocked.length === 0
        ? html`<p class="muted">No call was blocked in this range.</p>`
        : html`<table class="compact">
            <thead>
              <tr>
                <th scope="col">Key</th>
                <th scope="col" class="end">Blocked</th>
                <th scope="col" class="end">Of its calls</th>
                <th scope="col">Trend</th>
              </tr>
            </thead>
            <tbody>
              ${blocked.map(
                ({ group, name, sums, values }: UsageRow) =>
                  html`<tr key=${name}>
                    <th scope="row">
                      ${
                        group?.[0]
                          ? html`<a class="mono" href=${`/console/keys/${group[0]}/policy`}>${name}</a>`
                          : name
                      }
                    </th>
                    <td class="end">
                      ${group?.[0] ? html`<a href=${requests(group[0])}>${count(sums.blocked)}</a>` : count(sums.blocked)}
                    </td>
                    <td class="end">${percent(sums.blocked, sums.calls)}</td>
                    <td><${Spark} values=${values} label=${`Blocked calls of ${name}`} /></td>
                  </tr>`,
              )}
            </tbody>
          </table>`
    }
  <//>`
}

function pathsOf(query: URLSearchParams, now: number) {
  const { from, to } = spanOf(query, STANDARD, now)
  const shared = new URLSearchParams()
  if (from) shared.set('from', from)
  if (to) shared.set('to', to)
  for (const name of ['key', 'account', 'model']) {
    for (const value of query.getAll(name)) shared.append(name, value)
  }
  const usage = new URLSearchParams([...shared, ['group', 'key'], ['metric', 'blocked']])
  const chosen = query.getAll('guard')
  const outcomes = chosen.length > 0 ? chosen : OUTCOMES
  const requests = new URLSearchParams([
    ...shared,
    ...outcomes.map((outcome) => ['guard', outcome]),
  ])
  return {
    usage: withQuery('/admin/usage', usage),
    requests: withQuery('/admin/requests', requests),
  }
}
