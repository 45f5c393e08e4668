/** Sheets and dialogs: modal, closed by Escape, and the focus goes back to where it was. */
import { useLayoutEffect, useRef } from 'preact/hooks'
import { html, type Content } from '../html.ts'

interface ModalProps {
  readonly title: Content
  readonly onClose: () => void
  readonly actions?: Content
  readonly children?: Content
}

let titles = 0

export function Sheet(props: ModalProps) {
  return html`<${Modal} ...${props} kind="sheet" />`
}

export function Dialog(props: ModalProps & { readonly wide?: boolean }) {
  return html`<${Modal} ...${props} kind=${props.wide ? 'dialog wide' : 'dialog'} />`
}

function Modal({
  kind,
  title,
  onClose,
  actions,
  children,
}: ModalProps & { readonly kind: string }) {
  const box = useRef<HTMLDialogElement>(null)
  const id = useRef('')
  if (id.current === '') id.current = `title-${++titles}`
  useLayoutEffect(() => {
    const dialog = box.current!
    dialog.showModal()
    // Closing, and not the removal of the element, gives the focus back.
    return () => dialog.close()
  }, [])
  const cancel = (event: Event) => {
    event.preventDefault()
    onClose()
  }
  const closeOutside = (event: MouseEvent) => {
    if (event.target === box.current && kind === 'sheet') onClose()
  }
  return html`<dialog
    ref=${box}
    class=${kind}
    aria-labelledby=${id.current}
    onCancel=${cancel}
    onMouseDown=${closeOutside}
  >
    <div class="modal">
      <header class="modal-head">
        <h2 id=${id.current}>${title}</h2>
        <button type="button" class="button quiet close" onClick=${onClose} aria-label="Close">
          ✕
        </button>
      </header>
      <div class="modal-body">${children}</div>
      ${actions && html`<footer class="modal-foot">${actions}</footer>`}
    </div>
  </dialog>`
}
