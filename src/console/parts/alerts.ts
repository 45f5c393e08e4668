/** Alerts in words: the kind, what it is about with its link, and the cause. */
import { muteOf, perform } from '../acts.ts'
import type { Alert } from '../answers.ts'
import { hrefOfObject } from '../api.ts'
import { html } from '../html.ts'
import { manual } from '../state.ts'
import { ALERTS } from '../text.ts'
import { Button } from './button.ts'
import { Time } from './facts.ts'

export function ActiveAlerts({ alerts }: { readonly alerts: readonly Alert[] }) {
  return html`<ul class="lines">
    ${alerts.map((alert) => html`<${Active} key=${alert.id} alert=${alert} />`)}
  </ul>`
}

function Active({ alert }: { readonly alert: Alert }) {
  const { id, kind, since, subject, muted_until: until } = alert
  const mute = muteOf(id, subject.name || kind)
  return html`<li>
    <span>
      <span class="warn" aria-hidden="true">! </span><${AlertText} alert=${alert} />
      <span class="muted"> since <${Time} at=${since} /></span>
      <${Meaning} page=${`operate/alerts#${kind}`} />
    </span>
    ${
      until && Date.parse(until) > Date.now()
        ? html`<span class="muted">silent until <${Time} at=${until} /></span>`
        : html`<${Button} right=${mute.right} onClick=${() => perform(mute)}>${mute.verb}<//>`
    }
  </li>`
}

/** Opens the manual where it says what an alert means. */
export function Meaning({ page }: { readonly page: string }) {
  return html`<${Button} kind="quiet" title="What this means" onClick=${() => (manual.value = page)}
    ><span aria-hidden="true">?</span><span class="hidden">What this means</span><//
  >`
}

export function AlertText({
  alert: { kind, subject, cause },
}: {
  readonly alert: Pick<Alert, 'kind' | 'subject' | 'cause'>
}) {
  const href = hrefOfObject(subject)
  return html`<b title=${kind}>${ALERTS[kind] ?? kind}</b>${' '}
    ${href ? html`<a href=${href}><bdi>${subject.name}</bdi></a>` : html`<bdi>${subject.name}</bdi>`}: ${cause}`
}
