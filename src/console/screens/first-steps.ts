/** First steps with a gateway that was never called: three steps that tick themselves off. */
import { useRef } from 'preact/hooks'
import { signal } from '@preact/signals'
import { useAnswer } from '../api.ts'
import { html, type Content } from '../html.ts'
import { Panel } from '../parts/panel.ts'
import { Snippets } from '../parts/snippets.ts'

const looked = signal(false)

/** The steps; once shown they stay until the screen is left. @param called whether a call was made */
export function FirstSteps({
  shown,
  called,
}: {
  readonly shown: boolean
  readonly called: boolean
}) {
  const begun = useRef(false)
  if (shown) begun.current = true
  const keys = useAnswer<{ data: readonly { readonly name: string }[] }>(
    begun.current ? '/admin/keys' : null,
    { every: 5000 },
  ).data?.data
  if (!begun.current) return null
  return html`<${Panel} title="Three steps">
    <ol class="steps">
      <${Step} done=${called}>
        <p><b>Make a call.</b> <code>$API_KEY</code> is the key that the first start printed.</p>
        <${Snippets} first />
      <//>
      <${Step} done=${looked.value}>
        <p>
          <b>See it.</b> It is under
          <a href="/console/requests" onClick=${() => (looked.value = true)}>Requests</a>, with its
          cost and where its time went.
        </p>
      <//>
      <${Step} done=${(keys?.length ?? 0) > 1}>
        <p>
          <b>Make a key of your own</b> under <a href="/console/keys">Keys</a>: with limits, models
          and a policy.
        </p>
      <//>
    </ol>
  <//>`
}

function Step({ done, children }: { readonly done: boolean; readonly children?: Content }) {
  return html`<li>
    <span class=${done ? 'ok' : 'muted'}
      >${done ? '✓' : '○'}<span class="hidden">${done ? 'done' : 'to do'}</span></span
    >
    <div class="stack">${children}</div>
  </li>`
}
