/** One call, in a sheet: the request, where its time went, its cost and why. */
import { useAnswer } from '../api.ts'
import type { ShownDetails } from '../answers.ts'
import { count, duration, exactMoney, plainDecimal, shortId } from '../format.ts'
import { html, type Content } from '../html.ts'
import { useKeys } from '../keys.ts'
import { CostTable } from '../parts/cost.ts'
import { copyText, Id } from '../parts/copy.ts'
import { Facts, Time } from '../parts/facts.ts'
import { Code, Json } from '../parts/json.ts'
import { Sheet } from '../parts/sheet.ts'
import { Answered, Notice } from '../parts/states.ts'
import { hrefWith } from '../state.ts'
import { ESTIMATED } from '../text.ts'
import { KeptContent } from './content.ts'
import { EndCall, Status } from './outcome.ts'

export function RequestSheet({
  id,
  onClose,
}: {
  readonly id: string
  readonly onClose: () => void
}) {
  const answer = useAnswer<{ data: ShownDetails }>(`/admin/requests/${encodeURIComponent(id)}`)
  useKeys({ c: () => void copyText(id) })
  return html`<${Sheet} title=${html`<${Id} id=${id} />`} onClose=${onClose}>
    <${Answered} of=${answer} lines=${12}>
      ${({ data }: { data: ShownDetails }) => html`<${Details} call=${data} />`}
    <//>
  <//>`
}

