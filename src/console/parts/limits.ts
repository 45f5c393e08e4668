/** Limits with their use, the fields that set them, and what raises one or sets its count back. */
import { useState } from 'preact/hooks'
import { count, minuteIn, money, ratio } from '../format.ts'
import { html, type Content } from '../html.ts'
import { allows } from '../state.ts'
import { Bar } from './bar.ts'
import { Button } from './button.ts'
import { FormEnd, RowsField, SelectField, send, TextField, useSubmission } from './form.ts'
import { Dialog } from './sheet.ts'
import { WINDOWS } from '../text.ts'
import type { Limit as SentLimit } from '../../server/admin/resources/limit.ts'
import type { Read } from '../amounts.ts'

type Limit = Read<SentLimit>

const UNITS = { usd: 'USD', requests: 'Requests', tokens: 'Tokens', concurrent: 'Calls at once' }
const SOURCES: Readonly<Record<string, string>> = {
  key: 'set for this key',
  team: 'all keys of the team',
  account: 'all keys of the account',
  default: 'default',
  tier: 'free tier',
}

const OWNERS: Readonly<Record<string, string>> = {
  key: 'of this key',
  team: 'of its team',
  account: 'of its account',
  tier: 'of the free tier',
}

/** The routes of the owners whose limits may be raised and set back here, by the source of a limit. */
type Owners = Readonly<Partial<Record<'key' | 'team' | 'account', string | null>>>

/** Each limit with its source, its use, and when that starts anew in the time zone of the account. */
export function Limits({
  limits,
  zone,
  owners = {},
  onChange,
}: {
  readonly limits: readonly Limit[]
  readonly zone: string
  readonly owners?: Owners
  readonly onChange?: () => void
}) {
  const [acting, setActing] = useState<{ verb: 'raise' | 'reset'; limit: Limit; path: string }>()
  const actions = (limit: Limit): Content => {
    const { window, models, unit, source } = limit
    const isRate =
      !models && (unit === 'concurrent' || (unit === 'requests' && window === 'minute'))
    const owner = owners[source as keyof Owners]
    if (isRate || !owner || !onChange || !allows('keys')) return null
    const path = `${owner}/limits/${limit.limit.slice(limit.limit.indexOf('.') + 1)}`
    const open = (verb: 'raise' | 'reset') => () => setActing({ verb, limit, path })
    return html`<${Button} kind="quiet" onClick=${open('raise')}>Raise until…<//>
      <${Button} kind="quiet" onClick=${open('reset')}>Set back…<//>`
  }
  return html`<table class="plain ruled limits">
      <tbody>
        ${limits.map(
          (limit) => html`<tr key=${limit.limit}>
            <th scope="row">
              ${nameOf(limit)}
              <span class="muted"> ${SOURCES[limit.source] ?? limit.source}</span>
            </th>
            <td class="end number">${figureOf(limit)}</td>
            <td>${barOf(limit)}</td>
            <td class="muted">${
              limit.resets_at && html`resets ${inZone(limit.resets_at, zone)}`
            }${limit.raised && html` raised until ${inZone(limit.raised.until, zone)}`}</td>
            <td>${actions(limit)}</td>
          </tr>`,
        )}
      </tbody>
    </table>
    ${acting && html`<${Act} ...${acting} zone=${zone} onClose=${() => setActing(undefined)} onDone=${onChange} />`}`
}

/** A higher value until a moment, or a count that begins anew. */
function Act({
  verb,
  limit,
  path,
  zone,
  onClose,
  onDone,
}: {
  readonly verb: 'raise' | 'reset'
  readonly limit: Limit
  readonly path: string
  readonly zone: string
  readonly onClose: () => void
  readonly onDone: () => void
}) {
  const [value, setValue] = useState('')
  const [until, setUntil] = useState('')
  const [reason, setReason] = useState('')
  const isRaise = verb === 'raise'
  const raised = {
    value: limit.unit === 'usd' ? value.trim() : numberOf(value),
    until: until === '' ? null : `${until}:00Z`,
  }
  const why = reason.trim() !== '' || !isRaise ? { reason: reason.trim() } : {}
  const body = { ...(isRaise && raised), ...why }
  const request = { method: 'POST', path: `${path}/${verb}`, body }
  const form = useSubmission(async () => {
    await send(request)
    onClose()
    onDone()
  })
  const { errorFor } = form
  const effect = isRaise
    ? `${nameOf(limit)}: what you write here holds until the moment that you choose, and ${shown(limit, limit.value)} again after it.`
    : `${shown(limit, limit.used)} of ${shown(limit, limit.value)} are counted${limit.resets_at ? ` until ${inZone(limit.resets_at, zone)}` : ''}. The count begins anew now; spend and statements stay.`
  return html`<${Dialog} title=${isRaise ? 'Raise until…' : 'Set back…'} onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      <p>${effect}</p>
      ${isRaise && html`<${TextField} label=${`At most, ${UNITS[limit.unit]}`} decimal=${limit.unit === 'usd'} value=${value} onInput=${setValue} autofocus error=${errorFor('value')} />`}
      ${isRaise && html`<${TextField} label="Until (UTC)" type="datetime-local" value=${until} onInput=${setUntil} error=${errorFor('until')} />`}
      <${TextField} label="Reason" value=${reason} onInput=${setReason} error=${errorFor('reason')} />
      <${FormEnd} form=${form} verb=${isRaise ? 'Raise' : 'Set back'} right="keys" onClose=${onClose} request=${request} />
    </form>
  <//>`
}

