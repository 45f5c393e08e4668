/** The span of time of a screen: relative ones stay relative in the address, so that a link stays true. */
import { useRef, useState } from 'preact/hooks'
import { day, minuteIn } from '../format.ts'
import { html } from '../html.ts'
import { useKeys } from '../keys.ts'
import { place, setQuery } from '../state.ts'
import { Button } from './button.ts'
import { TextField } from './form.ts'
import { Dialog } from './sheet.ts'

const CHOICES = [
  { from: '-1h', label: 'Last hour' },
  { from: '-24h', label: 'Last 24 hours' },
  { from: '-7d', label: 'Last 7 days' },
  { from: '-30d', label: 'Last 30 days' },
  { from: '-90d', label: 'Last 90 days' },
  { from: 'month', label: 'This month' },
]
const CUSTOM = 'custom'
const HOUR_MS = 3_600_000

interface Span {
  readonly from: string | undefined
  readonly to: string | undefined
}

/**
 * The span of the address, as moments. Relative ones end at the minute of `now`, so that a question asked again soon
 * is the same question.
 * @param standard `from` when the address has none
 */
export function spanOf(query: URLSearchParams, standard: string | undefined, now: number): Span {
  const from = query.get('from') ?? standard
  const to = query.get('to') ?? undefined
  if (from === undefined) return { from: undefined, to }
  const minute = Math.floor(now / 60_000) * 60_000
  const [, amount, unit] = /^-(\d{1,4})([hd])$/.exec(from) ?? []
  if (amount !== undefined) {
    const ms = Number(amount) * (unit === 'h' ? HOUR_MS : 24 * HOUR_MS)
    return { from: new Date(minute - ms).toISOString(), to }
  }
  if (from === 'month') return { from: `${new Date(now).toISOString().slice(0, 8)}01`, to }
  return { from, to }
}

export function Range({ standard }: { readonly standard: string }) {
  const [custom, setCustom] = useState(false)
  const box = useRef<HTMLSelectElement>(null)
  const { query } = place.value
  const from = query.get('from') ?? standard
  const to = query.get('to')
  const isChoice = to === null && CHOICES.some((one) => one.from === from)
  useKeys({ r: () => box.current?.focus() })
  const choose = (value: string) => {
    if (value === CUSTOM) return setCustom(true)
    setQuery({ from: value === standard ? undefined : value, to: undefined, after: undefined })
  }
  return html`<label class="range">
      <span class="hidden">Range</span>
      <select
        ref=${box}
        onChange=${(event: Event) => choose((event.target as HTMLSelectElement).value)}
      >
        ${CHOICES.map(
          (one) =>
            html`<option key=${one.from} value=${one.from} selected=${isChoice && one.from === from}>
              ${one.label}
            </option>`,
        )}
        ${
          !isChoice &&
          html`<option value="now" selected>
            ${isoText(from)} … ${to === null ? '' : isoText(to)}
          </option>`
        }
        <option value=${CUSTOM}>Other…</option>
      </select>
    </label>
    ${
      custom &&
      html`<${CustomRange}
        from=${/^\d/.test(from) ? from : ''}
        to=${to ?? ''}
        onClose=${() => setCustom(false)}
      />`
    }`
}

/** A day, or a moment that is not the begin of one, of UTC; a relative one as it is. */
function isoText(text: string): string {
  if (!/^\d/.test(text)) return text
  return /^.{10}(?:T00:00.*)?$/.test(text) ? day(text, 'utc') : minuteIn(text, 'UTC')
}

function CustomRange({
  from,
  to,
  onClose,
}: {
  readonly from: string
  readonly to: string
  readonly onClose: () => void
}) {
  const [start, setStart] = useState(from.slice(0, 10))
  const [end, setEnd] = useState(to.slice(0, 10))
  const [wrong, setWrong] = useState<string>()
  const set = (event: Event) => {
    event.preventDefault()
    if (start === '') return setWrong('Choose the first day.')
    if (end !== '' && end <= start) return setWrong('The end is a day after the first one.')
    setQuery({ from: start, to: end || undefined, after: undefined })
    onClose()
  }
  return html`<${Dialog} title="Range" onClose=${onClose}>
    <form class="form" onSubmit=${set}>
      <${TextField} label="From" type="date" value=${start} onInput=${setStart} error=${wrong} />
      <${TextField}
        label="To"
        type="date"
        value=${end}
        onInput=${setEnd}
        help="UTC days; the last one is not included. Empty: until now."
      />
      <div class="actions"><${Button} kind="primary" type="submit">Show<//></div>
    </form>
  <//>`
}
