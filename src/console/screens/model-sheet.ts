/** One model: prices, deployments and their health, and disabling a deployment. */
import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import type { Deployment, ModelRow } from '../answers.ts'
import { count, duration, exactMoney, money, shortCount } from '../format.ts'
import { html, type Content } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Confirm } from '../parts/confirm.ts'
import { Facts, Time } from '../parts/facts.ts'
import { SelectField } from '../parts/form.ts'
import { Sheet } from '../parts/sheet.ts'
import { Empty } from '../parts/states.ts'
import { Health } from './model-health.ts'
import { isPerToken, perMillion, pricesOf, Source } from './model-prices.ts'

const SPANS = [
  { value: '300', label: '5 minutes' },
  { value: '3600', label: '1 hour' },
  { value: '21600', label: '6 hours' },
  { value: '86400', label: '24 hours' },
]

/** @param model undefined where the catalog has none of that id */
export function ModelSheet({
  id,
  model,
  onChanged,
  onClose,
}: {
  readonly id: string
  readonly model: ModelRow | undefined
  readonly onChanged: () => void
  readonly onClose: () => void
}) {
  return html`<${Sheet} title=${id} onClose=${onClose}>
    ${
      model
        ? html`<${Details} model=${model} onChanged=${onChanged} />`
        : html`<${Empty} title="There is no such model.">
            <p class="muted">It may have been taken out of the configuration.</p>
          <//>`
    }
  <//>`
}

function Details({
  model,
  onChanged,
}: {
  readonly model: ModelRow
  readonly onChanged: () => void
}) {
  const { id, aliases, modality, free_tier, capabilities } = model
  const named = encodeURIComponent(id)
  const facts: (readonly [string, Content])[] = [
    ['Modality', modality],
    ['Other names', aliases.length > 0 ? aliases.join(', ') : '–'],
    ['Free tier', free_tier ? 'yes' : 'no'],
    ['Can', abilitiesOf(capabilities)],
    ['Price from', html`<${Source} source=${model.price_source} />`],
  ]
  return html`<div class="stack">
    <p class="actions">
      <a class="button" href=${`/console/play?model=${named}`}>Test call</a>
      <a class="button quiet" href=${`/console/usage?model=${named}&group=key`}>Usage</a>
      <a class="button quiet" href=${`/console/requests?model=${named}`}>Requests</a>
    </p>
    <${Facts} facts=${facts} />
    <section>
      <h3>Prices</h3>
      <${Prices} pricing=${model.pricing} />
      ${
        model.next_price_change &&
        html`<h3>From <${Time} at=${model.next_price_change.from} /> on</h3>
          <${Prices} pricing=${model.next_price_change.pricing} />`
      }
    </section>
    <section class="stack">
      <h3>Deployments</h3>
      ${
        model.deployments.length === 0
          ? html`<p class="muted">None: calls for this model fail.</p>`
          : model.deployments.map(
              (deployment) =>
                html`<${OneDeployment}
                  key=${deployment.id}
                  deployment=${deployment}
                  onChanged=${onChanged}
                />`,
            )
      }
    </section>
  </div>`
}

function Prices({ pricing }: { readonly pricing: ModelRow['pricing'] }) {
  const prices = pricesOf(pricing)
  return html`<table class="plain cost">
    <tbody>
      ${prices.map(
        ([name, usd]) =>
          html`<tr key=${name}>
            <th scope="row">${name.replaceAll('_', ' ')}</th>
            <td class="end number">
              ${exactMoney(usd)}
              ${isPerToken(name) ? html`<span class="muted"> · ${money(perMillion(usd))} a million</span>` : null}
            </td>
          </tr>`,
      )}
    </tbody>
  </table>`
}

function OneDeployment({
  deployment: { id, weight, priority, health, failures_24h: failures },
  onChanged,
}: {
  readonly deployment: Deployment
  readonly onChanged: () => void
}) {
  const [asking, setAsking] = useState<'cooldown' | 'resume'>()
  const [seconds, setSeconds] = useState(SPANS[0]!.value)
  const act = async () => {
    const path = `/admin/deployments/${encodeURIComponent(id)}/${asking}`
    const body = asking === 'cooldown' ? { seconds: Number(seconds) } : {}
    await call('POST', path, { body })
    setAsking(undefined)
    onChanged()
  }
  const facts: (readonly [string, Content])[] = [
    ['Since', html`<${Time} at=${health.since} />`],
    ['Until', health.rests_until ? html`<${Time} at=${health.rests_until} />` : '–'],
    ['Last failure', health.last_failure ? html`<code>${health.last_failure}</code>` : 'none'],
    ['The vendor said', health.vendor_message ?? '–'],
    ['Failures, 24 h', failuresOf(failures)],
    ['First part', health.latency_ms === null ? '–' : `${duration(health.latency_ms)} on average`],
    ['Running', shortCount(health.in_flight)],
    ['Choice', `priority ${priority}, weight ${weight}`],
  ]
  return html`<section class="panel">
    <header>
      <h3>${id} <${Health} state=${health.state} /></h3>
      ${
        health.state === 'healthy'
          ? html`<${Button} role="admin" onClick=${() => setAsking('cooldown')}>Cool down<//>`
          : html`<${Button} role="admin" onClick=${() => setAsking('resume')}>Resume<//>`
      }
    </header>
    <div class="panel-body"><${Facts} facts=${facts} /></div>
    ${
      asking === 'cooldown' &&
      html`<${Confirm}
        title=${`Take ${id} out?`}
        verb="Cool down"
        act=${act}
        onClose=${() => setAsking(undefined)}
      >
        <p>
          New calls go to other deployments of its models; where there is none, they fail. Running
          calls go on. This holds on all gateways.
        </p>
        <${SelectField} label="For" value=${seconds} options=${SPANS} onChange=${setSeconds} />
      <//>`
    }
    ${
      asking === 'resume' &&
      html`<${Confirm}
        title=${`Take ${id} back in?`}
        verb="Resume"
        danger=${false}
        act=${act}
        onClose=${() => setAsking(undefined)}
      >
        <p>The next calls are sent to it, as to the others.</p>
      <//>`
    }
  </section>`
}

function failuresOf(failures: Deployment['failures_24h']): string {
  if (!failures) return '–'
  const reasons = Object.entries(failures)
  return reasons.length === 0
    ? '0'
    : reasons.map(([name, many]) => `${name} ${count(many)}`).join(', ')
}

function abilitiesOf(capabilities: ModelRow['capabilities']): string {
  if (capabilities === null) return 'not stated: everything is tried'
  if (capabilities.length === 0) return '–'
  return capabilities.map((one) => one.toLowerCase().replaceAll('_', ' ')).join(', ')
}
