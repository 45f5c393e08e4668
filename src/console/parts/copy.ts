/** Copying: ids on a click, texts with a button. */
import { shortId } from '../format.ts'
import { html } from '../html.ts'
import { toast } from './toast.ts'

export async function copyText(text: string, what = 'Copied'): Promise<void> {
  try {
    await navigator.clipboard.writeText(text)
    toast(what)
  } catch {
    toast('The browser does not allow copying here')
  }
}

/** Amounts and moments in what is selected are copied as plain decimals and ISO 8601, with all digits. */
export function copyExactly(event: ClipboardEvent): void {
  const selection = getSelection()
  if (!selection || selection.isCollapsed || !event.clipboardData) return
  const range = selection.getRangeAt(0)
  const around = range.commonAncestorContainer
  const inside = (around instanceof Element ? around : around.parentElement)?.closest(EXACT)
  const copied = document.createElement('div')
  copied.className = 'hidden'
  copied.append(inside ? inside.cloneNode(true) : range.cloneContents())
  const exact = copied.querySelectorAll(EXACT)
  const long = copied.querySelectorAll('.long')
  if (exact.length + long.length === 0) return
  for (const one of exact) {
    one.textContent = one.getAttribute('value') ?? one.getAttribute('datetime')
  }
  // A cell is one line of its row, whatever lies in it.
  for (const cell of long) cell.replaceWith(cell.textContent)
  // Cells have tabs between them only as far as the page has a place for them.
  document.body.append(copied)
  event.clipboardData.setData('text/plain', copied.innerText)
  copied.remove()
  event.preventDefault()
}

const EXACT = 'data[value], time[datetime]'

export function Copy({ text, label = 'Copy' }: { readonly text: string; readonly label?: string }) {
  return html`<button type="button" class="button quiet" onClick=${() => copyText(text)}>
    ${label}
  </button>`
}

export function Id({ id, keep }: { readonly id: string; readonly keep?: number }) {
  return html`<button
    type="button"
    class="id mono"
    data-id=${id}
    title=${`${id}\nClick to copy`}
    onClick=${() => copyText(id, `Copied ${shortId(id)}`)}
  >
    ${keep === undefined ? id : shortId(id, keep)}
  </button>`
}

// Text as it is: JSON, commands, answers.

export function Code({
  text,
  label,
  wrap = false,
}: {
  readonly text: string
  readonly label: string
  readonly wrap?: boolean
}) {
  return html`<figure class="code">
    <figcaption><span>${label}</span><${Copy} text=${text} /></figcaption>
    <pre tabindex="0" class=${wrap ? 'wrap' : ''} aria-label=${label}>${text}</pre>
  </figure>`
}

export function Json({ value, label }: { readonly value: unknown; readonly label: string }) {
  return html`<${Code} text=${JSON.stringify(value, undefined, 2)} label=${label} />`
}
