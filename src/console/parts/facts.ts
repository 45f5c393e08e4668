/** Figures and facts: a list of terms, and tiles. */
import { to, type Query } from '../api.ts'
import {
  MISSING,
  columnMoney,
  count,
  day,
  exactMoney,
  hour,
  momentTitle,
  moment,
  money,
  plainDecimal,
} from '../format.ts'
import { html, type Content } from '../html.ts'
import { preferences } from '../state.ts'

export function Facts({ facts }: { readonly facts: readonly (readonly [string, Content])[] }) {
  return html`<dl class="facts">
    ${facts.map(
      ([term, value]) =>
        html`<div key=${term}>
          <dt>${term}</dt>
          <dd>${value}</dd>
        </div>`,
    )}
  </dl>`
}

/** One large figure. `href` leads to what it counts, and `counted` is the length of the list there. */
export function Tile({
  label,
  href,
  counted,
  note,
  children,
}: {
  readonly label: string
  readonly href?: string
  readonly counted?: number | null | undefined
  readonly note?: Content
  readonly children?: Content
}) {
  const inside = html`<span class="tile-label">${label}</span>
    <span class="tile-figure">${children}</span>
    <span class="tile-note">${note ?? ''}</span>`
  return href
    ? html`<a class="tile" href=${href} data-figure=${counted ?? undefined}>${inside}</a>`
    : html`<div class="tile">${inside}</div>`
}

/** The number of calls that a question to the list of requests finds, and what stands before it in the link. */
export function Counted({
  value,
  where,
  children,
}: {
  readonly value: number
  readonly where: Query
  readonly children?: Content
}) {
  return html`<a href=${to.requests(where)} data-figure=${value}>${children}${count(value)}</a>`
}

/** An amount, exact on hovering and when it is copied; with `exact` all decimals at once, with `decimals` as many as its column has. */
export function Money({
  usd,
  exact = false,
  decimals,
  balance = false,
  estimated = false,
}: {
  readonly usd: string | null | undefined
  readonly exact?: boolean
  readonly decimals?: number | undefined
  /** Whether it is what is left: red below zero, rounded down. */
  readonly balance?: boolean
  readonly estimated?: boolean
}) {
  const all = exactMoney(usd)
  const text =
    decimals !== undefined ? columnMoney(usd, decimals, balance) : exact ? all : money(usd, balance)
  return html`<data
    value=${usd === null || usd === undefined ? undefined : plainDecimal(usd)}
    class=${balance && isNegative(usd) ? 'number bad' : 'number'}
    data-all=${text === all ? undefined : all}
    title=${estimated ? `${all}\nestimated` : all}
    >${estimated ? '≈ ' : ''}${text}</data
  >`
}

/** A moment in the reader's zone; with the day if not today. @param short shows only the day @param isHour shows the hour that begins then */
export function Time({
  at,
  short = false,
  isHour = false,
}: {
  readonly at: string | null | undefined
  readonly short?: boolean
  readonly isHour?: boolean
}) {
  const { zone } = preferences.value
  if (!at) return html`<span class="muted">${MISSING}</span>`
  const text = short ? day(at, zone) : (isHour ? hour : moment)(at, zone, Date.now())
  // A month in letters that are written from the right takes what follows it along.
  return html`<time class="number" dir="auto" datetime=${at} title=${momentTitle(at, zone)}
    >${text}</time
  >`
}

function isNegative(amount: string | null | undefined): boolean {
  return amount?.startsWith('-') ?? false
}
