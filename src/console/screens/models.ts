/** Models: their prices, capabilities, and health. */
import { useState } from 'preact/hooks'
import { useAnswer } from '../api.ts'
import type { ModelRow, HealthState, PriceSource } from '../answers.ts'
import { MISSING, count, shortCount, duration, exactMoney, money } from '../format.ts'
import { html, type Content } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Money, Facts, Time } from '../parts/facts.ts'
import { Filters, isFiltered, type Filter } from '../parts/filters.ts'
import { Panel } from '../parts/panel.ts'
import { Answered, Empty, Notice } from '../parts/states.ts'
import { amounts, ColumnChoice, hrefOpening, Table, type Column } from '../parts/table.ts'
import { allows, place, setQuery, type ScreenProps } from '../state.ts'
import { actsOf, coolDown, perform, resumeOf, testOf, useOpened } from '../acts.ts'
import { useKeys } from '../keys.ts'
import { MoreActs } from '../parts/menu.ts'
import { Tabs } from '../parts/tabs.ts'
import { ModelForm } from './model-form.ts'
import { changeEntries, Where } from './vendor-key.ts'
import { Vendors } from './vendors.ts'
import type { ManagedAnswer } from '../../server/admin/resources/managed.ts'
import { Heads } from '../parts/heads.ts'
import { isPerToken, Price, pricesOf, perMillion } from './model-prices.ts'
import { PriceImport } from './price-import.ts'
import { Confirm } from '../parts/confirm.ts'
import { Sheet } from '../parts/sheet.ts'
import type {
  Deployment as SentDeployment,
  UnservedAnswer,
} from '../../server/admin/resources/model.ts'
import type { Read } from '../amounts.ts'
import { actorText } from '../text.ts'

/** An older list of prices may be out of date. */
const OLD_DAYS = 90

const DAY_MS = 86_400_000

function Source({ source }: { readonly source: PriceSource | null | undefined }): Content {
  if (!source) return MISSING
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
const WORDS: Readonly<Record<HealthState, string>> = {
  healthy: 'healthy',
  probing: 'being tried again',
  cooldown: 'left out',
}
const TONES: Readonly<Record<HealthState, string>> = {
  healthy: 'ok',
  probing: 'warn',
  cooldown: 'bad',
}

function Health({ state }: { readonly state: HealthState }) {
  return html`<span class=${TONES[state]}>${MARKS[state]} ${WORDS[state]}</span>`
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
    cell: ({ last_24h: last }) => shortCount(last?.calls),
    end: true,
    phone: 'rest',
  },
  amounts(({ last_24h: last }) => last?.cost_usd, {
    key: 'cost',
    label: 'Cost',
    phone: 'rest',
  }),
  { key: 'health', label: 'Deployments', cell: healthOf, phone: 'figure' },
]
const EVERY_MS = 15_000

const TABS = [
  { key: 'models', label: 'Models' },
  { key: 'vendors', label: 'Vendors' },
  { key: 'unserved', label: 'Asked for, not served' },
]

export function Models({ params: { tab = 'models' } }: ScreenProps) {
  const tabs = TABS.map((one) => ({ ...one, href: `/console/models/${one.key}` }))
  return html`<div class="screen">
    <header class="screen-head"><h1>Models</h1></header>
    <${Tabs} label="Parts of the models" current=${tab} tabs=${tabs} />
    ${tab === 'vendors' ? html`<${Vendors} />` : tab === 'unserved' ? html`<${Unserved} />` : html`<${List} />`}
  </div>`
}

