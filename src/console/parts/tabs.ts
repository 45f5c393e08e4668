/** Parts of a screen, each with an address of its own. */
import { useLayoutEffect, useRef } from 'preact/hooks'
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
  const line = useRef<HTMLElement>(null)
  const chosen = [current].flat()
  // A narrow window scrolls the line, at first to the part that is shown.
  useLayoutEffect(() => {
    const [whole, tab] = [line.current!, line.current!.querySelector('[aria-current]')].map((one) =>
      one?.getBoundingClientRect(),
    )
    if (tab) line.current!.scrollLeft += tab.x + tab.width / 2 - (whole!.x + whole!.width / 2)
  }, [chosen.join()])
  return html`<nav class="tabs" aria-label=${label} ref=${line}>
    ${tabs.map(
      ({ key, label, href, meaning }) =>
        html`<a
          key=${key}
          href=${href}
          title=${meaning}
          data-meaning=${meaning}
          aria-current=${chosen.includes(key) ? 'page' : undefined}
          >${label}</a
        >`,
    )}
  </nav>`
}
