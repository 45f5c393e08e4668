/** Limits with their use, and the fields that set them. */
import type { Usd, KeyRow } from '../answers.ts'
import { count, money, ratio } from '../format.ts'
import { html, type Content } from '../html.ts'
import { Bar } from './bar.ts'
import { Time } from './facts.ts'
import { SelectField, TextField } from './form.ts'
import type { Limit as SentLimit } from '../../server/admin/resources/limit.ts'
import type { Read } from '../amounts.ts'

const NAMES: Readonly<Record<string, string>> = {
  rpm: 'Requests a minute',
  concurrency: 'Calls at once',
  day: 'Calls a day',
  'cap.day': 'Spend a day',
  'cap.month': 'Spend a month',
  'cap.lifetime': 'Spend in all',
}
const SOURCES: Readonly<Record<string, string>> = {
  key: 'set for this key',
  account: 'all keys of the account',
  default: 'default',
  tier: 'free tier',
}

/** Each limit with its source, its use, and when that starts anew. */
export function Limits({ limits }: { readonly limits: readonly Limit[] }) {
  return html`<table class="plain ruled stacked limits">
    <tbody>
      ${limits.map(
        (limit) => html`<tr key=${limit.limit}>
          <th scope="row">
            ${NAMES[limit.limit.slice(limit.limit.indexOf('.') + 1)] ?? limit.limit}
            <span class="muted"> ${SOURCES[limit.source] ?? limit.source}</span>
          </th>
          <td class="end number">${figureOf(limit)}</td>
          <td>${barOf(limit)}</td>
          <td class="muted">${limit.resets_at && html`resets <${Time} at=${limit.resets_at} short /> UTC`}</td>
        </tr>`,
      )}
    </tbody>
  </table>`
}

export function CapBar({ spent, cap }: { readonly spent: Usd; readonly cap: SpendCap | null }) {
  if (!cap) return html`<span class="number">${money(spent)}</span>`
  const share = ratio(spent, cap.usd)
  const text = `${money(spent)} of ${money(cap.usd)} a ${cap.scope}`.replace('a lifetime', 'in all')
  return html`<span class="cap"
    ><span class="number">${money(spent)}</span>${' '}
    <${Bar} share=${share} tone=${toneOf(share)} label=${text} />${' '}
    <span class="number muted" title=${text}>${money(cap.usd)}</span></span
  >`
}

/** Texts of the fields of limits; empty means the default, or none. */
interface LimitTexts {
  readonly rpm: string
  readonly concurrency: string
  readonly cap: string
  readonly scope: string
}

/** @param none the meaning of an empty field */
export function LimitFields({
  texts,
  onChange,
  none,
  errorFor,
}: {
  readonly texts: LimitTexts
  readonly onChange: (texts: LimitTexts) => void
  readonly none: string
  readonly errorFor: (param: string) => string | undefined
}) {
  const set = (member: keyof LimitTexts) => (value: string) =>
    onChange({ ...texts, [member]: value })
  return html`<div class="row tight">
    <${TextField} label="Requests a minute" value=${texts.rpm} onInput=${set('rpm')} placeholder=${none} error=${errorFor('rpm_limit')} />
    <${TextField} label="Calls at once" value=${texts.concurrency} onInput=${set('concurrency')} placeholder=${none} error=${errorFor('concurrency_limit')} />
    <${TextField}
      label="Spend at most, USD"
      value=${texts.cap}
      onInput=${set('cap')}
      placeholder="unlimited"
      error=${errorFor('spend_cap.usd') ?? errorFor('spend_cap')}
    />
    <${SelectField}
      label="per"
      value=${texts.scope}
      onChange=${set('scope')}
      options=${[
        { value: 'month', label: 'month (UTC)' },
        { value: 'day', label: 'day (UTC)' },
        { value: 'lifetime', label: 'lifetime' },
      ]}
    />
  </div>`
}

export function textsOf(of: {
  readonly rpm_limit?: number | null
  readonly concurrency_limit?: number | null
  readonly spend_cap?: SpendCap | null
}): LimitTexts {
  return {
    rpm: String(of.rpm_limit ?? ''),
    concurrency: String(of.concurrency_limit ?? ''),
    cap: of.spend_cap?.usd ?? '',
    scope: of.spend_cap?.scope ?? 'month',
  }
}

/** The members of a request that the texts stand for. A text that is no number is sent too: the API reports it. */
export function limitsOf({ rpm, concurrency, cap, scope }: LimitTexts): Record<string, unknown> {
  return {
    rpm_limit: numberOf(rpm),
    concurrency_limit: numberOf(concurrency),
    spend_cap: cap.trim() === '' ? null : { usd: cap.trim(), scope },
  }
}

function numberOf(text: string): number | string | null {
  const trimmed = text.trim()
  if (trimmed === '') return null
  return /^\d{1,15}$/.test(trimmed) ? Number(trimmed) : trimmed
}

function figureOf({ limit, value, used }: Limit): Content {
  const write = (one: number | string | null) =>
    one === null ? '–' : limit.includes('.cap.') ? money(String(one)) : count(Number(one))
  if (value === null) return 'unlimited'
  return used === null ? write(value) : `${write(used)} of ${write(value)}`
}

function barOf({ limit, value, used }: Limit): Content {
  if (value === null || used === null) return null
  const share = ratio(String(used), String(value))
  return html`<${Bar} share=${share} tone=${toneOf(share)} label=${`${limit}: ${Math.round(share * 100)} % used`} />`
}

function toneOf(share: number): 'accent' | 'warn' | 'bad' {
  return share >= 1 ? 'bad' : share >= 0.8 ? 'warn' : 'accent'
}

type Limit = Read<SentLimit>

type SpendCap = NonNullable<KeyRow['spend_cap']>
