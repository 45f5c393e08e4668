/** Overview: is the gateway healthy, and what does it cost right now. */
import { useEffect } from 'preact/hooks'
import { to, useAnswer } from '../api.ts'
import type { ShownCall, Overview as OverviewData, UsageTotals } from '../answers.ts'
import { useEvents } from '../events.ts'
import {
  count,
  duration,
  wholeDecimals,
  MISSING,
  callShare,
  percentOf,
  ratio,
  shortCount,
  shortId,
} from '../format.ts'
import { html, type Content } from '../html.ts'
import { Bar, Spark } from '../parts/bar.ts'
import { Counted, Money, Tile, Time } from '../parts/facts.ts'
import { Heads } from '../parts/heads.ts'
import { Panel } from '../parts/panel.ts'
import { Answered, Notice } from '../parts/states.ts'
import { Incidents } from './incidents.ts'
import { EndCall } from './outcome.ts'
import { limitText } from '../text.ts'
import { allows, go, preferences, session } from '../state.ts'

const EVERY_MS = 5000
const HOUR_MS = 3_600_000
const HOURS = 24
const LAST_DAY = 'from=-24h'
const DAY_MS = 86_400_000

export function Overview() {
  const answer = useAnswer<{ data: OverviewData }>('/admin/overview', { every: EVERY_MS })
  useEvents('/admin/events?type=health&type=alert', ['health', 'alert'], answer.reload)
  return html`<div class="screen">
    <header class="screen-head"><h1>Overview</h1></header>
    <${Answered} of=${answer} lines=${12}>
      ${({ data }: { data: OverviewData }) => html`<${Now} overview=${data} onChange=${answer.reload} />`}
    <//>
  </div>`
}