function Details({ call }: { readonly call: ShownDetails }) {
  return html`<div class="stack">
    <p class="summary">
      <${Status} row=${call} />${` · ${call.outcome ?? 'running'} · ${call.method} ${call.endpoint}`}
      ${`${call.stream ? ' · stream' : ''} · `}<${Time} at=${call.at} />
      ${' '}${call.running ? html`<${EndCall} id=${call.id} />` : null}
    </p>
    ${
      call.log === 'missing' &&
      html`<${Notice} tone="warn"
        >The request log has lost this call. What is shown comes from the ledger.<//
      >`
    }
    ${call.error && html`<${Notice} tone=${(call.status ?? 500) >= 500 ? 'bad' : 'warn'}>${call.error}<//>`}
    <${Waterfall} call=${call} />
    <${Facts} facts=${factsOf(call)} />
    <${Cost} call=${call} />
    ${call.content === 'kept' && html`<${KeptContent} id=${call.id} />`}
    <section>
      <h3>As curl</h3>
      <${Code} label="curl" text=${curlOf(call)} />
    </section>
    <details>
      <summary>Raw</summary>
      <${Json} value=${call} label="Answer of the API" />
    </details>
  </div>`
}

function factsOf(call: ShownDetails): (readonly [string, Content])[] {
  const { account_id, key_id, key_name, model, rate, guard, limits } = call
  return [
    [
      'Account',
      account_id && html`<a href=${`/console/accounts/${account_id}/overview`}>${account_id}</a>`,
    ],
    [
      'Key',
      key_id &&
        html`<a href=${`/console/keys/${key_id}/overview`}><bdi>${key_name ?? key_id}</bdi></a>${' '}
          ${key_name && html`<code class="muted">${shortId(key_id, 20)}</code>`}${' '}
          <a class="quiet" href=${hrefWith({ key: key_id, open: undefined })}>its calls</a>`,
    ],
    [
      'Model',
      model &&
        html`${model}${call.deployment ? html` <span class="muted">by ${call.deployment}</span>` : ''}`,
    ],
    ['Tokens', tokensOf(call)],
    ['Limits', rate ? `${count(rate.left)} of ${count(rate.limit)} requests a minute left` : null],
    ['Limited by', call.limited_by],
    ...(limits ?? []).map((limit): readonly [string, Content] => [
      limit.limit,
      `${limit.used ?? '–'} of ${limit.value ?? 'unlimited'}`,
    ]),
    [
      'Guard',
      guard && `${guard.outcome}${guard.rules.length > 0 ? `: ${guard.rules.join(', ')}` : ''}`,
    ],
    ['Tag', call.tag],
    ['User', call.user],
    [
      'Session',
      call.session &&
        html`<code>${call.session}</code>${' '}
          <a class="quiet" href=${hrefWith({ session: call.session, open: undefined })}>its calls</a>`,
    ],
    ['Client', call.agent],
    [
      'Content',
      call.content === 'not kept'
        ? html`not kept <span class="muted">(the key and the configuration have to allow it)</span>`
        : call.content,
    ],
  ].filter(([, value]) => value) as (readonly [string, Content])[]
}

function tokensOf({ usage, estimated }: ShownDetails): Content {
  const named = Object.entries(usage).filter(([, value]) => value !== null)
  if (named.length === 0) return null
  const text = named
    .map(([name, value]) => `${name.replaceAll('_', ' ')} ${count(value)}`)
    .join(' · ')
  return estimated ? html`<span title=${ESTIMATED}>≈ ${text}</span>` : text
}

function Cost({ call }: { readonly call: ShownDetails }) {
  const { cost_usd: cost, cost_details: details, ledger } = call
  if (cost === null) return null
  const agrees = ledger && plainDecimal(ledger.cost_usd) === plainDecimal(cost)
  return html`<section>
    <h3>Cost</h3>
    <${CostTable} details=${details} total=${cost} estimated=${call.estimated === true} />
    ${
      ledger &&
      html`<p class=${agrees ? 'ok' : 'bad'}>
        ${
          agrees
            ? `✓ Row ${count(ledger.seq)} of the ledger says the same.`
            : `✕ Row ${count(ledger.seq)} of the ledger says ${exactMoney(ledger.cost_usd)}.`
        }
      </p>`
    }
  </section>`
}

/** A part of the time of a call, ms since it came. */
interface Step {
  readonly name: string
  readonly from: number
  readonly to: number
  readonly tone: string
  readonly said?: string
}

const GOOD: ReadonlySet<string> = new Set(['ok', 'passed', 'blocked'])

function Waterfall({ call }: { readonly call: ShownDetails }) {
  const { admit_ms: admit, first_ms: first, total_ms: total } = call.times
  if (total === null || total === 0) return null
  const steps: Step[] = []
  if (admit !== null) steps.push({ name: 'admitted', from: 0, to: admit, tone: 'muted' })
  let at = admit ?? 0
  for (const { deployment, ms, result, status, message } of call.attempts) {
    const to = Math.min(total, at + ms)
    steps.push({
      name: `${deployment}, ${result}`,
      from: at,
      to,
      tone: result === 'ok' ? 'accent' : 'bad',
      said: [status && `status ${status}`, message].filter(Boolean).join(': '),
    })
    at = to
  }
  if (first === null && at < total) {
    const name = call.attempts.length > 0 ? 'rest' : 'answer'
    steps.push({ name, from: at, to: total, tone: 'ok' })
  }
  if (first !== null) {
    if (call.attempts.length === 0)
      steps.push({ name: 'until the first part', from: at, to: first, tone: 'accent' })
    steps.push({ name: 'answer', from: first, to: total, tone: 'ok' })
  }
  for (const { to: what, name, side, at_ms: from, ms, result } of call.questions ?? []) {
    const target = what === 'guard' ? `guard ${name}, ${side}` : `search ${name}`
    const tone = GOOD.has(result) ? 'muted' : 'bad'
    steps.push({ name: `${target}: ${result}`, from, to: Math.min(total, from + ms), tone })
  }
  steps.sort((one, other) => one.from - other.from)
  const place = (ms: number) => Math.min(100, (ms / total) * 100)
  return html`<section>
    <h3>Time</h3>
    <ol class="waterfall">
      ${steps.map(
        ({ name, from, to, tone, said }) =>
          html`<li>
            <span>${name}${said && html`<br /><span class="muted">${said}</span>`}</span>
            <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
              <rect class="track" width="100" height="8" />
              <rect
                class=${`fill ${tone}`}
                x=${place(from)}
                width=${Math.max(0.5, place(to) - place(from))}
                height="8"
              />
            </svg>
            <span class="end number">${duration(to - from)}</span>
          </li>`,
      )}
      <li class="total">
        <span>total</span><span>${first === null ? '' : `first part at ${duration(first)}`}</span>
        <span class="end number">${duration(total)}</span>
      </li>
    </ol>
  </section>`
}

function curlOf({ method, endpoint, model, stream }: ShownDetails): string {
  const body = JSON.stringify({ ...(model && { model }), '…': '…', ...(stream && { stream }) })
  const head = `curl ${method === 'GET' ? '' : `-X ${method} `}${location.origin}${endpoint} \\\n  -H "Authorization: Bearer $API_KEY"`
  return method === 'GET'
    ? head
    : `${head} \\\n  -H "Content-Type: application/json" \\\n  -d '${body.replace('"…":"…"', '…')}'`
}
