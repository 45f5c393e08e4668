/** Short confirmations at the edge of the page, such as "Copied". Never for what must not be missed. */
import { signal } from '@preact/signals'
import { html } from '../html.ts'

const SHOWN_MS = 3000
const shown = signal<readonly { readonly id: number; readonly text: string }[]>([])
let ids = 0

export function toast(text: string): void {
  const id = ++ids
  shown.value = [...shown.value, { id, text }]
  setTimeout(() => {
    shown.value = shown.value.filter((one) => one.id !== id)
  }, SHOWN_MS)
}

export function Toasts() {
  return html`<div class="toasts" role="status" aria-live="polite">
    ${shown.value.map(({ id, text }) => html`<div class="toast" key=${id}>${text}</div>`)}
  </div>`
}
