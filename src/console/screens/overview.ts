/** Overview: is the gateway healthy, and what does it cost right now. */
import { useRef } from 'preact/hooks'
import { signal } from '@preact/signals'
import { useAnswer } from '../api.ts'
import type { ShownCall, Overview as OverviewData, UsageTotals } from '../answers.ts'
import { useEvents } from '../events.ts'
import {
  count,
  duration,
  exactMoney,
  MISSING,
  money,
  callShare,
  percentOf,
  ratio,
  relative,
  shortCount,
  shortId,
} from '../format.ts'
import { html, type Content } from '../html.ts'
import { Bar, Spark } from '../parts/bar.ts'
import { Tile, Time } from '../parts/facts.ts'
import { Heads } from '../parts/heads.ts'
import { Panel } from '../parts/panel.ts'
import { Answered, Notice, Quiet } from '../parts/states.ts'
import { EndCall } from './outcome.ts'
import { Snippets } from '../parts/snippets.ts'

const EVERY_MS = 5000
const HOUR_MS = 3_600_000
const HOURS = 24
const LAST_DAY = 'from=-24h'

export function Overview() {
  const answer = useAnswer<{ data: OverviewData }>('/admin/overview', { every: EVERY_MS })
  useEvents('/admin/events?type=health&type=alert', ['health', 'alert'], answer.reload)
  return html`<div class="screen">
    <header class="screen-head"><h1>Overview</h1></header>
    <${Answered} of=${answer} lines=${12}>
      ${({ data }: { data: OverviewData }) => html`<${Now} overview=${data} />`}
    <//>
  </div>`
}

function Now({ overview }: { readonly overview: OverviewData }) {
  const isNew = overview.usage !== null && overview.hours.length === 0
  return html`<div class="stack">
    ${
      overview.today === null &&
      html`<${Notice}>
        There are no figures of calls and costs: <code>log.usage</code> is false in the
        configuration.
      <//>`
    }
    <${FirstSteps} shown=${isNew} called=${overview.hours.length > 0} />
    ${overview.today && html`<${Tiles} overview=${overview} today=${overview.today} />`}
    <div class="halves">
      <${Attention} overview=${overview} />
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
  return html`<section class="tiles" aria-label="Today, UTC">
    <${Tile}
      label="Spend today"
      href=${`/console/usage?${LAST_DAY}`}
      note=${html`${change(spent, Number(before?.cost_usd ?? 0))}
      ${line('Spend', (hour) => Number(hour.cost_usd))}`}
      ><span title=${exactMoney(today.cost_usd)}>${money(today.cost_usd)}</span><//
    >
    <${Tile}
      label="Calls today"
      href=${`/console/requests?${LAST_DAY}`}
      note=${html`${change(today.calls ?? 0, before?.calls ?? 0)}
      ${line('Calls', (hour) => hour.calls)}`}
      ><span title=${count(today.calls)}>${shortCount(today.calls)}</span><//
    >
    <${Tile}
      label="Failed today"
      href=${`/console/requests?${LAST_DAY}&outcome=failed`}
      note=${html`<span
          >${failed === null || failedBefore === null ? (today.errors === null ? '' : `${count(today.errors)} calls`) : `${percentOf(failedBefore)} yesterday`}</span
        >
        ${line('Failed calls', (hour) => hour.errors)}`}
      >${callShare(today.errors, today.calls)}<//
    >
    <${Tile}
      label="First part, p50"
      href=${`/console/requests?${LAST_DAY}&stream=true`}
      note=${html`<span title="Both are read off the bounds of a histogram"
          >p95 ≈ ${duration(today.first_part_p95_ms)}</span
        >
        ${line('First part, ms,', (hour) => hour.first_part_p50_ms, null)}`}
      >${duration(today.first_part_p50_ms)}<//
    >
    <${Tile}
      label="Prompt from cache"
      href=${`/console/usage?${LAST_DAY}&metric=cached_tokens`}
      note=${html`<span>${today.prompt_tokens === null ? '' : `of ${shortCount(today.prompt_tokens)} tokens`}</span> ${line(
        'Cached tokens',
        (hour) => hour.cached_tokens,
      )}`}
      >${cached(today)}<//
    >
  </section>`
}

/** What needs an operator: alerts, and deployments that are left out. */
function Attention({ overview }: { readonly overview: OverviewData }) {
  const { alerts, deployments, looked, as_of } = overview
  const now = Date.parse(as_of)
  const ago = (at: string | null | undefined) =>
    at ? html` <span class="muted"><${Ago} at=${at} now=${now} /></span>` : null
  return html`<${Panel} title="Needs attention">
    ${
      alerts.length + deployments.length === 0
        ? html`<${Quiet} looked=${looked} text="Nothing needs attention." />`
        : html`<ul class="lines">
            ${alerts.map(
              ({ id, kind, object, message, since }) =>
                html`<li key=${id}>
                  <span
                    ><b class="warn">! ${kind}</b> ${' '}${message ?? object ?? ''}${ago(since)}</span
                  >
                  <${WayTo} kind=${kind} object=${object} />
                </li>`,
            )}
            ${deployments.map(
              ({ deployment, model, state, since, last_failure }) =>
                html`<li key=${`${model}/${deployment}`}>
                  <span
                    ><b class="warn">${state === 'probing' ? '◐' : '○'} ${deployment}</b>
                    ${' '}${state === 'probing' ? 'is tried again' : 'is left out'}${
                      last_failure ? html` after <code>${last_failure}</code>` : null
                    }${ago(since)}</span
                  >
                  <a href=${`/console/models?open=${encodeURIComponent(model)}`}>see</a>
                </li>`,
            )}
          </ul>`
    }
  <//>`
}