function List() {
  const [importing, setImporting] = useOpened('import')
  const [adding, setAdding] = useOpened('add')
  useKeys({ n: () => allows('config') && setAdding('') })
  const answer = useAnswer<{ data: readonly ModelRow[] }>('/admin/models', { every: EVERY_MS })
  const open = place.value.query.get('open') ?? undefined
  return html`<div class="screen">
    <div class="screen-head">
      <${Filters} filters=${FILTERS} />
      <div class="screen-actions">
        <${ColumnChoice} name="models" columns=${COLUMNS} />
        <${Button} right="config" onClick=${() => setImporting('')}>Import prices<//>
        <${Button} kind="primary" right="config" onClick=${() => setAdding('')}>Add a model<//>
      </div>
    </div>
    <${Answered} of=${answer} lines=${10}>
      ${({ data }: { data: readonly ModelRow[] }) => {
        const rows = data.filter(matches).toSorted((one, other) => harmOf(one) - harmOf(other))
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
                  actsOf=${({ id }: ModelRow) => actsOf({ kind: 'model', id, name: id })}
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
              onClose=${() => setQuery({ open: undefined }, { replace: true })}
            />`
          }`
      }}
    <//>
    ${adding !== undefined && html`<${ModelForm} name=${adding} onClose=${() => setAdding(undefined)} />`}
    ${importing !== undefined && html`<${PriceImport} onDone=${answer.reload} onClose=${() => setImporting(undefined)} />`}
  </div>`
}

const REASONS: Readonly<Record<UnservedAnswer['reason'], string>> = {
  no_price: 'no price list has it',
  unknown: 'no model is called so',
  ambiguous: 'several models are called so',
  disabled: 'its entry is not enabled',
  gone: 'its vendor has it no more',
}

/** Names that clients asked for and that are not served, each with what changes that. */
function Unserved() {
  const answer = useAnswer<{ data: readonly UnservedAnswer[] }>('/admin/models/unserved', {
    every: EVERY_MS,
  })
  const [importing, setImporting] = useState(false)
  const [adding, setAdding] = useState<string>()
  const mend = ({ name, reason }: UnservedAnswer): Content =>
    reason === 'no_price'
      ? html`<${Button} kind="quiet" right="config" onClick=${() => setImporting(true)}>Take its price<//>`
      : html`<${Button} kind="quiet" right="config" onClick=${() => setAdding(name)}>${reason === 'disabled' ? 'Enable' : 'Add it'}<//>`
  return html`<${Answered} of=${answer}>
      ${({ data }: { data: readonly UnservedAnswer[] }) =>
        data.length === 0
          ? html`<${Empty} title="Every name that was asked for is served." />`
          : html`<${Panel} title="Asked for and not served">
              <table class="plain ruled stacked">
                <${Heads} names=${['Name', 'Why', 'Asked', 'Last', 'On the command line', 'Act']} end=${['Asked']} />
                <tbody>
                  ${data.map(
                    (row) =>
                      html`<tr key=${row.name}>
                        <th scope="row" class="mono">${row.name}</th>
                        <td>${REASONS[row.reason]}</td>
                        <td class="end number">${count(row.asked)}</td>
                        <td><${Time} at=${row.last_at} /></td>
                        <td class="mono">${row.remedy}</td>
                        <td>${mend(row)}</td>
                      </tr>`,
                  )}
                </tbody>
              </table>
            <//>`}
    <//>
    ${adding !== undefined && html`<${ModelForm} name=${adding} onClose=${() => setAdding(undefined)} />`}
    ${importing && html`<${PriceImport} onDone=${answer.reload} onClose=${() => setImporting(false)} />`}`
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
    return typeof usd === 'string'
      ? html`<${Price} name=${name} usd=${usd} />`
      : html`<span class="muted">none</span>`
  }
}

function unitOf({ pricing }: ModelRow): Content {
  const units = pricesOf(pricing).filter(([name]) => !isPerToken(name))
  if (units.length === 0) return html`<span class="muted">none</span>`
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

/** The worst first: nothing answers, something is left out, something failed today. */
function harmOf({ deployments, last_24h: last }: ModelRow): number {
  const well = deployments.filter(({ health }) => health.state === 'healthy').length
  if (well === 0) return 0
  if (well < deployments.length) return 1
  return last && Object.keys(last.failures).length > 0 ? 2 : 3
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

// One model: prices, deployments and their health, and what can be done with it.

/** @param model undefined where the catalog has none of that id */
function ModelSheet({
  id,
  model,
  onClose,
}: {
  readonly id: string
  readonly model: ModelRow | undefined
  readonly onClose: () => void
}) {
  return html`<${Sheet} title=${id} onClose=${onClose}>
    ${
      model
        ? html`<${Details} model=${model} />`
        : html`<${Empty} title="There is no such model.">
            <p class="muted">It may have been taken out of the configuration.</p>
          <//>`
    }
  <//>`
}

