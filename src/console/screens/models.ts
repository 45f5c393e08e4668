/** Models: their prices, capabilities, and health. */
import { useState } from 'preact/hooks'
import { useAnswer, call } from '../api.ts'
import type { ModelRow, HealthState, PriceSource } from '../answers.ts'
import { count, shortCount, duration, exactMoney, money } from '../format.ts'
import { html, type Content } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Money, Facts, Time } from '../parts/facts.ts'
import { Filters, isFiltered, type Filter } from '../parts/filters.ts'
import { Panel } from '../parts/panel.ts'
import { Answered, Empty } from '../parts/states.ts'
import { ColumnChoice, hrefOpening, Table, type Column } from '../parts/table.ts'
import { place, setQuery } from '../state.ts'
import { Heads } from '../parts/heads.ts'
import { isPerToken, Price, pricesOf, perMillion } from './model-prices.ts'
import { PriceImport } from './price-import.ts'
import { Confirm } from '../parts/confirm.ts'
import { SelectField } from '../parts/form.ts'
import { Sheet } from '../parts/sheet.ts'
import type {
  Deployment as SentDeployment,
  UnservedAnswer,
} from '../../server/admin/resources/model.ts'
import type { Read } from '../amounts.ts'

/** An older list of prices may be out of date. */
const OLD_DAYS = 90

const DAY_MS = 86_400_000

function Source({ source }: { readonly source: PriceSource | null | undefined }): Content {
  if (!source) return '–'
  const { from, checked_at: at } = source
  if (from === 'own' || !at) return html`<span>${from === 'own' ? 'own' : from}</span>`
  const days = Math.floor((Date.now() - Date.parse(at)) / DAY_MS)
  const text = days < 1 ? 'today' : `${days} days ago`
  return html`<span title=${`${from}, ${at}`}
    >${from}, ${days > OLD_DAYS ? html`<span class="warn">! ${text}</span>` : text}</span
  >`
}

// The state of a deployment, in word and shape.

const MARKS: Readonly<Record<HealthState, string>> = { healthy: '●', probing: '◐', cooldown: '○' }
const TONES: Readonly<Record<HealthState, string>> = {
  healthy: 'ok',
  probing: 'warn',
  cooldown: 'bad',
}

function Health({ state }: { readonly state: HealthState }) {
  return html`<span class=${TONES[state]}>${MARKS[state]} ${state}</span>`
}

const FILTERS: readonly Filter[] = [
  { name: 'q', label: 'text', placeholder: 'part of an id' },
  {
    name: 'modality',
    label: 'modality',
    values: [
      'chat',
      'image',
      'ocr',
      'speech',
      'transcription',
      'embedding',
      'rerank',
      'moderation',
    ],
  },
  { name: 'state', label: 'state', values: ['healthy', 'probing', 'cooldown'] },
]
const COLUMNS: readonly Column<ModelRow>[] = [
  { key: 'id', label: 'Model', cell: ({ id }) => id },
  { key: 'modality', label: 'Modality', cell: ({ modality }) => modality, phone: 'rest' },
  {
    key: 'prompt',
    label: 'Prompt',
    cell: tokenPrice('prompt'),
    end: true,
    phone: 'none',
  },
  {
    key: 'completion',
    label: 'Completion',
    cell: tokenPrice('completion'),
    end: true,
    phone: 'none',
  },
  { key: 'unit', label: 'Unit', cell: unitOf, end: true, phone: 'none' },
  {
    key: 'source',
    label: 'Price from',
    cell: (row) => html`<${Source} source=${row.price_source} />`,
    phone: 'none',
  },
  {
    key: 'calls',
    label: 'Calls',
    cell: ({ last_24h: last }) =>
      html`${shortCount(last?.calls)}<span class="narrow"> calls</span>`,
    end: true,
    phone: 'rest',
  },
  {
    key: 'cost',
    label: 'Cost',
    cell: ({ last_24h: last }) => html`<${Money} usd=${last?.cost_usd} />`,
    end: true,
    phone: 'rest',
  },
  { key: 'health', label: 'Deployments', cell: healthOf, phone: 'figure' },
]
const EVERY_MS = 15_000

