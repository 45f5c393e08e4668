/** Alerts: active ones, ended ones, and muting one. */
import { call, useAnswer } from '../api.ts'
import type { Alert } from '../answers.ts'
import { html } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Time } from '../parts/facts.ts'
import { useSubmission } from '../parts/form.ts'
import { Panel } from '../parts/panel.ts'
import { Answered, Failure } from '../parts/states.ts'

const EVERY_MS = 10_000
const MUTE_SECONDS = 86_400

export function Alerts() {
  const answer = useAnswer<{ data: readonly Alert[] }>('/admin/alerts', { every: EVERY_MS })
  return html`<${Answered} of=${answer}>
    ${({ data }: { data: readonly Alert[] }) => {
      const active = data.filter(({ ended_at }) => !ended_at)
      const ended = data.filter(({ ended_at }) => ended_at)
      return html`<div class="stack">
        <${Panel} title="Active">
          ${
            active.length === 0
              ? html`<p><span class="ok" aria-hidden="true">✓ </span>No alert is active.</p>`
              : html`<ul class="lines">
                  ${active.map(
                    (alert) =>
                      html`<${Active} key=${alert.id} alert=${alert} onMuted=${answer.reload} />`,
                  )}
                </ul>`
          }
        <//>
        <${Panel} title="Ended">
          ${
            ended.length === 0
              ? html`<p class="muted">None yet.</p>`
              : html`<ul class="lines">
                  ${ended.map(
                    ({ id, kind, object, message, since, ended_at }) =>
                      html`<li key=${`${id} ${since}`}>
                        <span><b>${kind}</b> ${message ?? object ?? ''}</span>
                        <span class="muted"><${Time} at=${since} /> … <${Time} at=${ended_at} /></span>
                      </li>`,
                  )}
                </ul>`
          }
        <//>
      </div>`
    }}
  <//>`
}

function Active({ alert, onMuted }: { readonly alert: Alert; readonly onMuted: () => void }) {
  const { id, kind, object, message, since, muted_until } = alert
  const mute = useSubmission(async () => {
    await call('POST', `/admin/alerts/${encodeURIComponent(id)}/mute`, {
      body: { seconds: MUTE_SECONDS },
    })
    onMuted()
  })
  return html`<li>
    <span>
      <b class="warn">! ${kind}</b> ${message ?? object ?? ''}
      <span class="muted"> since <${Time} at=${since} /></span>
      ${mute.error && html`<${Failure} error=${mute.error} />`}
    </span>
    ${
      muted_until
        ? html`<span class="muted">silent until <${Time} at=${muted_until} /></span>`
        : html`<${Button} role="admin" busy=${mute.busy} onClick=${() => mute.submit()}>Mute a day<//>`
    }
  </li>`
}
