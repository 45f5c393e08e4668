/** The contents of a call, question and answer: read on demand, because each reading is in the audit log. */
import type { RequestContent } from '../answers.ts'
import { html } from '../html.ts'
import { Code, Json } from '../parts/copy.ts'
import { Notice } from '../parts/states.ts'

export function contentPath(id: string): string {
  return `/admin/requests/${encodeURIComponent(id)}/content`
}

export function ContentOf({ content }: { readonly content: RequestContent }) {
  const { input, output, cut } = content
  return html`<div class="stack">
    ${cut && html`<${Notice} tone="warn">There was more than is kept.<//>`}
    <${Json} value=${input} label="Request, in the gateway's own form" />
    ${output.length === 0 && html`<p class="muted">The answer had no text.</p>`}
    ${output.map(
      ({ choice, channel, text }, index) =>
        html`<${Code} key=${index} label=${choice > 0 ? `${channel}, choice ${choice}` : channel} text=${text} wrap />`,
    )}
  </div>`
}
