/** What became of a call, and ending one that runs: for every screen that lists calls. */
import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import type { ShownCall } from '../answers.ts'
import { html } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Confirm } from '../parts/confirm.ts'
import { CODES } from '../text.ts'

/** Word, number and colour of what became of a call. */
export function Status({ row }: { readonly row: ShownCall }) {
  const { status, code, outcome, running, guard } = row
  if (running) return html`<span class="state">running</span>`
  const word =
    code === null
      ? guard?.outcome === 'blocked'
        ? 'refused'
        : outcome === 'cancelled'
          ? 'client left'
          : ''
      : (CODES[code] ?? code.replaceAll('_', ' '))
  const tone =
    status === null || status >= 500
      ? 'bad'
      : status >= 400
        ? 'warn'
        : guard?.outcome === 'blocked'
          ? 'warn'
          : ''
  return html`<span class="outcome" title=${row.error ?? ''}
    ><span class=${`state ${tone}`}>${status || '–'}</span>${' '}${word}</span
  >`
}

/** Ends a running call, after a question. */
export function EndCall({ id }: { readonly id: string }) {
  const [asking, setAsking] = useState(false)
  const end = async () => {
    await call('POST', `/admin/requests/${id}/end`)
    setAsking(false)
  }
  return html`<${Button} role="admin" onClick=${() => setAsking(true)}>End<//> ${
    asking &&
    html`<${Confirm}
        title="End this call?"
        verb="End call"
        act=${end}
        onClose=${() => setAsking(false)}
      >
        <p>
          The client gets the error <code>service_unavailable</code>. What was produced until then
          is charged, as if the client had left.
        </p>
      <//>`
  }`
}
