/** A secret that is shown once: with ways to use it, and a question before it is left. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { html, type Content } from '../html.ts'
import { stayWhile } from '../state.ts'
import { Button } from './button.ts'
import { Copy } from './copy.ts'
import { Dialog } from './sheet.ts'
import { Snippets } from './snippets.ts'

const QUESTION = 'Stored it? It cannot be shown again.'

/** The one time that a secret is on the page. It is in no signal and in no store: leaving this forgets it. */
export function SecretOnce({
  title,
  secret,
  onStored,
  children,
}: {
  readonly title: string
  readonly secret: string
  readonly onStored: () => void
  readonly children?: Content
}) {
  const [asking, setAsking] = useState(false)
  const leave = useRef(() => {})
  useEffect(() => (leave.current = stayWhile(() => QUESTION)), [])
  const stored = () => {
    leave.current()
    onStored()
  }
  return html`<${Dialog} title=${title} wide onClose=${() => setAsking(true)}>
    ${children}
    <p>This is the only time that the key can be read. The gateway keeps a hash of it.</p>
    <div class="secret">
      <code class="mono" tabindex="0">${secret}</code>
      <${Copy} text=${secret} label="Copy key" />
    </div>
    <${Snippets} secret=${secret} />
    ${
      asking
        ? html`<div class="notice warn" role="alert">
            <p><strong>${QUESTION}</strong></p>
            <div class="actions">
              <${Button} kind="primary" onClick=${stored}>It is stored<//>
              <${Button} onClick=${() => setAsking(false)}>Back<//>
            </div>
          </div>`
        : html`<div class="actions">
            <${Button} kind="primary" onClick=${stored}>It is stored<//>
          </div>`
    }
  <//>`
}
