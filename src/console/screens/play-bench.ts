/** The Playground without the choice of a key: a model, its form, the answer, and what was sent and received. */
import { ownAddress } from '../base.ts'
import { useEffect, useRef, useState } from 'preact/hooks'
import { to, toApiError, useAnswer, type ApiError } from '../api.ts'
import type { KeyRow } from '../answers.ts'
import { html, type Content } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Button } from '../parts/button.ts'
import { Choose } from '../parts/choose.ts'
import { SelectField, CheckField, TextField } from '../parts/form.ts'
import { Empty, Failure, Notice } from '../parts/states.ts'
import { place, setQuery } from '../state.ts'
import type { Right } from '../../server/admin/resources/rights.ts'
import { useCallers, type Exchange } from './play-exchange.ts'
import {
  DraftError,
  EMPTY,
  draftOf,
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
import { MISSING, bytes, count, duration, plainDecimal, wholeDecimals } from '../format.ts'
import { CostTable } from '../parts/cost.ts'
import { Facts, Money } from '../parts/facts.ts'
import { Code, Json } from '../parts/copy.ts'
import { Heads } from '../parts/heads.ts'

const FALLBACK: Modality = 'chat'
const SIDES = ['request', 'events', 'cost', 'headers'] as const
type Side = (typeof SIDES)[number]

interface BenchProps {
  readonly models: readonly PlayModel[]
  /** The secret that calls are made with. @param key another one than that of the page. @throws ApiError */
  readonly credential: (key?: string) => Promise<string>
  readonly charged: Content
  readonly after: (exchange: Exchange) => Content
  readonly onEnded: () => void
  readonly right?: Right
  /** The body of a call that is sent again. */
  readonly resent?: Readonly<Record<string, unknown>> | undefined
  /** Whether other keys, with other policies, may be asked beside. */
  readonly isOperator?: boolean
}

/** A column of the comparison: a model, or the first model as another key. */
interface Column {
  readonly id: string
  readonly model: PlayModel
  readonly key?: string
}

const FIRST = 'first'
/** The most that are asked at once. */
const MOST_COLUMNS = 4

/** What is tried first: a chat with a vendor, where there is one. */
function firstOf(models: readonly PlayModel[]): PlayModel | undefined {
  const chats = models.filter(({ modality }) => modality === FALLBACK)
  return chats.find(({ id }) => !id.startsWith('mock/')) ?? chats[0] ?? models[0]
}

/** The models and keys of the address. */
function columnsOf(models: readonly PlayModel[]): readonly [Column, ...Column[]] {
  const { query } = place.value
  const modelOf = (id: string) =>
    models.find((one) => one.id === id) ?? { id, modality: FALLBACK, capabilities: null }
  const [first = firstOf(models)?.id ?? '', ...more] = query.getAll('model')
  const model = modelOf(first)
  return [
    { id: FIRST, model },
    ...more.map((id) => ({ id, model: modelOf(id) })),
    ...query.getAll('beside').map((key) => ({ id: key, model, key })),
  ]
}

/** The bench. Leaving it forgets everything that was typed and answered. */
export function Bench(props: BenchProps) {
  const { models, credential, charged, after, onEnded, right, resent } = props
  const columns = columnsOf(models)
  const [{ model }] = columns
  const isCompared = columns.length > 1
  const bench = useBench(columns, credential, onEnded, resent)
  const { busy } = bench
  const form = useRef<HTMLFormElement>(null)
  useEffect(() => {
    // A phone would open its keyboard.
    if (!matchMedia('(pointer: fine)').matches) return
    form.current?.querySelector<HTMLElement>(resent ? '[type=submit]' : 'textarea')?.focus()
  }, [])
  useKeys({ 'ctrl+enter': () => void bench.send() })
  if (models.length === 0) {
    return html`<${Empty} title="There are no models.">
      <p class="muted">A provider in the configuration brings its models along.</p>
    <//>`
  }
  return html`<div class=${isCompared ? 'bench comparing' : 'bench'}>
    <section class="panel">
      <header>
        <h2>Ask</h2>
        ${bench.isBegun && html`<${Button} kind="quiet" onClick=${bench.clear}>Clear<//>`}
      </header>
      <div class="panel-body">
        <${Chosen} columns=${columns} ...${props} />
        <div class=${isCompared ? 'compare' : 'stack'}>
          ${columns.map((column) => html`<${Conversation} key=${column.id} column=${column} bench=${bench} isCompared=${isCompared} />`)}
        </div>
        ${isCompared && bench.isBegun && html`<${Comparison} columns=${columns} exchanges=${bench.exchanges} />`}
        <form
          class="form"
          ref=${form}
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
                ? html`<${Button} kind="danger" onClick=${() => bench.stop()}>Stop<//>`
                : html`<${Button} kind="primary" type="submit" title="Ctrl+Enter" right=${right}>${isCompared ? `Send ${columns.length} calls` : 'Send'}<//>
                    ${bench.isBegun && html`<${Button} right=${right} title="The same request once more" onClick=${bench.again}>Again<//>`}`
            }
            <span class="caption">${charged}</span>
          </div>
        </form>
      </div>
    </section>
    <${Beside} columns=${columns} bench=${bench} after=${after} />
  </div>`
}

/** The choice of models, and of keys whose policies differ. */
function Chosen({
  columns,
  models,
  isOperator = false,
}: BenchProps & { readonly columns: readonly [Column, ...Column[]] }) {
  const [{ model }, ...others] = columns
  const all = models.map(({ id }) => ({ kind: 'model' as const, id, name: id }))
  const alike = all.filter(
    ({ id }, i) =>
      models[i]!.modality === model.modality && !columns.some((one) => one.model.id === id),
  )
  const more = (change: Readonly<Record<string, readonly string[]>>) => {
    const ids = columns.filter(({ key }) => key === undefined).map((one) => one.model.id)
    const beside = columns.flatMap(({ key }) => key ?? [])
    setQuery({ model: ids, beside, ...change }, { replace: true })
  }
  const ids = others.filter(({ key }) => key === undefined).map(({ id }) => id)
  const keys = others.flatMap(({ key }) => key ?? [])
  const canAdd = columns.length < MOST_COLUMNS
  return html`<div class="row">
    <${Choose} kind="model" label="Model" value=${model.id} known=${model.id} among=${all} onChoose=${(id: string) => id !== '' && more({ model: [id, ...ids.filter((one) => one !== id)] })} />
    ${canAdd && html`<${Choose} key=${`model ${ids.length}`} kind="model" label="Compare with" value="" among=${alike} placeholder="another model" onChoose=${(id: string) => id !== '' && more({ model: [model.id, ...ids, id] })} />`}
    ${canAdd && isOperator && html`<${Choose} key=${`key ${keys.length}`} kind="key" label="Compare as" value="" placeholder="a key with another policy" onChoose=${(id: string) => id !== '' && !keys.includes(id) && more({ beside: [...keys, id] })} />`}
  </div>`
}

type Bench = ReturnType<typeof useBench>

/** The turns with one model, and its answer. */
function Conversation({
  column,
  bench,
  isCompared,
}: {
  readonly column: Column
  readonly bench: Bench
  readonly isCompared: boolean
}) {
  const { question, modality } = bench
  const exchange = bench.exchanges[column.id]
  const remove = () => {
    const { query } = place.value
    const name = column.key === undefined ? 'model' : 'beside'
    setQuery({ [name]: query.getAll(name).filter((one) => one !== column.id) }, { replace: true })
  }
  return html`<section class="lane" aria-label=${column.key ?? column.model.id}>
    ${
      isCompared &&
      html`<header>
        <h3><${ColumnName} column=${column} /></h3>
        ${exchange?.state === 'running' && html`<${Button} kind="quiet" onClick=${() => bench.stop(column.id)}>Stop this<//>`}
        ${column.id !== FIRST && html`<button type="button" class="button quiet" aria-label=${`Remove ${column.key ?? column.model.id}`} onClick=${remove}>✕</button>`}
      </header>`
    }
    <${Turns} turns=${[...(bench.turns[column.id] ?? []), ...(question && exchange ? [question] : [])]} />
    ${exchange && html`<${PlayAnswer} exchange=${exchange} modality=${modality} />`}
  </section>`
}

/** The model; for a column with another key the name of that key. */
function ColumnName({ column: { key, model } }: { readonly column: Column }) {
  const path = key === undefined ? null : `/admin/keys/${encodeURIComponent(key)}`
  const row = useAnswer<{ data: KeyRow }>(path).data?.data
  if (key === undefined) return html`<span class="mono">${model.id}</span>`
  return html`as <a href=${to.key(key, 'policy')}><bdi>${row?.name ?? key}</bdi></a>`
}

/** Time, tokens and cost side by side; the least of each is marked. */
function Comparison({
  columns,
  exchanges,
}: {
  readonly columns: readonly Column[]
  readonly exchanges: Bench['exchanges']
}) {
  const done = columns.flatMap(({ id }) => (exchanges[id]?.state === 'done' ? [exchanges[id]] : []))
  const least = (values: readonly number[]) => (values.length > 1 ? Math.min(...values) : NaN)
  // One of them, also where the clock of the browser is too coarse to tell them apart.
  const fastest = done.length > 1 ? done.toSorted((a, b) => a.totalMs! - b.totalMs!)[0] : undefined
  const cheapest = least(done.map((one) => Number(totalOf(one) ?? NaN)))
  const decimals = wholeDecimals(done.map(totalOf))
  const mark = (is: boolean, word: string) => is && html`<b class="ok"> ${word}</b>`
  return html`<table class="plain ruled stacked">
    <${Heads} names=${['Asked', 'First token', 'Total', 'Tokens', 'Cost', 'End']} end=${['First token', 'Total', 'Tokens', 'Cost']} />
    <tbody>
      ${columns.map((column) => {
        const one = exchanges[column.id]
        if (!one) return null
        const cost = totalOf(one)
        const { prompt_tokens: read, completion_tokens: written } = one.usage ?? {}
        return html`<tr key=${column.id}>
          <th scope="row"><${ColumnName} column=${column} /></th>
          <td class="end number" data-label="first token">${duration(one.firstMs)}</td>
          <td class="end number" data-label="total">${duration(one.totalMs)}${mark(one === fastest, 'fastest')}</td>
          <td class="end number" data-label="tokens">${[read, written].map((many) => count(many as number)).join(' + ')}</td>
          <td class="end number" data-label="cost"><${Money} usd=${cost} decimals=${decimals} />${mark(Number(cost) === cheapest, 'cheapest')}</td>
          <td data-label="end">${one.state === 'done' ? (one.finish?.replaceAll('_', ' ') ?? 'done') : one.state}</td>
        </tr>`
      })}
    </tbody>
  </table>`
}

function totalOf({ headers, usage }: Exchange): string | undefined {
  return new Map(headers).get('x-service-cost') ?? costOf(usage)
}

function Beside({
  columns,
  bench,
  after,
}: {
  readonly columns: readonly Column[]
  readonly bench: Bench
  readonly after: (exchange: Exchange) => Content
}) {
  const [side, setSide] = useState<Side>('request')
  const [chosen, setChosen] = useState(FIRST)
  const column = columns.find(({ id }) => id === chosen) ?? columns[0]!
  const request = bench.requests[column.id]
  const exchange = bench.exchanges[column.id] ?? null
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
        columns.length > 1 &&
        html`<${SelectField}
          label="Of the call"
          value=${column.id}
          options=${columns.map(({ id, key, model }) => ({ value: id, label: key ?? model.id }))}
          onChange=${setChosen}
        />`
      }
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

function useBench(
  columns: readonly [Column, ...Column[]],
  credential: BenchProps['credential'],
  onEnded: () => void,
  resent: BenchProps['resent'],
) {
  const [{ model }] = columns
  const [begun] = useState(() => resent && draftOf(resent))
  const [draft, setDraft] = useState<Draft>(begun?.draft ?? EMPTY)
  /** The turns before the last question, by column. */
  const [turns, setTurns] = useState<Readonly<Record<string, readonly Turn[]>>>({
    [FIRST]: begun?.turns ?? [],
  })
  const [wrong, setWrong] = useState<DraftError>()
  const [error, setError] = useState<ApiError>()
  const [requests, setRequests] = useState<Readonly<Record<string, PlayRequest>>>({})
  const [question, setQuestion] = useState<Turn>()
  const [sending, setSending] = useState(false)
  // The answer that is shown is of the model that gave it, also when another one is chosen after it.
  const [modality, setModality] = useState<Modality>(model.modality)
  const caller = useCallers()
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
  const running = Object.values(caller.exchanges).some(({ state }) => state === 'running')
  const busy = sending || running
  /** The conversation in a column; one that was added goes on with that of the first. */
  const past = ({ id }: Column): readonly Turn[] => {
    const own = id in caller.exchanges || id in turns ? id : FIRST
    const last = caller.exchanges[own]
    return [...(turns[own] ?? []), ...(question && last ? answered(question, last) : [])]
  }
  /** Sends to all columns at once. One that fails leaves the others. */
  const run = async (made: Readonly<Record<string, PlayRequest>>, before: () => void) => {
    setError(undefined)
    setSending(true)
    try {
      const receivers = columns.filter(({ id }) => id in made)
      const keys = await Promise.all(receivers.map(({ key }) => credential(key)))
      if (isLeft.current) return
      before()
      setRequests(made)
      await Promise.all(receivers.map(({ id }, i) => caller.send(id, made[id]!, keys[i]!)))
      if (!isLeft.current) onEnded()
    } catch (thrown) {
      setError(toApiError(thrown))
    } finally {
      setSending(false)
    }
  }
  const send = async () => {
    if (busy) return
    setWrong(undefined)
    const isChat = model.modality === 'chat'
    // The answers of the turn before become part of the conversations.
    const pastTurns = Object.fromEntries(
      columns.map((column) => [column.id, isChat ? past(column) : []]),
    )
    const made: Record<string, PlayRequest> = {}
    try {
      for (const column of columns)
        made[column.id] = requestOf(column.model, draft, pastTurns[column.id]!)
    } catch (thrown) {
      if (!(thrown instanceof DraftError)) throw thrown
      return setWrong(thrown)
    }
    await run(made, () => {
      setModality(model.modality)
      setTurns(pastTurns)
      const isAsked = isChat && (draft.text !== '' || draft.files.length > 0)
      setQuestion(isAsked ? { role: 'user', content: draft.text, files: draft.files } : undefined)
      if (isChat) setDraft((last) => ({ ...last, text: '', files: [] }))
    })
  }
  return {
    draft,
    turns,
    question,
    wrong,
    error,
    requests,
    exchanges: caller.exchanges,
    modality,
    busy,
    isBegun: Object.keys(caller.exchanges).length > 0,
    set: (change: Partial<Draft>) => setDraft((last) => ({ ...last, ...change })),
    send,
    again: () => busy || void run(requests, () => {}),
    stop: caller.stop,
    clear() {
      caller.stop()
      caller.forget()
      setTurns({})
      setQuestion(undefined)
      setRequests({})
    },
  }
}

/** A question with its answer, as turns. A failed one is left out, so that it can be asked again. */
function answered(question: Turn, { state, text, refusal, finish }: Exchange): readonly Turn[] {
  if (state === 'failed' || (text === '' && refusal === '')) return []
  const refused = refusal !== '' || finish === 'content_filter'
  return [question, { role: 'assistant', content: text || refusal, refused }]
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
        <summary>Settings</summary>
        ${line('policy', 'Policy of this request, JSON', { rows: 3, mono: true, help: POLICY_HELP })}
        ${line('more', 'Further members, JSON', { rows: 3, mono: true })}
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
  const isOpen = (wrong !== undefined && wrong.field !== 'text') || draft.more !== ''
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
      ${line('more', 'Further members, JSON', { rows: 3, mono: true })}
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
  const { usage } = exchange
  const total = totalOf(exchange) ?? null
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
  return html`<p>Status ${exchange.status ?? MISSING}</p>
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
    firstMs !== null && `first token after ${duration(firstMs)}`,
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