function Now({
  overview,
  onChange,
}: {
  readonly overview: OverviewData
  readonly onChange: () => void
}) {
  const { setup } = overview
  const isNew = setup.vendors.length === 0 && !session.value?.demo && allows('config')
  const isGuided = isNew && !preferences.value.started
  useEffect(() => {
    if (isGuided) go('/console/start', { replace: true })
  }, [isGuided])
  return html`<div class="stack">
    ${
      overview.today === null &&
      html`<${Notice}>
        There are no figures of calls and costs: <code>log.usage</code> is false in the
        configuration.
      <//>`
    }
    ${isNew && html`<${Notice}>No vendor is set up yet. <a href="/console/start">Begin with its key</a><//>`}
    <${Incidents} overview=${overview} onChange=${onChange} />
    ${overview.today && html`<${Tiles} overview=${overview} today=${overview.today} />`}
    <div class="halves">
      <${Running} overview=${overview} />
      ${overview.today && html`<${Refusals} overview=${overview} /><${Models} overview=${overview} />`}
    </div>
    <${Books} overview=${overview} />
  </div>`
}

/** Today beside the same hours of yesterday; the lines are the last 24 hours. */
function Tiles({
  overview,
  today,
}: {
  readonly overview: OverviewData
  readonly today: UsageTotals
}) {
  const before = overview.yesterday
  const hours = hoursOf(overview)
  const line = (
    label: string,
    value: (hour: UsageTotals) => number | null,
    idle: number | null = 0,
  ) =>
    html`<${Spark}
      values=${hours.map((hour) => (hour ? value(hour) : idle))}
      label=${`${label} in each of the last 24 hours`}
    />`
  const share = (part: number | null, whole: number | null) =>
    part !== null && whole ? part / whole : null
  const spent = Number(today.cost_usd ?? 0)
  const failed = share(today.errors, today.calls)
  const failedBefore = share(before?.errors ?? null, before?.calls ?? null)
  // They are counted from midnight on.
  const from = `${overview.as_of.slice(0, 10)}T00:00:00Z`
  return html`<section class="tiles" aria-label="Today, UTC">
    <${Tile}
      label="Spend today"
      href=${`/console/usage?from=${from}`}
      note=${html`${change(spent, Number(before?.cost_usd ?? 0))}
      ${line('Spend', (hour) => Number(hour.cost_usd))}`}
      ><${Money} usd=${today.cost_usd} /><//
    >
    <${Tile}
      label="Calls today"
      href=${to.requests({ from, charged: 'true' })}
      counted=${today.calls}
      note=${html`${change(today.calls ?? 0, before?.calls ?? 0)}
      ${line('Calls', (hour) => hour.calls)}`}
      ><span title=${count(today.calls)}>${shortCount(today.calls)}</span><//
    >
    <${Tile}
      label="Failed today"
      href=${to.requests({ from, keyed: 'true', outcome: 'failed', end: ['blocked', 'rejected', 'failed'] })}
      counted=${today.errors}
      note=${html`<span
          >${failed === null || failedBefore === null ? (today.errors === null ? '' : `${count(today.errors)} calls`) : `${percentOf(failedBefore)} yesterday`}</span
        >
        ${line('Failed calls', (hour) => hour.errors)}`}
      >${callShare(today.errors, today.calls)}<//
    >
    <${Tile}
      label="First token, p50"
      href=${to.requests({ from, stream: 'true' })}
      note=${html`<span title="Both are read off the bounds of a histogram"
          >p95 ≈ ${duration(today.first_part_p95_ms)}</span
        >
        ${line('First token, ms,', (hour) => hour.first_part_p50_ms, null)}`}
      >${duration(today.first_part_p50_ms)}<//
    >
    <${Tile}
      label="Prompt from cache"
      href=${`/console/usage?from=${from}&metric=cached_tokens`}
      note=${html`<span>${today.prompt_tokens === null ? '' : `of ${shortCount(today.prompt_tokens)} tokens`}</span> ${line(
        'Cached tokens',
        (hour) => hour.cached_tokens,
      )}`}
      >${cached(today)}<//
    >
  </section>`
}

function Running({ overview: { running, as_of } }: { readonly overview: OverviewData }) {
  const now = Date.parse(as_of)
  const seconds = (call: ShownCall) => duration(Math.max(0, now - Date.parse(call.at)))
  return html`<${Panel}
    title=${`Running now (${count(running.count)})`}
    more=${running.count > 0 && html`<a href="/console/requests?running=true">all</a>`}
  >
    ${
      running.calls.length === 0
        ? html`<p class="muted">No call is running.</p>`
        : html`<ul class="lines">
            ${running.calls.slice(0, 8).map(
              (call) =>
                html`<li key=${call.id}>
                  <span>
                    <a href=${`/console/requests?open=${call.id}`}>${call.model ?? call.endpoint}</a>
                    <span class="muted"> ${call.account_id}/<bdi>${call.key_name ?? call.key_id}</bdi> · ${seconds(call)}</span>
                  </span>
                  <${EndCall} id=${call.id} />
                </li>`,
            )}
          </ul>`
    }
  <//>`
}

function Refusals({ overview: { refused, as_of } }: { readonly overview: OverviewData }) {
  // They are counted in whole hours.
  const from = `${new Date(Date.parse(as_of) - DAY_MS).toISOString().slice(0, 13)}:00:00Z`
  return html`<${Panel} title="Refused by a limit, last 24 hours">
    ${
      refused.length === 0
        ? html`<p class="muted">No call was refused.</p>`
        : html`<table class="plain">
            <${Heads} names=${['Limit', 'Calls', 'Most by']} end=${['Calls']} />
            <tbody>
              ${refused.map(
                ({ limit, refused: calls, keys }) =>
                  html`<tr key=${limit}>
                    <th scope="row" title=${limit}>${limitText(limit)}</th>
                    <td class="end">
                      <${Counted} value=${calls} where=${{ from, limited_by: limit }} />
                    </td>
                    <td>
                      ${keys.map(
                        ({ key_id, key_name, refused: ofKey }) =>
                          html`<span key=${key_id} title=${key_id}
                            ><${Counted} value=${ofKey} where=${{ from, limited_by: limit, key: key_id }}
                              ><bdi>${key_id ? (key_name ?? shortId(key_id, 20)) : '(no key)'}</bdi>${' '}<//
                            ></span
                          >${' '}`,
                      )}
                    </td>
                  </tr>`,
              )}
            </tbody>
          </table>`
    }
  <//>`
}

