/**
 * Sheets and dialogs: modal, closed by Escape, and the focus goes back to where it was. One with a form in which something was
 * typed asks before it closes.
 */
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
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
  const [changed, setChanged] = useState(false)
  const [asking, setAsking] = useState(false)
  const close = () => (changed ? setAsking(true) : onClose())
  const cancel = (event: Event) => {
    event.preventDefault()
    // Escape answers the question: nothing is discarded.
    if (asking) setAsking(false)
    else close()
  }
  const closeOutside = (event: MouseEvent) => {
    if (event.target === box.current && kind === 'sheet') close()
  }
  const notice = ({ target }: Event) => {
    if ((target as HTMLElement).closest('form')) setChanged(true)
  }
  return html`<dialog
    ref=${box}
    class=${kind}
    aria-labelledby=${id.current}
    onCancel=${cancel}
    onMouseDown=${closeOutside}
    onInput=${notice}
  >
    <div class="modal">
      <header class="modal-head">
        <h2 id=${id.current}>${title}</h2>
        <button type="button" class="button quiet close" onClick=${close} aria-label="Close">
          ✕
        </button>
      </header>
      ${asking && html`<${Discard} onKeep=${() => setAsking(false)} onDiscard=${onClose} />`}
      <div class="modal-body">${children}</div>
      ${actions && html`<footer class="modal-foot">${actions}</footer>`}
    </div>
  </dialog>`
}

function Discard({
  onKeep,
  onDiscard,
}: {
  readonly onKeep: () => void
  readonly onDiscard: () => void
}) {
  const keep = useRef<HTMLButtonElement>(null)
  useLayoutEffect(() => keep.current!.focus(), [])
  return html`<div class="notice warn discard" role="alert">
    <p>What was typed here is not saved.</p>
    <div class="actions">
      <button type="button" class="button primary" ref=${keep} onClick=${onKeep}>Keep editing</button>
      <button type="button" class="button danger" onClick=${onDiscard}>Discard</button>
    </div>
  </div>`
}
