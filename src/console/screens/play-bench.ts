/** The Playground without the choice of a key: a model, its form, the answer, and what was sent and received. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { toApiError, type ApiError } from '../api.ts'
import { html, type Content } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Button } from '../parts/button.ts'
import { SelectField } from '../parts/form.ts'
import { Empty, Failure } from '../parts/states.ts'
import { place, setQuery, type Role } from '../state.ts'
import { useCaller, type Exchange } from './play-exchange.ts'
import { PlayFields } from './play-form.ts'
import { CostTab, EventsTab, HeadersTab, PlayAnswer, RequestTab } from './play-output.ts'
import {
  DraftError,
  EMPTY,
  requestOf,
  type Draft,
  type Modality,
  type PlayModel,
  type PlayRequest,
  type Turn,
} from './play-request.ts'

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
  readonly role?: Role
}

/** The bench. Leaving it forgets everything that was typed and answered. */
export function Bench({ models, credential, charged, after, onEnded, role }: BenchProps) {
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
                : html`<${Button} kind="primary" type="submit" title="Ctrl+Enter" role=${role}>Send<//>`
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