function WayTo({ kind, object }: Pick<OverviewData['alerts'][number], 'kind' | 'object'>) {
  const [of] = kind.split('.')
  const named = encodeURIComponent(object ?? '')
  if (of === 'balance') return html`<a href=${`/console/accounts/${named}/overview`}>top up</a>`
  if (of === 'cap') {
    const [what, id] = (object ?? '').split(' ')
    return html`<a href=${`/console/${what}s/${id}/overview`}>see</a>`
  }
  if (of === 'key') return html`<a href=${`/console/keys/${named}/overview`}>see</a>`
  if (of === 'guard') return html`<a href="/console/guard">see</a>`
  if (of === 'ledger' || of === 'log') return html`<a href="/console/settings/gateways">see</a>`
  return html`<a href="/console/settings/alerts">see</a>`
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

function Refusals({ overview: { refused } }: { readonly overview: OverviewData }) {
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
                    <th scope="row">${limit}</th>
                    <td class="end">
                      <a href=${`/console/requests?${LAST_DAY}&limited_by=${encodeURIComponent(limit)}`}
                        >${count(calls)}</a
                      >
                    </td>
                    <td>
                      ${keys.map(
                        ({ key_id, key_name, refused: ofKey }) =>
                          html`<a
                              key=${key_id}
                              href=${`/console/requests?${LAST_DAY}&limited_by=${encodeURIComponent(limit)}&key=${encodeURIComponent(key_id)}`}
                              title=${key_id}
                              ><bdi>${key_id ? (key_name ?? shortId(key_id, 20)) : '(no key)'}</bdi></a
                            >
                            <span class="muted"> ${count(ofKey)}</span> `,
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
                    <td class="end number" title=${`${exactMoney(cost_usd)}, ${count(calls)} calls`}>
                      ${money(cost_usd)}
                    </td>
                    <td>
                      <${Bar} share=${ratio(cost_usd, most)} label="in relation to the dearest" />
                    </td>
                  </tr>`,
              )}
            </tbody>
          </table>`
    }
  <//>`
}

/** One line about the ledger, its outbox, the proof of usage and the log, which must not be wrong. */
function Books({ overview: { books, usage, log } }: { readonly overview: OverviewData }) {
  const dropped = Object.entries(log?.dropped ?? {}).filter(([, rows]) => rows > 0)
  const remarks: readonly Content[] = [
    books.ok
      ? html`<span class="ok">✓ Ledger books</span>`
      : html`<span class="bad">✕ The ledger cannot book</span>`,
    html`<span class=${books.outbox > 0 ? 'warn' : ''}
      >outbox ${count(books.outbox)}${books.outbox > 0 ? `, oldest ${duration(books.oldest_ms)}` : ''}</span
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

function Ago({ at, now }: { readonly at: string; readonly now: number }) {
  return html`<time datetime=${at} title=${at}>${relative(at, now)}</time>`
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

// First steps with a gateway that was never called: three steps that tick themselves off.

const looked = signal(false)

/** The steps; once shown they stay until the screen is left. @param called whether a call was made */
function FirstSteps({ shown, called }: { readonly shown: boolean; readonly called: boolean }) {
  const begun = useRef(false)
  if (shown) begun.current = true
  const keys = useAnswer<{ data: readonly { readonly name: string }[] }>(
    begun.current ? '/admin/keys' : null,
    { every: 5000 },
  ).data?.data
  if (!begun.current) return null
  return html`<${Panel} title="Three steps">
    <ol class="steps">
      <${Step} done=${called}>
        <p><b>Make a call.</b> <code>$API_KEY</code> is the key that the first start printed.</p>
        <${Snippets} first />
      <//>
      <${Step} done=${looked.value}>
        <p>
          <b>See it.</b> It is under
          <a href="/console/requests" onClick=${() => (looked.value = true)}>Requests</a>, with its
          cost and where its time went.
        </p>
      <//>
      <${Step} done=${(keys?.length ?? 0) > 1}>
        <p>
          <b>Make a key of your own</b> under <a href="/console/keys">Keys</a>: with limits, models
          and a policy.
        </p>
      <//>
    </ol>
  <//>`
}

function Step({ done, children }: { readonly done: boolean; readonly children?: Content }) {
  return html`<li>
    <span class=${done ? 'ok' : 'muted'}
      >${done ? '✓' : '○'}<span class="hidden">${done ? 'done' : 'to do'}</span></span
    >
    <div class="stack">${children}</div>
  </li>`
}
