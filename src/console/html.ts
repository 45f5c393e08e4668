/** Markup: HTML in template literals, without a compiler. */
import { at } from './base.ts'
import htm from 'htm'
import { h, type VNode } from 'preact'

export type Content = VNode | string | number | null | undefined | false | readonly Content[]

/**
 * Makes an element anew each time: one that the library kept would keep its page, with the secrets of that page. A link to a path
 * leads to that path of the gateway.
 */
function element(this: number[], ...parts: Parameters<typeof h>): VNode {
  this[0] = 3
  const [type, props, ...children] = parts as [string, { readonly href?: unknown } | null]
  const { href } = props ?? {}
  if (type !== 'a' || typeof href !== 'string' || !href.startsWith('/')) return h(...parts)
  return h(type, { ...props, href: at(href) }, ...children)
}

const build = htm.bind(element) as unknown as (
  strings: readonly string[],
  ...values: readonly unknown[]
) => VNode
const joined = new WeakMap<TemplateStringsArray, readonly string[]>()

/**
 * Makes elements. Values become text nodes and properties, never markup. A line break beside a word is a space, as in HTML;
 * between tags and values it is nothing, so a space there is written as `${' '}`.
 */
export function html(strings: TemplateStringsArray, ...values: readonly unknown[]): VNode {
  let cached = joined.get(strings)
  if (!cached) {
    cached = strings.map(spaced)
    joined.set(strings, cached)
  }
  return build(cached, ...values)
}

/** Keeps line breaks at the ends of a text: the library drops them, and with them the space between two words. */
function spaced(piece: string): string {
  return piece
    .replace(/([^\s>])\s*\n\s*(?=<(?!\/)|$)/g, '$1 ')
    .replace(/(^|>)\s*\n\s*(?=[^\s<])/g, '$1 ')
}
