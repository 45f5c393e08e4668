/** Tries a policy on texts, without models unless the operator asks: the verdict of every rule, and what a client would get. */
import { useEffect, useState } from 'preact/hooks'
import { call, toApiError, type ApiError } from '../api.ts'
import type { Policy } from '../answers.ts'
import { html } from '../html.ts'
import { Button } from '../parts/button.ts'
import { RadioField, TextField } from '../parts/form.ts'
import { Heads } from '../parts/heads.ts'
import { Failure } from '../parts/states.ts'
import { marked } from './policy-text.ts'
import type { Tried, Verdict } from '../../server/admin/resources/policy.ts'
import type { Read } from '../amounts.ts'

const SILENCE_MS = 400

interface TrialState {
  readonly trial: Read<Tried> | undefined
  readonly error: ApiError | undefined
  readonly busy: boolean
  run(ask: boolean): void
}

export interface TrialTexts {
  readonly input: string
  readonly output: string
  /** Characters that arrive at a time; 0 for the whole text. */
  readonly chunk: number
}

/** Evaluates a policy after every pause of typing. Also reports what the gateway finds wrong with it. */
export function useTrial(policy: Policy | undefined, texts: TrialTexts): TrialState {
  const [trial, setTrial] = useState<Read<Tried>>()
  const [error, setError] = useState<ApiError>()
  const [busy, setBusy] = useState(false)
  const [runs, setRuns] = useState(0)
  const key = JSON.stringify([policy, texts])
  const start = (ask: boolean, signal: AbortSignal) => {
    setBusy(true)
    evaluate(policy!, texts, ask, signal).then(
      (result) => {
        if (signal.aborted) return
        setTrial(result)
        setError(undefined)
        setBusy(false)
      },
      (thrown: unknown) => {
        if (signal.aborted) return
        setError(toApiError(thrown))
        setBusy(false)
      },
    )
  }
  useEffect(() => {
    if (!policy) return undefined
    const controller = new AbortController()
    const timer = setTimeout(() => start(false, controller.signal), SILENCE_MS)
    return () => {
      clearTimeout(timer)
      controller.abort()
    }
  }, [key])
  useEffect(() => {
    if (runs === 0 || !policy) return undefined
    const controller = new AbortController()
    start(true, controller.signal)
    return () => controller.abort()
  }, [runs])
  return { trial, error, busy, run: (ask) => ask && setRuns((last) => last + 1) }
}

export function TryIt({
  state,
  texts,
  guard,
  onTexts,
}: {
  readonly state: TrialState
  readonly texts: TrialTexts
  readonly guard: Policy['guard']
  readonly onTexts: (texts: TrialTexts) => void
}) {
  const { trial, error, busy } = state
  const set = (change: Partial<TrialTexts>) => onTexts({ ...texts, ...change })
  return html`<div class="stack">
    <${TextField} label="Input" value=${texts.input} onInput=${(input: string) => set({ input })} rows=${2} placeholder="What a user could ask" />
    <${TextField} label="Output" value=${texts.output} onInput=${(output: string) => set({ output })} rows=${2} placeholder="What a model could answer" />
    <${RadioField} label="The output arrives in parts of" value=${String(texts.chunk)} onChange=${(value: string) => set({ chunk: Number(value) })} options=${[
      { value: '1', label: '1' },
      { value: '4', label: '4' },
      { value: '20', label: '20 characters' },
      { value: '0', label: 'whole' },
    ]} />
    ${error && !error.param?.startsWith('policy') && html`<${Failure} error=${error} />`}
    <div class=${busy || error ? 'stack stale' : 'stack'} aria-live="polite">
      ${trial ? html`<${Findings} trial=${trial} texts=${texts} guard=${guard} />` : html`<p class="muted">Type a text above.</p>`}
    </div>
    <div class="actions">
      <${Button} role="admin" busy=${busy} onClick=${() => state.run(true)}>Ask judges<//>
      <span class="help">Asks models, at the operator's expense.${trial?.cost_usd ? ` The last one cost $${trial.cost_usd}.` : ''}</span>
    </div>
  </div>`
}

