/** The Playground without the choice of a key: a model, its form, the answer, and what was sent and received. */
import { ownAddress } from '../base.ts'
import { useEffect, useRef, useState } from 'preact/hooks'
import { toApiError, type ApiError } from '../api.ts'
import { html, type Content } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Button } from '../parts/button.ts'
import { SelectField, CheckField, TextField } from '../parts/form.ts'
import { Empty, Failure, Notice } from '../parts/states.ts'
import { place, setQuery } from '../state.ts'
import type { Right } from '../../server/admin/resources/rights.ts'
import { useCaller, type Exchange } from './play-exchange.ts'
import {
  DraftError,
  EMPTY,
  requestOf,
  type Draft,
  type Modality,
  type PlayModel,
  type PlayRequest,
  type Turn,
  type Attachment,
  curlOf,
  sdkOf,
  shortened,
} from './play-request.ts'
import { bytes, count, duration, plainDecimal } from '../format.ts'
import { CostTable } from '../parts/cost.ts'
import { Facts } from '../parts/facts.ts'
import { Code, Json } from '../parts/copy.ts'

const FALLBACK: Modality = 'chat'
const SIDES = ['request', 'events', 'cost', 'headers'] as const
type Side = (typeof SIDES)[number]

interface BenchProps {
  readonly models: readonly PlayModel[]
  /** The key that calls are made with. @throws ApiError */
  readonly credential: () => Promise<string>
  readonly charged: Content
  readonly after: (exchange: Exchange) => Content
  readonly onEnded: () => void
  readonly right?: Right
}

