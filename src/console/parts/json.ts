/** Text as it is: JSON, commands, answers. */
import { html } from '../html.ts'
import { Copy } from './copy.ts'

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
