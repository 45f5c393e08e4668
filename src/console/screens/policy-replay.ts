/** Tries a policy on calls whose contents were kept. */
import { useState } from 'preact/hooks'
import { call, toApiError, withQuery, type ApiError } from '../api.ts'
import type { Policy } from '../answers.ts'
import { html } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Failure } from '../parts/states.ts'
import type { Replayed } from '../../server/admin/resources/policy.ts'

const CALLS = 50

/** The button, and its result. @param policy undefined while it is wrong */
export function Replay({
  keyId,
  policy,
}: {
  readonly keyId: string
  readonly policy: Policy | undefined
}) {
  const [replayed, setReplayed] = useState<Replayed>()
  const [error, setError] = useState<ApiError>()
  const [busy, setBusy] = useState(false)
  const run = async () => {
    setBusy(true)
    setError(undefined)
    try {
      const { data } = await call<{ data: Replayed }>('POST', '/admin/policies/replay', {
        body: { policy, key: keyId, limit: CALLS },
      })
      setReplayed(data)
    } catch (thrown) {
      setError(toApiError(thrown))
    }
    setBusy(false)
  }
  return html`<p class="help">Compares the verdicts on the last ${CALLS} calls of this key whose contents were kept.</p>
    ${error && html`<${Failure} error=${error} />`}
    ${replayed && html`<${Changes} found=${replayed} />`}
    <div><${Button} role="admin" busy=${busy} onClick=${() => policy && run()}>Run<//></div>`
}

function Changes({ found }: { readonly found: Replayed }) {
  const { contents, calls, unreadable, cut, blocked, changed } = found
  if (contents === 0)
    return html`<p class="muted">No contents of this key are kept, so there is nothing to replay.</p>`
  return html`<p>
      ${calls} calls with content, ${changed.length} with another verdict; ${blocked.before} were blocked, ${blocked.after} would be.
    </p>
    ${unreadable + cut > 0 && html`<p class="muted">${unreadable} are too long to be read, of ${cut} the refused answer was not kept.</p>`}
    <ul>
      ${changed.map(
        ({ id, side, from, to, rules }) =>
          html`<li key=${id}><a class="mono" href=${withQuery('/console/requests', { open: id })}>${id}</a> ${side}: ${from} → ${to}, ${rules.join(', ')}</li>`,
      )}
    </ul>`
}
