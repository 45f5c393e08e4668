/** Buttons. One primary per view; what destroys is outlined, and filled only in its confirming dialog. */
import { html, type Content } from '../html.ts'
import { allows } from '../state.ts'
import type { Right } from '../../server/admin/resources/rights.ts'

/** A button. With `right` it is also shown to readers who may not use it, with a hint about the roles that may. */
export function Button({
  kind = 'plain',
  right,
  busy = false,
  title,
  type = 'button',
  onClick,
  children,
}: {
  readonly kind?: 'plain' | 'primary' | 'danger' | 'danger-filled' | 'quiet'
  readonly right?: Right
  readonly busy?: boolean
  readonly title?: string
  readonly type?: 'button' | 'submit'
  readonly onClick?: (event: Event) => void
  readonly children?: Content
}) {
  const lacks = right !== undefined && !allows(right)
  const why = lacks ? needsRole(right) : title
  const press = (event: Event) => {
    if (!lacks && !busy) return onClick?.(event)
    event.preventDefault()
  }
  return html`<button
    type=${type}
    class=${kind === 'plain' ? 'button' : `button ${kind}`}
    title=${why}
    aria-disabled=${lacks || busy ? 'true' : undefined}
    onClick=${press}
  >
    ${children}${lacks ? html`<span class="hidden"> (${why})</span>` : null}
  </button>`
}

/** The roles that have a right. */
const ROLES: Readonly<Record<Right, string>> = {
  read: 'viewer',
  keys: 'operator or admin',
  money: 'billing or admin',
  contents: 'admin',
  config: 'admin',
  people: 'admin',
}

/** The hint on controls that the reader's role does not allow. */
const needsRole = (right: Right): string => `needs the role ${ROLES[right]}`
