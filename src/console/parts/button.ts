/** Buttons. One primary per view; what destroys is outlined, and filled only in its confirming dialog. */
import { html, type Content } from '../html.ts'
import { allows, type Role } from '../state.ts'

/** A button. With `role` it is also shown to readers who may not use it, with a hint about the role that they lack. */
export function Button({
  kind = 'plain',
  role,
  busy = false,
  title,
  type = 'button',
  onClick,
  children,
}: {
  readonly kind?: 'plain' | 'primary' | 'danger' | 'danger-filled' | 'quiet'
  readonly role?: Role
  readonly busy?: boolean
  readonly title?: string
  readonly type?: 'button' | 'submit'
  readonly onClick?: (event: Event) => void
  readonly children?: Content
}) {
  const lacks = role !== undefined && !allows(role)
  const why = lacks ? needsRole(role) : title
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

/** The hint on controls that the reader's role does not allow. */
const needsRole = (role: Role): string => `needs the role ${role}`