/** The bench. Leaving it forgets everything that was typed and answered. */
export function Bench({ models, credential, charged, after, onEnded, right }: BenchProps) {
  const id = place.value.query.get('model') ?? models[0]?.id ?? ''
  const model = models.find((one) => one.id === id) ?? {
    id,
    modality: FALLBACK,
    capabilities: null,
  }
  const bench = useBench(model, credential, onEnded)
  const { exchange, busy } = bench
  useKeys({ 'ctrl+enter': () => void bench.send() })
  if (models.length === 0) {
    return html`<${Empty} title="There are no models.">
      <p class="muted">A provider in the configuration brings its models along.</p>
    <//>`
  }
  return html`<div class="bench">
    <section class="panel">
      <header>
        <h2>Ask</h2>
        ${
          (bench.turns.length > 0 || exchange) &&
          html`<${Button} kind="quiet" onClick=${bench.clear}>Clear<//>`
        }
      </header>
      <div class="panel-body">
        <${SelectField}
          label="Model"
          value=${model.id}
          options=${namesOf(models, model)}
          onChange=${(value: string) => setQuery({ model: value }, { replace: true })}
        />
        <${Turns} turns=${bench.turns} />
        ${bench.asked && exchange && busy && html`<${Turns} turns=${[bench.asked]} />`}
        ${exchange && html`<${PlayAnswer} exchange=${exchange} modality=${bench.modality} />`}
        <form
          class="form"
          onSubmit=${(event: Event) => {
            event.preventDefault()
            void bench.send()
          }}
        >
          <${PlayFields} model=${model} draft=${bench.draft} set=${bench.set} wrong=${bench.wrong} />
          ${bench.error && html`<${Failure} error=${bench.error} />`}
          <div class="actions">
            ${
              busy
                ? html`<${Button} kind="danger" onClick=${bench.stop}>Stop<//>`
                : html`<${Button} kind="primary" type="submit" title="Ctrl+Enter" right=${right}>Send<//>`
            }
            <span class="caption">${charged}</span>
          </div>
        </form>
      </div>
    </section>
    <${Beside} bench=${bench} after=${after} />
  </div>`
}

function Beside({
  bench: { request, exchange },
  after,
}: {
  readonly bench: ReturnType<typeof useBench>
  readonly after: (exchange: Exchange) => Content
}) {
  const [side, setSide] = useState<Side>('request')
  return html`<section class="panel">
    <header>
      <div class="tabs" role="tablist" aria-label="About the call">
        ${SIDES.map(
          (name) =>
            html`<button
              key=${name}
              type="button"
              role="tab"
              id=${`side-${name}`}
              aria-controls="side"
              aria-selected=${side === name ? 'true' : 'false'}
              onClick=${() => setSide(name)}
            >
              ${name[0]!.toUpperCase()}${name.slice(1)}
            </button>`,
        )}
      </div>
    </header>
    <div class="panel-body" role="tabpanel" id="side" aria-labelledby=${`side-${side}`}>
      ${
        request === undefined || (side !== 'request' && exchange === null)
          ? html`<p class="muted">What is sent and received stands here.</p>`
          : side === 'request'
            ? html`<${RequestTab} request=${request} />`
            : side === 'events'
              ? html`<${EventsTab} exchange=${exchange} />`
              : side === 'cost'
                ? html`<${CostTab} exchange=${exchange} after=${after(exchange!)} />`
                : html`<${HeadersTab} exchange=${exchange} />`
      }
    </div>
  </section>`
}

function Turns({ turns }: { readonly turns: readonly Turn[] }) {
  if (turns.length === 0) return null
  return html`<ol class="turns">
    ${turns.map(
      ({ role, content, files = [], refused }, index) =>
        html`<li key=${index} class=${role}>
          <b>${role}${refused ? ', refused' : ''}</b>
          <p class="said">${content}</p>
          ${files.length > 0 && html`<p class="caption">${files.map(({ name }) => name).join(', ')}</p>`}
        </li>`,
    )}
  </ol>`
}

function useBench(model: PlayModel, credential: () => Promise<string>, onEnded: () => void) {
  const [draft, setDraft] = useState<Draft>(EMPTY)
  const [turns, setTurns] = useState<readonly Turn[]>([])
  const [wrong, setWrong] = useState<DraftError>()
  const [error, setError] = useState<ApiError>()
  const [request, setRequest] = useState<PlayRequest>()
  const [question, setQuestion] = useState<Turn>()
  const [sending, setSending] = useState(false)
  // The answer that is shown is of the model that gave it, also when another one is chosen after it.
  const [modality, setModality] = useState<Modality>(model.modality)
  const caller = useCaller()
  const isLeft = useRef(false)
  useEffect(
    () => () => {
      isLeft.current = true
    },
    [],
  )
  useEffect(() => {
    setWrong(undefined)
    setDraft((last) => ({ ...last, files: [] }))
  }, [model.modality])
  const busy = sending || caller.exchange?.state === 'running'
  const send = async () => {
    if (busy) return
    setError(undefined)
    setWrong(undefined)
    // The answer of the turn before becomes part of the conversation.
    const before = [
      ...turns,
      ...(question && caller.exchange ? answered(question, caller.exchange) : []),
    ]
    const isChat = model.modality === 'chat'
    let made: PlayRequest
    try {
      made = requestOf(model, draft, isChat ? before : [])
    } catch (thrown) {
      if (!(thrown instanceof DraftError)) throw thrown
      return setWrong(thrown)
    }
    setSending(true)
    try {
      const key = await credential()
      if (isLeft.current) return
      setModality(model.modality)
      setRequest(made)
      setTurns(isChat ? before : [])
      setQuestion(isChat ? { role: 'user', content: draft.text, files: draft.files } : undefined)
      if (isChat) setDraft((last) => ({ ...last, text: '', files: [] }))
      await caller.send(made, key)
      if (!isLeft.current) onEnded()
    } catch (thrown) {
      setError(toApiError(thrown))
    } finally {
      setSending(false)
    }
  }
  return {
    draft,
    // A conversation shows its last question above the answer.
    turns: question && !busy ? [...turns, question] : turns,
    asked: question,
    wrong,
    error,
    request,
    exchange: caller.exchange,
    modality,
    busy,
    set: (change: Partial<Draft>) => setDraft((last) => ({ ...last, ...change })),
    send,
    stop: caller.stop,
    clear() {
      caller.stop()
      caller.forget()
      setTurns([])
      setQuestion(undefined)
      setRequest(undefined)
    },
  }
}

/** A question with its answer, as turns. A failed one is left out, so that it can be asked again. */
function answered(question: Turn, { state, text, refusal, finish }: Exchange): readonly Turn[] {
  if (state === 'failed' || (text === '' && refusal === '')) return []
  const refused = refusal !== '' || finish === 'content_filter'
  return [question, { role: 'assistant', content: text || refusal, refused }]
}

function namesOf(models: readonly PlayModel[], chosen: PlayModel) {
  const options = models.some((one) => one.id === chosen.id) ? models : [chosen, ...models]
  return options.map(({ id, modality }) => ({
    value: id,
    label: modality === 'chat' ? id : `${id} (${modality})`,
  }))
}

// The form of the Playground: its fields follow the modality of the model.

interface FormProps {
  readonly model: PlayModel
  readonly draft: Draft
  readonly set: (change: Partial<Draft>) => void
  readonly wrong: DraftError | undefined
}

const TEXTS: Readonly<Record<string, string>> = {
  chat: 'Message',
  image: 'Prompt',
  speech: 'Text to be said',
  embedding: 'Text',
  rerank: 'Query',
  moderation: 'Text',
}
/** Files by modality; those of a chat model depend on its capabilities. */
const ACCEPTED: Readonly<Record<string, string>> = {
  chat: 'image/*,application/pdf,audio/*',
  image: 'image/png,image/jpeg,image/webp',
  ocr: 'application/pdf,image/*',
  transcription: 'audio/*,video/webm,video/mp4',
}
const EFFORTS = ['', 'none', 'minimal', 'low', 'medium', 'high']
const SOUNDS = ['mp3', 'opus', 'aac', 'flac', 'wav']

function PlayFields(props: FormProps) {
  const { model, draft, set, wrong } = props
  const { modality } = model
  const text = TEXTS[modality]
  const error = (field: keyof Draft) => (wrong?.field === field ? wrong.message : undefined)
  const line = (field: TextName, label: string, more: object = {}) =>
    html`<${TextField}
      label=${label}
      value=${draft[field]}
      onInput=${(value: string) => set({ [field]: value })}
      error=${error(field)}
      ...${more}
    />`
  return html`<div class="form">
    ${text && line('text', text, { rows: modality === 'chat' ? 4 : 3 })}
    ${modality === 'rerank' && line('documents', 'Documents, one a line', { rows: 5 })}
    ${
      modality === 'image' &&
      html`<div class="row">${line('count', 'Number')} ${line('size', 'Size')}</div>`
    }
    ${
      modality === 'speech' &&
      html`<div class="row">
        ${line('voice', 'Voice')}
        <${SelectField}
          label="Format"
          value=${draft.sound}
          options=${SOUNDS.map((value) => ({ value, label: value }))}
          onChange=${(sound: string) => set({ sound })}
        />
      </div>`
    }
    ${modality === 'transcription' && line('language', 'Language, such as en; empty: any')}
    ${takesFiles(model) && html`<${Files} ...${props} error=${error('files')} />`}
    ${modality === 'chat' && html`<${ChatSettings} ...${props} line=${line} />`}
    ${
      modality !== 'chat' &&
      html`<details class="fold">
        <summary>Policy of this request</summary>
        ${line('policy', 'Policy, JSON', { rows: 3, mono: true, help: POLICY_HELP })}
      </details>`
    }
  </div>`
}

const POLICY_HELP = 'Tightens the policy of the key for this call; it can loosen nothing.'

function ChatSettings({
  draft,
  set,
  wrong,
  line,
}: FormProps & { readonly line: (field: TextName, label: string, more?: object) => Content }) {
  const isOpen = wrong !== undefined && wrong.field !== 'text'
  return html`<details class="fold" open=${isOpen || undefined}>
    <summary>Settings</summary>
    <div class="form">
      ${line('system', 'System', { rows: 2 })}
      <div class="row">
        ${line('temperature', 'Temperature')} ${line('topP', 'top_p')}
        ${line('maxTokens', 'Most tokens')}
        <${SelectField}
          label="Reasoning"
          value=${draft.effort}
          options=${EFFORTS.map((value) => ({ value, label: value || 'default' }))}
          onChange=${(effort: string) => set({ effort })}
        />
        <${SelectField}
          label="Answer as"
          value=${draft.format}
          options=${[
            { value: '', label: 'text' },
            { value: 'json_object', label: 'JSON' },
            { value: 'json_schema', label: 'JSON by a schema' },
          ]}
          onChange=${(format: string) => set({ format })}
        />
      </div>
      ${draft.format === 'json_schema' && line('schema', 'Schema, JSON', { rows: 4, mono: true })}
      ${line('tools', 'Tools, JSON', { rows: 3, mono: true })}
      ${line('policy', 'Policy of this request, JSON', { rows: 3, mono: true, help: POLICY_HELP })}
      <div class="choices">
        <${CheckField}
          label="Stream"
          checked=${draft.stream}
          onChange=${(stream: boolean) => set({ stream })}
        />
        <${CheckField}
          label="Search the web (:online)"
          checked=${draft.online}
          onChange=${(online: boolean) => set({ online })}
        />
      </div>
    </div>
  </details>`
}

function Files({ model, draft, set, error }: FormProps & { readonly error: string | undefined }) {
  const several = model.modality === 'chat' || model.modality === 'image'
  const choose = async (event: Event) => {
    const input = event.target as HTMLInputElement
    const chosen = await Promise.all([...(input.files ?? [])].map(attachmentOf))
    input.value = ''
    set({ files: several ? [...draft.files, ...chosen] : chosen })
  }
  return html`<div class=${error ? 'field wrong' : 'field'}>
    <label class="file">
      <span>${several ? 'Files' : 'File'}</span>
      <input
        type="file"
        accept=${ACCEPTED[model.modality]}
        multiple=${several}
        aria-invalid=${error ? 'true' : undefined}
        onChange=${choose}
      />
    </label>
    ${
      draft.files.length > 0 &&
      html`<ul class="filters">
        ${draft.files.map(
          (file, index) =>
            html`<li class="chip" key=${index}>
              <span>${file.name}</span>
              <button
                type="button"
                aria-label=${`Remove ${file.name}`}
                onClick=${() => set({ files: draft.files.filter((one) => one !== file) })}
              >
                ✕
              </button>
            </li>`,
        )}
      </ul>`
    }
    ${error && html`<p class="error">${error}</p>`}
  </div>`
}

type TextName = {
  readonly [Name in keyof Draft]: Draft[Name] extends string ? Name : never
}[keyof Draft]

/** Models without a list of capabilities are tried with everything. */
function takesFiles({ modality, capabilities }: PlayModel): boolean {
  if (!(modality in ACCEPTED)) return false
  if (modality === 'image') return capabilities?.includes('REFERENCES') ?? false
  if (modality !== 'chat' || capabilities === null) return true
  return ['VISION', 'FILE_INPUT', 'AUDIO_INPUT'].some((one) => capabilities.includes(one))
}

function attachmentOf(file: File): Promise<Attachment> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.addEventListener('load', () =>
      resolve({ name: file.name, type: file.type, url: String(reader.result), file }),
    )
    reader.addEventListener('error', () => reject(reader.error as Error))
    reader.readAsDataURL(file)
  })
}

// The answer in the Playground: text as text, pictures, pages, sound; and beside it request, events, cost, headers.

function PlayAnswer({
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

function RequestTab({ request }: { readonly request: PlayRequest }) {
  const sdk = sdkOf(request, ownAddress())
  return html`<div class="stack">
    <${Code} label="curl" text=${curlOf(request, ownAddress())} />
    ${sdk && html`<${Code} label="OpenAI SDK (Python)" text=${sdk} />`}
  </div>`
}

function EventsTab({ exchange }: { readonly exchange: Exchange }) {
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

function CostTab({ exchange, after }: { readonly exchange: Exchange; readonly after: Content }) {
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

function HeadersTab({ exchange }: { readonly exchange: Exchange }) {
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
