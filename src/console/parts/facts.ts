/** Figures and facts: a list of terms, and tiles. */
import { exactMoney, momentTitle, moment, money } from '../format.ts'
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

/** One large figure. `href` leads to what it counts. */
export function Tile({
  label,
  href,
  note,
  children,
}: {
  readonly label: string
  readonly href?: string
  readonly note?: Content
  readonly children?: Content
}) {
  const inside = html`<span class="tile-label">${label}</span>
    <span class="tile-figure">${children}</span>
    <span class="tile-note">${note ?? ''}</span>`
  return href
    ? html`<a class="tile" href=${href}>${inside}</a>`
    : html`<div class="tile">${inside}</div>`
}

/** An amount as in tables, exact on hovering; with `exact` all decimals at once. */
export function Money({
  usd,
  exact = false,
  balance = false,
  estimated = false,
}: {
  readonly usd: string | null | undefined
  readonly exact?: boolean
  /** Whether it is red below zero. */
  readonly balance?: boolean
  readonly estimated?: boolean
}) {
  const all = exactMoney(usd)
  return html`<span
    class=${balance && isNegative(usd) ? 'number bad' : 'number'}
    title=${estimated ? `${all}\nestimated` : all}
    >${estimated ? '≈ ' : ''}${exact ? all : money(usd)}</span
  >`
}

/** A moment in the reader's zone; with the day if not today. @param short shows only the day, for another day */
export function Time({
  at,
  short = false,
}: {
  readonly at: string | null | undefined
  readonly short?: boolean
}) {
  const { zone } = preferences.value
  if (!at) return html`<span class="muted">–</span>`
  const text = moment(at, zone, Date.now())
  return html`<time class="number" datetime=${at} title=${momentTitle(at, zone)}
    >${short ? text.split(' ')[0] : text}</time
  >`
}

function isNegative(amount: string | null | undefined): boolean {
  return amount?.startsWith('-') ?? false
}
