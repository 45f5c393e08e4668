/** Prices as they are read: of tokens for a million, of everything else for one. */
import type { PriceSource, Pricing } from '../answers.ts'
import { exactMoney, money, plainDecimal } from '../format.ts'
import { html, type Content } from '../html.ts'

const UNITS: Readonly<Record<string, string>> = {
  image: 'image',
  page: 'page',
  character: 'character',
  second: 'second',
  request: 'request',
  web_search: 'search',
  search_unit: 'search unit',
}
/** An older list of prices may be out of date. */
const OLD_DAYS = 90
const DAY_MS = 86_400_000

export function Price({ name, usd }: { readonly name: string; readonly usd: string }) {
  const unit = UNITS[name]
  return html`<span class="number" title=${`${exactMoney(usd)} each`}
    >${unit === undefined ? money(perMillion(usd)) : `${money(usd)} per ${unit}`}</span
  >`
}

export function pricesOf(pricing: Pricing): readonly (readonly [name: string, usd: string])[] {
  return Object.entries(pricing).flatMap(([name, usd]) =>
    typeof usd === 'string' ? [[name, usd] as const] : [],
  )
}

export function isPerToken(name: string): boolean {
  return !(name in UNITS)
}

export function perMillion(usd: string): string {
  return plainDecimal(`${plainDecimal(usd)}e6`)
}

export function Source({ source }: { readonly source: PriceSource | null | undefined }): Content {
  if (!source) return '–'
  const { from, checked_at: at } = source
  if (from === 'own' || !at) return html`<span>${from === 'own' ? 'own' : from}</span>`
  const days = Math.floor((Date.now() - Date.parse(at)) / DAY_MS)
  const text = days < 1 ? 'today' : `${days} days ago`
  return html`<span title=${`${from}, ${at}`}
    >${from}, ${days > OLD_DAYS ? html`<span class="warn">! ${text}</span>` : text}</span
  >`
}
