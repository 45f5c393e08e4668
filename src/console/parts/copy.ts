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