function Models({ overview: { models } }: { readonly overview: OverviewData }) {
  const decimals = wholeDecimals(models.map((one) => one.cost_usd))
  const most = models[0]?.cost_usd ?? '0'
  return html`<${Panel}
    title="Spend by model, last 24 hours"
    more=${html`<a href=${`/console/usage?${LAST_DAY}`}>all</a>`}
  >
    ${
      models.length === 0
        ? html`<p class="muted">No call was charged.</p>`
        : html`<table class="plain bars">
            <thead class="hidden">
              <tr>
                <th scope="col">Model</th>
                <th scope="col">Cost</th>
                <th scope="col">Share</th>
              </tr>
            </thead>
            <tbody>
              ${models.map(
                ({ model, calls, cost_usd }) =>
                  html`<tr key=${model}>
                    <th scope="row">
                      ${
                        model === null
                          ? '(none)'
                          : html`<a
                              href=${`/console/usage?${LAST_DAY}&model=${encodeURIComponent(model)}&group=key`}
                              >${model}</a
                            >`
                      }
                    </th>
                    <td class="end" title=${`${count(calls)} calls`}>
                      <${Money} usd=${cost_usd} decimals=${decimals} />
                    </td>
                    <td class="wide-only">
                      <${Bar} share=${ratio(cost_usd, most)} label="in relation to the dearest" />
                    </td>
                  </tr>`,
              )}
            </tbody>
          </table>`
    }
  <//>`
}

/** One line about the ledger, charges that wait, the proof of usage and the log, which must not be wrong. */
function Books({ overview: { books, usage, log } }: { readonly overview: OverviewData }) {
  const dropped = Object.entries(log?.dropped ?? {}).filter(([, rows]) => rows > 0)
  const remarks: readonly Content[] = [
    books.ok
      ? html`<span class="ok">✓ The ledger is writing</span>`
      : html`<span class="bad">✕ The ledger cannot write</span>`,
    html`<span class=${books.outbox > 0 ? 'warn' : ''}
      >${books.outbox === 0 ? 'no charges wait' : `${count(books.outbox)} waiting charges`}${books.outbox > 0 ? `, oldest ${duration(books.oldest_ms)}` : ''}</span
    >`,
    usage &&
      (usage.agrees === true
        ? html`<span>usage agrees with the ledger (<${Time} at=${usage.as_of} />)</span>`
        : usage.agrees === null
          ? html`<span>usage is being read: ${percentOf(usage.indexed)}</span>`
          : html`<a class="bad" href="/console/settings/gateways"
              >✕ usage differs from the ledger in ${count(usage.differences)} places</a
            >`),
    log &&
      html`<span
        >${count(log.rows)} ${log.rows === 1 ? 'row' : 'rows'} in the request log since the start${
          dropped.length > 0
            ? html`,
                <span class="warn">
                  dropped: ${dropped.map(([why, rows]) => `${count(rows)} ${why}`).join(', ')}</span
                >`
            : ''
        }</span
      >`,
  ]
  return html`<p class="books">${remarks.filter(Boolean)}</p>`
}

function cached({ cached_tokens: part, prompt_tokens: whole }: UsageTotals): string {
  return part === null || !whole ? MISSING : percentOf(part / whole)
}

function change(now: number, before: number): Content {
  if (before === 0) return html`<span>none yesterday</span>`
  const by = (now - before) / before
  const sign = by > 0 ? '+' : by < 0 ? '\u2212' : '±'
  return html`<span title="in relation to the same hours of yesterday"
    >${sign}${percentOf(Math.abs(by))}</span
  >`
}

function hoursOf({ hours, as_of }: OverviewData): readonly (UsageTotals | undefined)[] {
  const byStart = new Map(hours.map((hour) => [Date.parse(hour.start), hour]))
  const now = Math.floor(Date.parse(as_of) / HOUR_MS) * HOUR_MS
  return Array.from({ length: HOURS }, (_, i) => byStart.get(now - (HOURS - 1 - i) * HOUR_MS))
}
