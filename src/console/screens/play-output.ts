/** The answer in the Playground: text as text, pictures, pages, sound; and beside it request, events, cost, headers. */
import { useEffect, useState } from 'preact/hooks'
import { bytes, count, duration, plainDecimal } from '../format.ts'
import { html, type Content } from '../html.ts'
import { CostTable } from '../parts/cost.ts'
import { Facts } from '../parts/facts.ts'
import { Code, Json } from '../parts/json.ts'
import { Failure, Notice } from '../parts/states.ts'
import type { Exchange } from './play-exchange.ts'
import { curlOf, sdkOf, shortened, type Modality, type PlayRequest } from './play-request.ts'

export function PlayAnswer({
  exchange,
  modality,
}: {
  readonly exchange: Exchange
  readonly modality: Modality
}) {
  const { state, error, sound, body } = exchange
  return html`<div class="answer" aria-busy=${state === 'running' ? 'true' : 'false'}>
    <${Reply} exchange=${exchange} />
    ${modality === 'image' && html`<${Pictures} body=${body} />`}
    ${modality === 'ocr' && html`<${Pages} body=${body} />`}
    ${sound && html`<${Sound} sound=${sound} exchange=${exchange} />`}
    ${
      ['embedding', 'rerank', 'moderation'].includes(modality) &&
      body !== null &&
      html`<${Json} value=${brief(body)} label="Answer" />`
    }
    ${state === 'running' && html`<p class="muted">${exchange.firstMs === null ? 'waiting …' : '…'}</p>`}
    ${state === 'stopped' && html`<${Notice} tone="warn">Stopped. What was produced until then is charged.<//>`}
    ${error && html`<${Failure} error=${error} />`}
    <p class="caption" role="status">${endOf(exchange)}</p>
  </div>`
}

/** Text, reasoning, refusal, calls of tools, citations. Nothing in it is interpreted as markup. */
function Reply({ exchange }: { readonly exchange: Exchange }) {
  const { text, reasoning, refusal, tools, citations, finish } = exchange
  return html`${
    reasoning !== '' &&
    html`<details class="fold">
      <summary>Reasoning, ${count([...reasoning].length)} characters</summary>
      <p class="said muted">${reasoning}</p>
    </details>`
  }
  ${text !== '' && html`<p class="said">${text}</p>`}
  ${
    (finish === 'content_filter' || refusal !== '') &&
    html`<${Notice} tone="warn">${refusal || 'The policy of the key ended this answer.'}<//>`
  }
  ${tools.map(
    ({ name, arguments: args }, index) =>
      html`<${Code} key=${index} label=${`Call of the tool ${name}`} text=${args} wrap />`,
  )}
  ${
    citations.length > 0 &&
    html`<ol class="citations">
      ${citations.map(
        ({ url, title }, index) => html`<li key=${index}>${title} <code>${url}</code></li>`,
      )}
    </ol>`
  }`
}

function Pictures({ body }: { readonly body: unknown }) {
  const { data = [], output_format: format = 'png' } = (body ?? {}) as {
    data?: readonly { readonly b64_json?: string }[]
    output_format?: string
  }
  return html`<div class="pictures">
    ${data.map(({ b64_json: base64 }, index) => {
      const url = `data:image/${format};base64,${base64}`
      return html`<figure key=${index}>
        <img src=${url} alt=${`Picture ${index + 1} of the answer`} />
        <figcaption>
          <a href=${url} download=${`picture-${index + 1}.${format}`}>Save</a>
        </figcaption>
      </figure>`
    })}
  </div>`
}

function Pages({ body }: { readonly body: unknown }) {
  const { pages = [] } = (body ?? {}) as {
    pages?: readonly { readonly index: number; readonly markdown: string }[]
  }
  return html`${pages.map(
    ({ index, markdown }) =>
      html`<${Code} key=${index} label=${`Page ${index + 1}`} text=${markdown} wrap />`,
  )}`
}

function Sound({ sound, exchange }: { readonly sound: Blob; readonly exchange: Exchange }) {
  const [url, setUrl] = useState<string>()
  useEffect(() => {
    const made = URL.createObjectURL(sound)
    setUrl(made)
    return () => URL.revokeObjectURL(made)
  }, [sound])
  if (url === undefined) return null
  return html`<div class="stack">
    <audio controls src=${url} aria-label="The sound"></audio>
    <p class="caption">
      ${sound.type} · ${bytes(sound.size)} · answered after ${duration(exchange.firstMs)} ·
      <a href=${url} download="sound"> Save</a>
    </p>
  </div>`
}

export function RequestTab({ request }: { readonly request: PlayRequest }) {
  const sdk = sdkOf(request, location.origin)
  return html`<div class="stack">
    <${Code} label="curl" text=${curlOf(request, location.origin)} />
    ${sdk && html`<${Code} label="OpenAI SDK (Python)" text=${sdk} />`}
  </div>`
}

export function EventsTab({ exchange }: { readonly exchange: Exchange }) {
  const { events, more } = exchange
  if (events.length === 0) {
    return html`<p class="muted">The answer was not a stream.</p>`
  }
  return html`<div class="events" tabindex="0" role="region" aria-label="Events of the stream">
      ${events.map(
        ({ ms, text }, index) =>
          html`<div key=${index}><span class="muted">${duration(ms)}</span><code>${text}</code></div>`,
      )}
    </div>
    <p class="caption">
      ${count(events.length)} events${more > 0 ? `; ${count(more)} more are not shown` : ''}
    </p>`
}

export function CostTab({
  exchange,
  after,
}: {
  readonly exchange: Exchange
  readonly after: Content
}) {
  const { usage, headers } = exchange
  const said = new Map(headers).get('x-service-cost')
  const total = said ?? costOf(usage) ?? null
  return html`<div class="stack">
    ${
      total === null
        ? html`<p class="muted">${exchange.state === 'done' ? 'The answer names no cost.' : 'Known at the end.'}</p>`
        : html`<${CostTable} details=${usage?.cost_details} total=${total} />`
    }
    <${Facts} facts=${quantitiesOf(usage)} /> ${after}
  </div>`
}

export function HeadersTab({ exchange }: { readonly exchange: Exchange }) {
  const facts = exchange.headers.map(
    ([name, value]) => [name, html`<code>${value}</code>`] as const,
  )
  return html`<p>Status ${exchange.status ?? '–'}</p>
    <div class="headers"><${Facts} facts=${facts} /></div>`
}

function costOf(usage: Exchange['usage']): string | undefined {
  return usage?.cost === undefined ? undefined : plainDecimal(String(usage.cost))
}

function quantitiesOf(usage: Exchange['usage']): (readonly [string, Content])[] {
  return Object.entries(usage ?? {}).flatMap(([name, value]) =>
    typeof value === 'number' ? [[name.replaceAll('_', ' '), count(value)] as const] : [],
  )
}

function endOf({ state, firstMs, totalMs, finish }: Exchange): string {
  if (state === 'running') return ''
  return [
    state,
    finish && `finish reason ${finish}`,
    firstMs !== null && `first part after ${duration(firstMs)}`,
    `total ${duration(totalMs)}`,
  ]
    .filter(Boolean)
    .join(' · ')
}

function brief(value: unknown): unknown {
  if (Array.isArray(value)) {
    if (value.length > 8 && value.every((one) => typeof one === 'number')) {
      return [...value.slice(0, 4), `… ${value.length} numbers`]
    }
    return value.map(brief)
  }
  if (typeof value !== 'object' || value === null) return shortened(value)
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, brief(one)]))
}