/** A limit in the fields: texts, as they were typed. */
interface LimitText {
  readonly unit: keyof typeof UNITS
  readonly window: keyof typeof WINDOWS
  readonly value: string
  readonly models: string
}

/** Rows of unit, value, window and models. @param none the meaning of an empty list */
export function LimitEditor({
  limits,
  onChange,
  none,
  errorFor,
}: {
  readonly limits: readonly LimitText[]
  readonly onChange: (limits: readonly LimitText[]) => void
  readonly none: string
  readonly errorFor: (param: string) => string | undefined
}) {
  const fields = (limit: LimitText, set: (change: Partial<LimitText>) => void, at: number) => {
    const error = ['', '.value', '.window', '.models', '.unit']
      .map((member) => errorFor(`limits[${at}]${member}`))
      .find(Boolean)
    return html`
      <${SelectField} label="Of" value=${limit.unit} onChange=${(unit: LimitText['unit']) => set({ unit })} options=${optionsOf(UNITS)} />
      <${TextField} label=${`At most, ${UNITS[limit.unit]}`} decimal=${limit.unit === 'usd'} value=${limit.value} onInput=${(value: string) => set({ value })} error=${error} />
      ${
        limit.unit !== 'concurrent' &&
        html`<${SelectField} label="Per" value=${limit.window} onChange=${(window: LimitText['window']) => set({ window })} options=${optionsOf(WINDOWS)} />`
      }
      <${TextField} label="For models" value=${limit.models} onInput=${(models: string) => set({ models })} mono placeholder="all" />`
  }
  const fresh: LimitText = { unit: 'usd', window: 'month', value: '', models: '' }
  return html`<${RowsField} label="Limits" rows=${limits} onChange=${onChange} none=${none} add="Add a limit" fresh=${fresh} error=${errorFor('limits')}>${fields}<//>`
}

function optionsOf(labels: Readonly<Record<string, string>>) {
  return Object.entries(labels).map(([value, label]) => ({ value, label }))
}

/** A limit as the API shows and takes it. */
interface Entry {
  readonly unit: keyof typeof UNITS
  readonly window?: keyof typeof WINDOWS | undefined
  readonly value: string | number
  readonly models?: readonly string[] | undefined
}

export function textsOf(limits: readonly Entry[] | null | undefined): readonly LimitText[] {
  return (limits ?? []).map(({ unit, window = 'month', value, models = [] }) => {
    return { unit, window, value: String(value), models: models.join(' ') }
  })
}

/** The list that the texts stand for; null for none. A text that is no number is sent too: the API reports it. */
export function limitsOf(texts: readonly LimitText[]): readonly Entry[] | null {
  if (texts.length === 0) return null
  return texts.map(({ unit, window, value, models }) => {
    const patterns = models.split(/[\s,]+/).filter(Boolean)
    return {
      unit,
      ...(unit !== 'concurrent' && { window }),
      value: unit === 'usd' ? value.trim() : numberOf(value),
      ...(patterns.length > 0 && { models: patterns }),
    }
  })
}

function numberOf(text: string): number | string {
  const trimmed = text.trim()
  return /^\d{1,15}$/.test(trimmed) ? Number(trimmed) : trimmed
}

function nameOf({ unit, window, models }: Limit): string {
  const words = [UNITS[unit], ...(window ? [WINDOWS[window]] : [])]
  return [...words, ...(models ? [`for ${models.join(', ')}`] : [])].join(' ')
}

/** The value of a limit in a sentence: `$5.00 a week of this key`. */
export function valueOf(
  limit: Omit<Entry, 'window'> & {
    readonly window?: Entry['window'] | null
    readonly source?: string
  },
): string {
  const { unit, window, models, source = '' } = limit
  const words = [unit === 'usd' ? '' : UNITS[unit].toLowerCase(), window ? WINDOWS[window] : '']
  const scope = models ? `for ${models.join(', ')}` : ''
  return [shown(limit, limit.value), ...words, scope, OWNERS[source]].filter(Boolean).join(' ')
}

function shown({ unit }: Pick<Limit, 'unit'>, amount: string | number): string {
  return unit === 'usd' ? money(String(amount)) : count(Number(amount))
}

function figureOf(limit: Limit): Content {
  return `${shown(limit, limit.used)} of ${shown(limit, limit.value)}`
}

function barOf({ limit, value, used }: Limit): Content {
  const share = ratio(String(used), String(value))
  const tone = share >= 1 ? 'bad' : share >= 0.8 ? 'warn' : 'accent'
  return html`<${Bar} share=${share} tone=${tone} label=${`${limit}: ${Math.round(share * 100)} % used`} />`
}

/** A moment in the time zone of an account, with the name of the zone. */
function inZone(iso: string, zone: string): string {
  return `${minuteIn(iso, zone)} ${zone}`
}
