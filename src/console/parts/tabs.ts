/** Parts of a screen, each with an address of its own. */
import { html, type Content } from '../html.ts'

/** Links to the parts; the one that is shown is marked. */
export function Tabs({
  label,
  tabs,
  current,
}: {
  readonly label: string
  readonly tabs: readonly {
    readonly key: string
    readonly label: Content
    readonly href: string
    /** What it means, for hovering and for the focus. */
    readonly meaning?: string | undefined
  }[]
  /** The part that is shown, or several. */
  readonly current: string | readonly string[]
}) {
  return html`<nav class="tabs" aria-label=${label}>
    ${tabs.map(
      ({ key, label, href, meaning }) =>
        html`<a
          key=${key}
          href=${href}
          title=${meaning}
          data-meaning=${meaning}
          aria-current=${[current].flat().includes(key) ? 'page' : undefined}
          >${label}</a
        >`,
    )}
  </nav>`
}
