/** A secret that is shown once: with ways to use it, and a question before it is left. */
import { useEffect, useState } from 'preact/hooks'
import { html, type Content } from '../html.ts'
import { stayWhile } from '../state.ts'
import { Button } from './button.ts'
import { Copy } from './copy.ts'
import { Code } from './json.ts'
import { Dialog } from './sheet.ts'

const QUESTION = 'Stored it? It cannot be shown again.'

/** Ways to call the gateway; `secret` is the key, or the name of a variable that has it. */
export function snippets(
  secret: string,
): readonly { readonly label: string; readonly text: string }[] {
  const base = `${location.origin}/v1`
  const body = '{"model":"mock/echo","messages":[{"role":"user","content":"Hello"}]}'
  const quoted = secret.startsWith('$') ? `os.environ["${secret.slice(1)}"]` : `"${secret}"`
  return [
    {
      label: 'curl',
      text: `curl ${base}/chat/completions \\\n  -H "Authorization: Bearer ${secret}" \\\n  -H "Content-Type: application/json" \\\n  -d '${body}'`,
    },
    {
      label: 'OpenAI SDK (Python)',
      text: `from openai import OpenAI\n\nclient = OpenAI(base_url="${base}", api_key=${quoted})`,
    },
    {
      label: 'Coding client',
      text: `export OPENAI_BASE_URL=${base}\nexport OPENAI_API_KEY=${secret}\nexport ANTHROPIC_BASE_URL=${location.origin}\nexport ANTHROPIC_AUTH_TOKEN=${secret}`,
    },
  ]
}

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
  useEffect(() => stayWhile(() => QUESTION), [])
  return html`<${Dialog} title=${title} wide onClose=${() => setAsking(true)}>
    ${children}
    <p>This is the only time that the key can be read. The gateway keeps a hash of it.</p>
    <div class="secret">
      <code class="mono" tabindex="0">${secret}</code>
      <${Copy} text=${secret} label="Copy key" />
    </div>
    ${snippets(secret).map(({ label, text }) => html`<${Code} key=${label} text=${text} label=${label} />`)}
    ${
      asking
        ? html`<div class="notice warn" role="alert">
            <p><strong>${QUESTION}</strong></p>
            <div class="actions">
              <${Button} kind="primary" onClick=${onStored}>It is stored<//>
              <${Button} onClick=${() => setAsking(false)}>Back<//>
            </div>
          </div>`
        : html`<div class="actions">
            <${Button} kind="primary" onClick=${() => setAsking(true)}>Done<//>
          </div>`
    }
  <//>`
}