export function Models() {
  const [importing, setImporting] = useState(false)
  const answer = useAnswer<{ data: readonly ModelRow[] }>('/admin/models', { every: EVERY_MS })
  const open = place.value.query.get('open') ?? undefined
  return html`<div class="screen">
    <header class="screen-head">
      <h1>Models</h1>
      <${Filters} filters=${FILTERS} />
      <div class="screen-actions">
        <${ColumnChoice} name="models" columns=${COLUMNS} />
        <${Button} right="config" onClick=${() => setImporting(true)}>Import prices<//>
      </div>
    </header>
    <${Answered} of=${answer} lines=${10}>
      ${({ data }: { data: readonly ModelRow[] }) => {
        const rows = data.filter(matches)
        return html`${
          rows.length === 0
            ? html`<${Nothing} />`
            : html`<${Table}
                  name="models"
                  caption="Models"
                  columns=${COLUMNS}
                  rows=${rows}
                  idOf=${(row: ModelRow) => row.id}
                  hrefOf=${(row: ModelRow) => hrefOpening(row.id)}
                  open=${open}
                />`
        }
          <p class="caption">
            ${count(rows.length)} models. Prices of tokens are for a million. Calls and cost: the
            last 24 hours.
          </p>
          ${
            open !== undefined &&
            html`<${ModelSheet}
              id=${open}
              model=${data.find(({ id }) => id === open)}
              onChanged=${answer.reload}
              onClose=${() => setQuery({ open: undefined }, { replace: true })}
            />`
          }`
      }}
    <//>
    <${Unserved} />
    ${
      importing &&
      html`<${PriceImport} onDone=${answer.reload} onClose=${() => setImporting(false)} />`
    }
  </div>`
}

const REASONS: Readonly<Record<UnservedAnswer['reason'], string>> = {
  no_price: 'no price list has it',
  unknown: 'no model is called so',
  ambiguous: 'several models are called so',
  disabled: 'its entry is not enabled',
  gone: 'its vendor has it no more',
}

/** Names that clients asked for and that are not served; nothing where there are none. */
function Unserved() {
  const { data } = useAnswer<{ data: readonly UnservedAnswer[] }>('/admin/models/unserved', {
    every: EVERY_MS,
  })
  if (!data || data.data.length === 0) return null
  return html`<${Panel} title="Asked for and not served">
    <table class="plain stacked">
      <${Heads} names=${['Name', 'Why', 'Asked', 'Last', 'What changes it']} end=${['Asked']} />
      <tbody>
        ${data.data.map(
          ({ name, reason, asked, last_at, remedy }) =>
            html`<tr key=${name}>
              <th scope="row" class="mono">${name}</th>
              <td>${REASONS[reason]}</td>
              <td class="end number">${count(asked)}</td>
              <td><${Time} at=${last_at} /></td>
              <td class="mono">${remedy}</td>
            </tr>`,
        )}
      </tbody>
    </table>
  <//>`
}

function Nothing() {
  return isFiltered(FILTERS)
    ? html`<${Empty} title="No models match."><p class="muted">Remove a filter above.</p><//>`
    : html`<${Empty} title="There are no models.">
        <p class="muted">A provider in the configuration brings its models along.</p>
      <//>`
}

function tokenPrice(name: string) {
  return ({ pricing }: ModelRow): Content => {
    const usd = pricing[name]
    return typeof usd === 'string' ? html`<${Price} name=${name} usd=${usd} />` : '–'
  }
}

function unitOf({ pricing }: ModelRow): Content {
  const units = pricesOf(pricing).filter(([name]) => !isPerToken(name))
  if (units.length === 0) return '–'
  return units.map(
    ([name, usd], index) => html`${index > 0 ? ', ' : ''}<${Price} name=${name} usd=${usd} />`,
  )
}

/** The number of deployments in each state; the bad ones first. */
function healthOf({ deployments }: ModelRow): Content {
  const states = (['cooldown', 'probing', 'healthy'] as const).map((state) => ({
    state,
    many: deployments.filter(({ health }) => health.state === state).length,
  }))
  const present = states.filter(({ many }) => many > 0)
  if (present.length === 0) return html`<span class="muted">none</span>`
  return html`<span class="states"
    >${present.map(
      ({ state, many }) =>
        html`<span key=${state}
          ><${Health} state=${state} />${deployments.length > 1 ? ` ${many}` : ''}</span
        >`,
    )}</span
  >`
}

function matches({ id, aliases, modality, deployments }: ModelRow): boolean {
  const { query } = place.value
  const [texts, modalities, states] = ['q', 'modality', 'state'].map((name) => query.getAll(name))
  const names = [id, ...aliases].map((name) => name.toLowerCase())
  return (
    (texts!.length === 0 ||
      texts!.some((text) => names.some((name) => name.includes(text.toLowerCase())))) &&
    (modalities!.length === 0 || modalities!.includes(modality)) &&
    (states!.length === 0 || deployments.some(({ health }) => states!.includes(health.state)))
  )
}

// One model: prices, deployments and their health, and disabling a deployment.

const SPANS = [
  { value: '300', label: '5 minutes' },
  { value: '3600', label: '1 hour' },
  { value: '21600', label: '6 hours' },
  { value: '86400', label: '24 hours' },
]

/** @param model undefined where the catalog has none of that id */
function ModelSheet({
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
          ? html`<${Button} right="keys" onClick=${() => setAsking('cooldown')}>Cool down<//>`
          : html`<${Button} right="keys" onClick=${() => setAsking('resume')}>Resume<//>`
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

type Deployment = Read<SentDeployment> & Partial<ModelRow['deployments'][number]>
