/** Models: their prices, capabilities, and health. */
import { useState } from 'preact/hooks'
import { useAnswer } from '../api.ts'
import type { ModelRow } from '../answers.ts'
import { count, shortCount } from '../format.ts'
import { html, type Content } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Money } from '../parts/facts.ts'
import { Filters, isFiltered, type Filter } from '../parts/filters.ts'
import { Answered, Empty } from '../parts/states.ts'
import { ColumnChoice, hrefOpening, Table, type Column } from '../parts/table.ts'
import { place, setQuery } from '../state.ts'
import { Health } from './model-health.ts'
import { isPerToken, Price, pricesOf, Source } from './model-prices.ts'
import { ModelSheet } from './model-sheet.ts'
import { PriceImport } from './price-import.ts'

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
        <${Button} role="admin" onClick=${() => setImporting(true)}>Import prices<//>
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
    ${
      importing &&
      html`<${PriceImport} onDone=${answer.reload} onClose=${() => setImporting(false)} />`
    }
  </div>`
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
