/** The acts of a row behind `⋯`: opened by a pointer, or by `.` on the row that has the focus. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { perform, type Act } from '../acts.ts'
import { html } from '../html.ts'
import { Button } from './button.ts'

/** @param name the name of the thing, for those who hear it */
export function RowMenu({
  name,
  acts,
  open,
  onToggle,
}: {
  readonly name: string
  readonly acts: () => readonly Act[]
  readonly open: boolean
  readonly onToggle: (open: boolean) => void
}) {
  const box = useRef<HTMLDivElement>(null)
  const buttons = () => [...(box.current?.querySelectorAll<HTMLElement>('button') ?? [])]
  useEffect(() => {
    if (open) buttons()[1]?.focus()
  }, [open])
  const close = () => {
    buttons()[0]?.focus()
    onToggle(false)
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (!open || (!step && event.key !== 'Escape')) return
    event.preventDefault()
    event.stopPropagation()
    if (!step) return close()
    const all = buttons().slice(1)
    const at = all.indexOf(document.activeElement as HTMLElement)
    all[(at + step + all.length) % all.length]?.focus()
  }
  const onLeave = ({ relatedTarget }: FocusEvent) => {
    if (open && !box.current?.contains(relatedTarget as Node | null)) onToggle(false)
  }
  return html`<div class="menu" ref=${box} onKeyDown=${onKeyDown} onFocusOut=${onLeave}>
    <button type="button" class="button quiet more-acts" aria-expanded=${open ? 'true' : 'false'} title="Acts (.)" onClick=${() => onToggle(!open)}>
      <span aria-hidden="true">⋯</span><span class="hidden">Acts: ${name}</span>
    </button>
    ${
      open &&
      html`<div class="menu-list acts-list" role="group" aria-label=${`What can be done with ${name}`}>
        ${acts().map(
          (act) =>
            html`<${Button}
              key=${act.verb}
              kind="quiet"
              right=${act.right}
              onClick=${() => {
                close()
                void perform(act)
              }}
              >${act.verb}<//
            >`,
        )}
      </div>`
    }
  </div>`
}

/** The rarer acts of a screen. */
export function MoreActs({ name, acts }: { readonly name: string; readonly acts: readonly Act[] }) {
  const [open, setOpen] = useState(false)
  return html`<${RowMenu} name=${name} acts=${() => acts} open=${open} onToggle=${setOpen} />`
}
