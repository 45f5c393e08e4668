/** Prices as they are read: of tokens for a million, of everything else for one. */
import type { Pricing } from '../answers.ts'
import { exactMoney, money, plainDecimal } from '../format.ts'
import { html } from '../html.ts'

const UNITS: Readonly<Record<string, string>> = {
  image: 'image',
  page: 'page',
  character: 'character',
  second: 'second',
  request: 'request',
  web_search: 'search',
  search_unit: 'search unit',
}

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

/** A price of one, for which a million costs this. The API says what is wrong with a text that is no amount. */
export function ofMillion(usd: string): string {
  const text = usd.trim()
  return /^\d+(?:\.\d*)?$/.test(text) ? plainDecimal(`${plainDecimal(text)}e-6`) : text
}