function Findings({
  trial,
  texts,
  guard,
}: {
  readonly trial: Read<Tried>
  readonly texts: TrialTexts
  readonly guard: Policy['guard']
}) {
  const [chosen, setChosen] = useState<string>()
  useEffect(() => {
    document.querySelector('.marked .chosen')?.scrollIntoView({ block: 'nearest' })
  }, [chosen])
  const { verdicts, blocked, warnings } = trial
  return html`${
    verdicts.length > 0 &&
    html`<table class="plain ruled verdicts">
      <${Heads} names=${['Side', 'Rule', 'Guard', 'Verdict']} />
      <tbody>
        ${verdicts.map(
          ({ rule, side, guard, verdict, reason, ms }, index) => html`<tr key=${index}>
            <td>${side === 'input' ? 'IN' : 'OUT'}</td>
            <td><button type="button" class="id mono" title=${reason ?? ''} onClick=${() => setChosen(chosen === rule ? undefined : rule)}>${rule}</button></td>
            <td class="muted">${guard ?? '–'}</td>
            <td class=${verdict === 'block' ? 'bad' : verdict === 'pass' ? 'ok' : 'warn'}>${verdict}${ms === undefined ? '' : html` <span class="muted">${ms < 1 ? '<1' : Math.round(ms)} ms</span>`}</td>
          </tr>`,
        )}
      </tbody>
    </table>`
  }
    ${(['input', 'output'] as const).map((side) => texts[side] !== '' && html`<${MarkedText} key=${side} side=${side} text=${texts[side]} verdicts=${verdicts} chosen=${chosen} />`)}
    ${warnings.length > 0 && html`<div class="notice warn"><ul>${warnings.map((one) => html`<li key=${one}>${one}</li>`)}</ul></div>`}
    <section>
      <h3>Client sees</h3>
      <${ClientSees} trial=${trial} blocked=${guard?.mode === 'monitor' ? [] : blocked} isError=${guard?.onBlock === 'error'} />
    </section>`
}

function MarkedText({
  side,
  text,
  verdicts,
  chosen,
}: {
  readonly side: 'input' | 'output'
  readonly text: string
  readonly verdicts: readonly Verdict[]
  readonly chosen: string | undefined
}) {
  const spans = verdicts
    .filter((one) => one.side === side)
    .flatMap(({ rule, spans }) => (spans ?? []).map((span) => ({ ...inUnits(text, span), rule })))
  if (spans.length === 0) return null
  return html`<p class="marked" aria-label=${`Found in the ${side}`}>
    ${marked(text, spans).map(({ text, rules }, index) =>
      rules.length === 0
        ? text
        : html`<mark key=${index} class=${chosen !== undefined && rules.includes(chosen) ? 'chosen' : rules.length > 1 ? 'several' : ''} title=${rules.join(', ')}>${text}</mark>`,
    )}
  </p>`
}

/** Status, headers and text of what a client gets, with the place where a stream is cut. */
function ClientSees({
  trial: { shown, refusal },
  blocked,
  isError,
}: {
  readonly trial: Read<Tried>
  readonly blocked: readonly string[]
  readonly isError: boolean
}) {
  const isRefused = shown ? shown.refusal !== undefined : blocked.length > 0
  if (!isRefused && !shown)
    return html`<p class="ok">The answer, unchanged: nothing blocks these texts.</p>`
  const before = shown?.text ?? ''
  const refusalText = shown?.refusal ?? refusal
  const status = isRefused && isError && before === '' ? 400 : 200
  const what = !isRefused
    ? 'answer'
    : !isError
      ? 'refusal, finish_reason content_filter'
      : before === ''
        ? 'policy_violation'
        : 'stream, then an error event: policy_violation'
  return html`<p>
      <span class=${status === 200 ? 'state' : 'state warn'}>${status}</span> ${what}${blocked.includes('input') ? html`<span class="muted"> · the model is not asked</span>` : ''}
    </p>
    ${shown?.header && html`<p class="mono muted header-line">X-Service-Guard: ${shown.header}</p>`}
    <p class="marked">
      ${before}${isRefused ? html`${before && html`<span class="cut" title="The stream is cut here">▮</span> `}${refusalText}` : ''}
    </p>`
}

/** Positions in the units of strings here; the API may count code points. */
function inUnits(
  text: string,
  span: { readonly start: number; readonly end: number; readonly text: string },
) {
  if (text.slice(span.start, span.end) === span.text) return span
  const points = [...text]
  const start = points.slice(0, span.start).join('').length
  return { start, end: start + span.text.length, text: span.text }
}

async function evaluate(
  policy: Policy,
  { input, output, chunk }: TrialTexts,
  ask: boolean,
  signal: AbortSignal,
): Promise<Read<Tried>> {
  // A text is required; without any, an empty one still has the policy checked.
  const texts = { ...((input || !output) && { input }), ...(output && { output }) }
  const { data } = await call<{ data: Read<Tried> }>('POST', '/admin/policies/evaluate', {
    body: { policy, ...texts, ...(ask && { ask }), ...(output && chunk > 0 && { chunk }) },
    signal,
  })
  return data
}
