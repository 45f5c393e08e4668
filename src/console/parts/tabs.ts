/** Parts of a screen, each with an address of its own. */
import { html, type Content } from '../html.ts'

/** Links to the parts; the one that is shown is marked. */
export function Tabs({
  label,
  tabs,
  current,
}: {
  readonly label: string
  readonly tabs: readonly { readonly key: string; readonly label: Content; readonly href: string }[]
  readonly current: string
}) {
  return html`<nav class="tabs" aria-label=${label}>
    ${tabs.map(
      ({ key, label, href }) =>
        html`<a key=${key} href=${href} aria-current=${key === current ? 'page' : undefined}
          >${label}</a
        >`,
    )}
  </nav>`
}