function Details({ model }: { readonly model: ModelRow }) {
  const { id, aliases, modality, free_tier, capabilities, wildcard } = model
  const named = encodeURIComponent(id)
  const [doing, setDoing] = useState<'edit' | 'where' | 'remove'>()
  const managed = useAnswer<{ data: ManagedAnswer }>(allows('config') ? '/admin/managed' : null)
  const single = useAnswer<{ data: { readonly fallbacks: readonly Fallback[] } }>(
    `/admin/models/${named}`,
  )
  const entryOf = (name: string | null) =>
    managed.data?.data.entries.find((one) => one.section === 'models' && one.name === name)
  const entry = entryOf(id)
  const source = entry ?? entryOf(wildcard)
  const stop = () => setDoing(undefined)
  const remove = async () => {
    const { revision } = entry!
    await changeEntries([{ section: 'models', name: id, value: null, revision }], `Removed ${id}`)
    stop()
  }
  const last = model.last_24h
  const facts: (readonly [string, Content])[] = [
    ['Modality', modality],
    ['Other names', aliases.length > 0 ? aliases.join(', ') : 'none'],
    ['Context', tokensOf(model.context_length)],
    ['Longest answer', tokensOf(model.max_output_tokens)],
    ['Free tier', free_tier ? 'yes' : 'no'],
    ['Can', abilitiesOf(capabilities)],
    ['Fallbacks', fallbacksOf(single.data?.data.fallbacks)],
    [
      'Last 24 h',
      last
        ? html`${count(last.calls)} calls, <${Money} usd=${last.cost_usd} />, failures: ${failuresOf(last.failures)}`
        : 'not kept',
    ],
    ['Price from', html`<${Source} source=${model.price_source} />`],
    [
      'Set up',
      source
        ? html`here, by ${actorText(source.changed_by)}, <${Time} at=${source.changed_at} />`
        : wildcard
          ? html`by <span class="mono">${wildcard}</span>`
          : 'in a file, or by the starter',
    ],
  ]
  return html`<div class="stack">
    <p class="actions">
      <${Button} right="config" onClick=${() => perform(testOf(id))}>Test now<//>
      <${Button} right="config" onClick=${() => setDoing('edit')}>${entry ? 'Edit' : 'Set its own entry'}<//>
      ${!entry && html`<${Button} right="config" onClick=${() => setDoing('where')}>Where it is set<//>`}
      ${entry && html`<${Button} kind="danger" right="config" onClick=${() => setDoing('remove')}>Remove<//>`}
      <a class="button quiet" href=${`/console/play?model=${named}`}>Playground</a>
      <a class="button quiet" href=${`/console/usage?model=${named}&group=key`}>Usage</a>
      <a class="button quiet" href=${`/console/requests?model=${named}`}>Requests</a>
    </p>
    ${entry?.shadowed_by && html`<${Notice} tone="warn">${entry.shadowed_by} has this model too, and wins.<//>`}
    ${entry?.left_out && html`<${Notice} tone="bad">Its entry is not in force: ${entry.left_out}<//>`}
    <section class="stack">
      <h3>Deployments</h3>
      ${
        model.deployments.length === 0
          ? html`<p class="muted">None: calls for this model fail.</p>`
          : model.deployments.map(
              (deployment) =>
                html`<${OneDeployment} key=${deployment.id} model=${id} deployment=${deployment} all=${model.deployments} />`,
            )
      }
    </section>
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
    ${doing === 'edit' && html`<${ModelForm} name=${id} onClose=${stop} />`}
    ${doing === 'where' && html`<${Where} name=${wildcard ?? id} path=${`models.${wildcard ?? id}.`} onClose=${stop} />`}
    ${doing === 'remove' && html`<${Confirm} title=${`Remove ${id}?`} verb="Remove" act=${remove} onClose=${stop}><p>Calls that run end as usual. ${wildcard ? 'It is served as the entry of its vendor says then.' : 'New calls do not find it from now on, on any gateway.'}</p><//>`}
  </div>`
}

interface Fallback {
  readonly model: string
  readonly when: readonly string[]
  readonly skipped: string | null
}

function fallbacksOf(all: readonly Fallback[] | undefined): Content {
  if (!all || all.length === 0) return all ? 'none' : '…'
  return all.map(
    ({ model, when, skipped }, at) =>
      html`<span key=${model}>${at > 0 ? ', ' : ''}<a class="mono" href=${hrefOpening(model)}>${model}</a> <span class="muted">when ${when.join(', ')}${skipped ? `; passed over now: ${skipped.replaceAll('_', ' ')}` : ''}</span></span>`,
  )
}

function tokensOf(many: number | null): string {
  return many === null ? 'not stated' : `${count(many)} tokens`
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
  model,
  deployment: { id, weight, priority, health, failures_24h: failures },
  all,
}: {
  readonly model: string
  readonly deployment: Deployment
  readonly all: readonly Deployment[]
}) {
  const total = all
    .filter((one) => one.priority === priority)
    .reduce((sum, one) => sum + one.weight, 0)
  const facts: (readonly [string, Content])[] = [
    ...(health.since ? ([['Since', html`<${Time} at=${health.since} />`]] as const) : []),
    ...(health.rests_until
      ? ([['Until', html`<${Time} at=${health.rests_until} />`]] as const)
      : []),
    [
      'Last success',
      health.last_success ? html`<${Time} at=${health.last_success} />` : 'none since the start',
    ],
    ['Last failure', health.last_failure ? html`<code>${health.last_failure}</code>` : 'none'],
    ['The vendor said', health.vendor_message ?? 'nothing'],
    ['Failures, 24 h', failures ? failuresOf(failures) : 'not kept'],
    [
      'First token',
      health.latency_ms === null ? 'no calls' : `${duration(health.latency_ms)} on average`,
    ],
    ['Running', shortCount(health.in_flight)],
    ['Choice', `order ${priority}, share ${weight} of ${total}`],
  ]
  const main = health.state === 'healthy' ? coolDown(id) : resumeOf(id)
  return html`<section class="panel">
    <header>
      <h3>${id} <${Health} state=${health.state} /></h3>
      <span class="actions">
        <${Button} right="keys" onClick=${() => perform(main)}>${main.verb}<//>
        <${MoreActs} name=${id} acts=${[testOf(model, id), coolDown(id, 60), coolDown(id, 1440)]} />
      </span>
    </header>
    <div class="panel-body"><${Facts} facts=${facts} /></div>
  </section>`
}

function failuresOf(failures: Readonly<Record<string, number>>): string {
  const reasons = Object.entries(failures)
  return reasons.length === 0
    ? 'none'
    : reasons.map(([name, many]) => `${name} ${count(many)}`).join(', ')
}

function abilitiesOf(capabilities: ModelRow['capabilities']): string {
  if (capabilities === null) return 'not stated: everything is tried'
  if (capabilities.length === 0) return 'nothing that has a name'
  return capabilities.map((one) => one.toLowerCase().replaceAll('_', ' ')).join(', ')
}

type Deployment = Read<SentDeployment> & Partial<ModelRow['deployments'][number]>
