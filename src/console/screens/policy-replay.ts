/** Tries a policy on calls whose contents were kept. */
import { useState } from 'preact/hooks'
import { call, toApiError, withQuery, type ApiError } from '../api.ts'
import type { Policy } from '../answers.ts'
import { html } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Failure } from '../parts/states.ts'

const CALLS = 50

/** The answer of `POST /admin/policies/replay`. */
interface Replayed {
  readonly calls?: number
  readonly changed?: readonly {
    readonly id: string
    readonly side?: string
    readonly rule?: string
    readonly verdict?: string
  }[]
}

/** The button, and what it found. @param policy undefined while it is wrong */
export function Replay({
  keyId,
  policy,
}: {
  readonly keyId: string
  readonly policy: Policy | undefined
}) {
  const [found, setFound] = useState<Replayed>()
  const [error, setError] = useState<ApiError>()
  const [busy, setBusy] = useState(false)
  const run = async () => {
    setBusy(true)
    setError(undefined)
    try {
      const { data } = await call<{ data: Replayed }>('POST', '/admin/policies/replay', {
        body: { policy, key: keyId, limit: CALLS },
      })
      setFound(data)
    } catch (thrown) {
      setError(toApiError(thrown))
    }
    setBusy(false)
  }
  const changed = found?.changed ?? []
  return html`<p class="help">Compares the verdicts on the last ${CALLS} calls of this key whose contents were kept.</p>
    ${error && (error.status === 404 ? html`<p class="muted">No contents are kept on this gateway, so there is nothing to replay.</p>` : html`<${Failure} error=${error} />`)}
    ${found && html`<p>${found.calls ?? 0} calls with content, ${changed.length} with another verdict.</p>`}
    ${
      changed.length > 0 &&
      html`<ul>
      ${changed.map(({ id, side, rule, verdict }) => html`<li key=${id}><a class="mono" href=${withQuery('/console/requests', { open: id })}>${id}</a> ${[side, rule, verdict].filter(Boolean).join(' ')}</li>`)}
    </ul>`
    }
    <div><${Button} role="admin" busy=${busy} onClick=${() => policy && run()}>Run<//></div>`
}
