/** Short confirmations at the edge of the page, such as "Copied". Never for what must not be missed. */
import { signal } from '@preact/signals'
import { acted, toApiError } from '../api.ts'
import { html } from '../html.ts'
import { useKeys } from '../keys.ts'

const SHOWN_MS = 3000
/** How long something can be taken back. */
const UNDO_MS = 15_000

interface Shown {
  readonly id: number
  readonly text: string
  readonly undo?: (() => Promise<unknown>) | undefined
}

const shown = signal<readonly Shown[]>([])
let ids = 0

/** @param undo takes back what is confirmed */
export function toast(text: string, undo?: () => Promise<unknown>): void {
  const id = ++ids
  shown.value = [...shown.value, { id, text, undo }]
  setTimeout(() => forget(id), undo ? UNDO_MS : SHOWN_MS)
}

export function Toasts() {
  const last = shown.value.findLast(({ undo }) => undo)
  useKeys(last ? { z: () => takeBack(last) } : {})
  return html`<div class="toasts" role="status" aria-live="polite">
    ${shown.value.map(
      (one) =>
        html`<div class="toast" key=${one.id}>
          ${one.text}
          ${one.undo && html`<button type="button" class="button" title="Undo (z)" onClick=${() => takeBack(one)}>Undo</button>`}
        </div>`,
    )}
  </div>`
}

function takeBack({ id, text, undo }: Shown): void {
  forget(id)
  undo!().then(
    () => {
      acted.value++
      toast(`Undone: ${text}`)
    },
    (thrown: unknown) => toast(toApiError(thrown).message),
  )
}

function forget(id: number): void {
  shown.value = shown.value.filter((one) => one.id !== id)
}
