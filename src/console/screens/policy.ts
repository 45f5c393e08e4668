/** The policy of a key: a form and its text side by side, tried on texts, compared with the saved one, then saved. */
import { MISSING } from '../format.ts'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { ApiError, call, useAnswer, toApiError, withQuery } from '../api.ts'
import type { KeyRow, Policy } from '../answers.ts'
import { html } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Button } from '../parts/button.ts'
import { stayWhile } from '../state.ts'
import { PolicyForm } from './policy-form.ts'
import { SelectField, send, ShowAs, TextField, useSubmission, RadioField } from '../parts/form.ts'
import { Dialog } from '../parts/sheet.ts'
import { Failure } from '../parts/states.ts'
import type {
  Replayed,
  PolicyDifference as Differences,
  Tried,
  Verdict,
} from '../../server/admin/resources/policy.ts'
import { Conflict, keySeed, merged, offerUndo } from '../parts/conflict.ts'
import { changesBetween, Diff, type Change } from '../parts/diff.ts'
import { Heads } from '../parts/heads.ts'
import type { Read } from '../amounts.ts'

const EMPTY: Policy = { version: 1 }
const PANES = ['Form', 'JSON', 'Try it'] as const

/** @param onSaved gets the key as it was saved */
export function PolicyEditor({
  row,
  onSaved,
}: {
  readonly row: KeyRow
  readonly onSaved: (row: KeyRow) => void
}) {
  const saved = row.policy ?? EMPTY
  const [text, setText] = useState(() => writePolicy(saved))
  // The last policy that could be read: the form shows it while the text cannot be.
  const [last, setLast] = useState<Policy>(saved)
  const [texts, setTexts] = useState<TrialTexts>({ input: '', output: '', chunk: 4 })
  const [pane, setPane] = useState<(typeof PANES)[number]>('Form')
  const [open, setOpen] = useState<'save' | 'copy' | 'compare'>()
  // Another policy to compare with than the saved one.
  const [other, setOther] = useState<{ readonly policy: Policy; readonly name: string }>()
  const parsed = useMemo(() => readPolicyText(text), [text])
  const trial = useTrial(parsed.policy, texts)
  const invalid = trial.error?.param?.startsWith('policy') ? trial.error : undefined
  const written = invalid ? undefined : parsed.policy
  const difference = useDifference(saved, written)
  const compared = useDifference(other?.policy, written)
  const isChanged =
    writePolicy(parsed.policy ?? last) !== writePolicy(saved) || parsed.error !== undefined
  useEffect(
    () => stayWhile(() => (isChanged ? 'Leave without saving the policy?' : undefined)),
    [isChanged],
  )
  const write = (policy: Policy) => {
    setLast(policy)
    setText(writePolicy(policy))
  }
  // What another change made of the saved policy is shown, where nothing was typed.
  const shown = useRef(saved)
  useEffect(() => {
    if (text === writePolicy(shown.current)) write(saved)
    shown.current = saved
  }, [writePolicy(saved)])
  const edit = (value: string) => {
    setText(value)
    const { policy } = readPolicyText(value)
    if (policy) setLast(policy)
  }
  const save = () => !parsed.error && !invalid && isChanged && setOpen('save')
  const editor = useRef<HTMLDivElement>(null)
  useKeys({
    'ctrl+enter': save,
    t: () => {
      setPane('Try it')
      // On a narrow window the field is there once its pane is.
      requestAnimationFrame(() =>
        editor.current?.querySelector<HTMLElement>('.try textarea')?.focus(),
      )
    },
  })
  const problem = parsed.error
    ? 'The text is no JSON; repair it first.'
    : invalid
      ? invalid.message
      : isChanged
        ? undefined
        : 'Nothing has changed.'
  return html`<div class="screen">
    <div class="screen-head">
      <span class="muted" aria-live="polite">${problem ?? 'Changes are not saved.'}</span>
      <div class="screen-actions">
        <${Button} onClick=${() => setOpen('copy')}>Copy from key…<//>
        <${Button} onClick=${() => write(saved)}>Revert<//>
        <${Button} kind="primary" right="keys" title=${problem ?? 'Ctrl+Enter'} onClick=${save}>Save…<//>
      </div>
    </div>
    <div class="pane-tabs tabs" role="tablist" aria-label="Parts of the editor">
      ${PANES.map((name) => html`<button key=${name} type="button" role="tab" aria-selected=${name === pane ? 'true' : 'false'} onClick=${() => setPane(name)}>${name}</button>`)}
    </div>
    <div class="editor" ref=${editor}>
      <section class=${pane === 'Form' ? 'panel chosen' : 'panel'} aria-label="Form">
        <header><h2>Form</h2></header>
        <div class="panel-body"><${PolicyForm} policy=${parsed.policy ?? last} found=${trial.error ? [] : (trial.trial?.verdicts ?? [])} error=${invalid} disabled=${parsed.error !== undefined} onChange=${write} /></div>
      </section>
      <section class=${pane === 'JSON' ? 'panel chosen' : 'panel'} aria-label="JSON">
        <header><h2>JSON</h2></header>
        <div class="panel-body">
          <${TextPane} text=${text} onInput=${edit} error=${parsed.error} invalid=${invalid} />
          <${ShowAs} request=${saving(row, parsed.policy ?? last)} entry=${keySeed(row, { policy: parsed.policy ?? last })} />
        </div>
      </section>
      <div class=${pane === 'Try it' ? 'stack chosen' : 'stack'}>
        <section class="panel try" aria-label="Try it">
          <header><h2>Try it</h2></header>
          <div class="panel-body"><${TryIt} state=${trial} texts=${texts} onTexts=${setTexts} guard=${(parsed.policy ?? last).guard} /></div>
        </section>
        <section class="panel" aria-label="Difference">
          <header>
            <h2>Difference to ${other?.name ?? 'saved'}</h2>
            ${other ? html`<${Button} kind="quiet" onClick=${() => setOther(undefined)}>To saved<//>` : html`<${Button} kind="quiet" onClick=${() => setOpen('compare')}>To another key…<//>`}
          </header>
          <div class="panel-body"><${Difference} of=${other ? compared : difference} none=${other ? 'They are the same.' : 'It is the saved one.'} wrong=${!written} /></div>
        </section>
        <section class="panel" aria-label="Replay">
          <header><h2>Replay</h2></header>
          <div class="panel-body"><${Replay} keyId=${row.id} policy=${written} /></div>
        </section>
      </div>
    </div>
    ${
      open === 'save' &&
      parsed.policy &&
      html`<${SavePolicy}
      row=${row}
      policy=${parsed.policy}
      difference=${difference}
      onClose=${() => setOpen(undefined)}
      onSaved=${(next: KeyRow) => {
        setOpen(undefined)
        write(next.policy ?? EMPTY)
        onSaved(next)
      }}
      onRebase=${onSaved}
    />`
    }
    ${open === 'copy' && html`<${PolicyOfKey} title="Copy a policy" verb="Copy from" help="Nothing is saved by this: it replaces the text of the editor." onClose=${() => setOpen(undefined)} onChosen=${write} />`}
    ${open === 'compare' && html`<${PolicyOfKey} title="Compare with the policy of a key" verb="Compare with" help="Nothing is changed by this." onClose=${() => setOpen(undefined)} onChosen=${(policy: Policy, name: string) => setOther({ policy, name })} />`}
  </div>`
}

function TextPane({
  text,
  onInput,
  error,
  invalid,
}: {
  readonly text: string
  readonly onInput: (text: string) => void
  readonly error:
    | { readonly message: string; readonly line: number; readonly column: number }
    | undefined
  readonly invalid: ApiError | undefined
}) {
  const lines = text.split('\n').length
  const wrong = error?.line ?? (invalid?.param ? lineOf(text, invalid.param) : undefined)
  const message = error
    ? `Line ${error.line}, column ${error.column}: ${error.message}`
    : invalid?.message
  return html`<div class="json-edit">
      <ol class="gutter" aria-hidden="true">
        ${Array.from({ length: lines }, (_, index) => html`<li key=${index} class=${index + 1 === wrong ? 'wrong' : ''}>${index + 1}</li>`)}
      </ol>
      <textarea
        class="mono"
        rows=${Math.max(16, lines + 1)}
        wrap="off"
        spellcheck=${false}
        aria-label="Policy as JSON"
        aria-invalid=${message ? 'true' : undefined}
        aria-describedby="json-error"
        value=${text}
        onInput=${(event: Event) => onInput((event.target as HTMLTextAreaElement).value)}
      ></textarea>
    </div>
    <p id="json-error" class="error bad" aria-live="polite">${message ?? ''}</p>`
}

// Chooses a key that has a policy, to copy or compare with it.

/** @param onChosen gets the policy, with the name of its key */
function PolicyOfKey({
  title,
  verb,
  help,
  onClose,
  onChosen,
}: {
  readonly title: string
  readonly verb: string
  readonly help: string
  readonly onClose: () => void
  readonly onChosen: (policy: Policy, name: string) => void
}) {
  const [id, setId] = useState('')
  const [wrong, setWrong] = useState<string>()
  const keys = useAnswer<{ data: readonly KeyRow[] }>('/admin/keys?policy=any&sort=name&limit=200')
  const form = useSubmission(async () => {
    if (id.trim() === '') return setWrong('Choose a key, or enter its id.')
    const { data } = await call<{ data: KeyRow }>(
      'GET',
      `/admin/keys/${encodeURIComponent(id.trim())}`,
    )
    if (!data.policy) return setWrong('That key has no policy.')
    onChosen(data.policy, `${data.account_id}/${data.name}`)
    onClose()
  })
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      <${SelectField}
        label="Keys with a policy"
        value=${id}
        onChange=${setId}
        options=${[
          { value: '', label: keys.data ? 'choose one' : '…' },
          ...(keys.data?.data ?? []).map((one) => ({
            value: one.id,
            label: `${one.account_id}/${one.name}`,
          })),
        ]}
      />
      <${TextField}
        label=${`Key to ${verb.toLowerCase()}`}
        value=${id}
        onInput=${setId}
        mono
        placeholder="key_…"
        error=${wrong}
        autofocus
        help=${help}
      />
      ${form.error && html`<${Failure} error=${form.error} />`}
      <div class="actions">
        <${Button} kind="primary" type="submit" busy=${form.busy}>${verb}<//>
      </div>
    </form>
  <//>`
}

// Tries a policy on calls whose contents were kept.

const CALLS = 50

/** The button, and its result. @param policy undefined while it is wrong */
function Replay({
  keyId,
  policy,
}: {
  readonly keyId: string
  readonly policy: Policy | undefined
}) {
  const [replayed, setReplayed] = useState<Replayed>()
  const [error, setError] = useState<ApiError>()
  const [busy, setBusy] = useState(false)
  const run = async () => {
    setBusy(true)
    setError(undefined)
    try {
      const { data } = await call<{ data: Replayed }>('POST', '/admin/policies/replay', {
        body: { policy, key: keyId, limit: CALLS },
      })
      setReplayed(data)
    } catch (thrown) {
      setError(toApiError(thrown))
    }
    setBusy(false)
  }
  return html`<p class="help">Compares the verdicts on the last ${CALLS} calls of this key whose contents were kept.</p>
    ${error && html`<${Failure} error=${error} />`}
    ${replayed && html`<${Changes} found=${replayed} />`}
    <div><${Button} right="keys" busy=${busy} onClick=${() => policy && run()}>Run<//></div>`
}

function Changes({ found }: { readonly found: Replayed }) {
  const { contents, calls, unreadable, cut, blocked, changed } = found
  if (contents === 0)
    return html`<p class="muted">No contents of this key are kept, so there is nothing to replay.</p>`
  return html`<p>
      ${calls} calls with content, ${changed.length} with another verdict; ${blocked.before} were blocked, ${blocked.after} would be.
    </p>
    ${unreadable + cut > 0 && html`<p class="muted">${unreadable} are too long to be read, of ${cut} the refused answer was not kept.</p>`}
    <ul>
      ${changed.map(
        ({ id, side, from, to, rules }) =>
          html`<li key=${id}><a class="mono" href=${withQuery('/console/requests', { open: id })}>${id}</a> ${side}: ${from} → ${to}, ${rules.join(', ')}</li>`,
      )}
    </ul>`
}

// The changes of a policy, by the gateway's own order of policies, and saving it.

const SILENCE_MS = 400

/** The answer of `POST /admin/policies/diff`; without its order where the gateway cannot tell. */
interface PolicyDifference {
  readonly changes: readonly Change[]
  readonly mayTighten: readonly string[]
  readonly error?: ApiError
}

/** The differences between two policies. @param from undefined compares nothing. @param to undefined if wrong */
function useDifference(
  from: Policy | undefined,
  to: Policy | undefined,
): PolicyDifference | undefined {
  const [difference, setDifference] = useState<PolicyDifference>()
  const key = JSON.stringify([from, to])
  useEffect(() => {
    if (!from || !to) return undefined
    const controller = new AbortController()
    const timer = setTimeout(() => {
      const own = changesBetween(
        from as unknown as Record<string, unknown>,
        to as unknown as Record<string, unknown>,
      )
      call<{ data: Differences }>('POST', '/admin/policies/diff', {
        body: { from, to },
        signal: controller.signal,
      }).then(
        ({ data: { members, may_tighten: may } }) =>
          setDifference({ changes: members, mayTighten: textsIn(may) }),
        (thrown: unknown) => {
          if (!controller.signal.aborted)
            setDifference({ changes: own, mayTighten: [], error: toApiError(thrown) })
        },
      )
    }, SILENCE_MS)
    return () => {
      clearTimeout(timer)
      controller.abort()
    }
  }, [key])
  return difference
}

function Difference({
  of,
  none = 'It is the saved one.',
  wrong = false,
}: {
  readonly of: PolicyDifference | undefined
  readonly none?: string
  readonly wrong?: boolean
}) {
  if (!of) {
    return html`<p class="muted">${wrong ? 'The policy cannot be compared while it is wrong.' : 'Comparing …'}</p>`
  }
  return html`<${Diff} changes=${of.changes} none=${none} />
    ${of.error && html`<p class="help">Tighter or looser is not known: ${of.error.message}</p>`}
    ${of.mayTighten.length > 0 && html`<p class="help">A request may still: ${of.mayTighten.join(', ')}.</p>`}`
}

/** Shows the difference once more, and saves. Another operator's change meanwhile is shown member by member. */
function SavePolicy({
  row,
  policy,
  difference,
  onClose,
  onSaved,
  onRebase,
}: {
  readonly row: KeyRow
  readonly policy: Policy
  readonly difference: PolicyDifference | undefined
  readonly onClose: () => void
  readonly onSaved: (row: KeyRow) => void
  readonly onRebase: (row: KeyRow) => void
}) {
  const [theirs, setTheirs] = useState<KeyRow>()
  const looser = difference?.changes.filter(({ order }) => order === 'looser').length ?? 0
  const form = useSubmission(async () => {
    try {
      const wanted = theirs
        ? (merged(
            membersOf(row.policy),
            membersOf(theirs.policy),
            membersOf(policy),
          ) as unknown as Policy)
        : policy
      const request = saving(theirs ?? row, wanted)
      const { data } = await send<{ data: KeyRow }>(request)
      onSaved(data)
      offerUndo(request.path, { policy: (theirs ?? row).policy }, data)
    } catch (thrown) {
      const error = toApiError(thrown)
      if (error.status !== 412) throw error
      setTheirs((error.body as { data: KeyRow }).data)
    }
  })
  const rebase = () => {
    if (theirs) onRebase(theirs)
    form.submit()
  }
  return html`<${Dialog} title=${`Save the policy of ${row.name}`} wide onClose=${onClose}>
    <${Difference} of=${difference} />
    ${theirs && html`<${Conflict} saved=${membersOf(row.policy)} theirs=${membersOf(theirs.policy)} mine=${membersOf(policy)} />`}
    ${form.error && html`<${Failure} error=${form.error} />`}
    <p class="help">It holds from the next call on. Calls that run keep the one they began with.</p>
    <div class="actions">
      <${Button} kind=${looser > 0 ? 'danger-filled' : 'primary'} right="keys" busy=${form.busy} onClick=${theirs ? rebase : form.submit}>
        ${theirs ? 'Apply mine on top' : looser > 0 ? `Save, loosens ${looser}` : 'Save policy'}
      <//>
      <${Button} onClick=${onClose}>Back<//>
    </div>
  <//>`
}

const saving = (row: KeyRow, policy: Policy) => ({
  method: 'PATCH',
  path: `/admin/keys/${row.id}`,
  body: { policy },
  revision: row.revision,
})

function membersOf(policy: Policy | null): Readonly<Record<string, unknown>> {
  return { ...policy }
}

function textsIn(may: Differences['may_tighten'] | undefined): readonly string[] {
  if (!may) return []
  const { scope, deny, banned_patterns: patterns, max_output_tokens: most, guard } = may
  return [
    ...(scope ? ['narrow the scope'] : []),
    ...(deny.length > 0 ? [`deny ${deny.join(', ')}`] : []),
    ...(patterns > 0 ? [`ban ${patterns} patterns`] : []),
    most === null ? 'limit the answer' : `limit the answer below ${most} tokens`,
    ...guard.map((member) => `tighten ${member}`),
  ]
}

// Tries a policy on texts, without models unless the operator asks: the verdict of every rule, and what a client would get.

interface TrialState {
  readonly trial: Read<Tried> | undefined
  readonly error: ApiError | undefined
  readonly busy: boolean
  run(ask: boolean): void
}

interface TrialTexts {
  readonly input: string
  readonly output: string
  /** Characters that arrive at a time; 0 for the whole text. */
  readonly chunk: number
}

/** Evaluates a policy after every pause of typing. Also reports what the gateway finds wrong with it. */
function useTrial(policy: Policy | undefined, texts: TrialTexts): TrialState {
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

/** A policy that is written while its key is made: the form, and texts to try it on. @param send the policy to be tried */
export function PolicyFields({
  policy,
  send,
  onChange,
}: {
  readonly policy: Policy
  readonly send: Policy
  readonly onChange: (policy: Policy) => void
}) {
  const [texts, setTexts] = useState<TrialTexts>({ input: '', output: '', chunk: 4 })
  const trial = useTrial(send, texts)
  const invalid = trial.error?.param?.startsWith('policy') ? trial.error : undefined
  const found = trial.error ? [] : (trial.trial?.verdicts ?? [])
  return html`<div class="halves policy-fields">
    <${PolicyForm} policy=${policy} found=${found} error=${invalid} disabled=${false} onChange=${onChange} />
    <div class="try"><${TryIt} state=${trial} texts=${texts} onTexts=${setTexts} guard=${policy.guard} /></div>
  </div>`
}

function TryIt({
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
      <${Button} right="keys" busy=${busy} onClick=${() => state.run(true)}>Ask judges<//>
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
            <td class="muted">${guard ?? MISSING}</td>
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

// A policy as text: how it is written, read, and where it is wrong. Pure.

const ORDER = [
  'version',
  'scope',
  'deny',
  'systemPrompt',
  'refusal',
  'escalate',
  'maxOutputTokens',
  'bannedPatterns',
  'guard',
]

type Parsed =
  | { readonly policy: Policy; readonly error?: undefined }
  | { readonly policy?: undefined; readonly error: TextError }

interface TextError {
  readonly message: string
  readonly line: number
  readonly column: number
}

/** A policy as text: members in the order of the documentation, without those that are empty. */
function writePolicy(policy: Policy): string {
  const record = policy as unknown as Record<string, unknown>
  const names = [...ORDER, ...Object.keys(record).filter((name) => !ORDER.includes(name))]
  const members = names.filter((name) => !isEmpty(record[name])).map((name) => [name, record[name]])
  return JSON.stringify(Object.fromEntries(members), undefined, 2)
}

function readPolicyText(text: string): Parsed {
  try {
    const policy = JSON.parse(text) as unknown
    if (typeof policy === 'object' && policy !== null && !Array.isArray(policy)) {
      return { policy: policy as Policy }
    }
    return { error: { message: 'A policy is an object: { "version": 1, … }', line: 1, column: 1 } }
  } catch (error) {
    return { error: whereOf(text, String((error as Error).message)) }
  }
}

/** The line of a member such as `policy.bannedPatterns[1]`, from 1 on; undefined where the text does not show it. */
function lineOf(text: string, param: string): number | undefined {
  const [, name, index, inner] = /^policy\.?(\w+)(?:\[(\d+)\])?(?:\.(\w+))?/.exec(param) ?? []
  if (name === undefined) return undefined
  const lines = text.split('\n')
  const at = lines.findIndex((line) => line.includes(`"${name}"`))
  if (at < 0) return undefined
  if (index !== undefined) return at + 2 + Number(index)
  if (inner === undefined) return at + 1
  const below = lines.findIndex((line, place) => place > at && line.includes(`"${inner}"`))
  return (below < 0 ? at : below) + 1
}

/** A text in parts, with the spans that cover each: overlapping ones are on the same part. */
function marked(
  text: string,
  spans: readonly { readonly start: number; readonly end: number; readonly rule: string }[],
): readonly { readonly text: string; readonly rules: readonly string[] }[] {
  const borders = new Set([0, text.length, ...spans.flatMap(({ start, end }) => [start, end])])
  const places = [...borders]
    .filter((place) => place >= 0 && place <= text.length)
    .sort((a, b) => a - b)
  return places.slice(1).map((end, index) => {
    const start = places[index]!
    const rules = spans
      .filter((span) => span.start <= start && span.end >= end)
      .map(({ rule }) => rule)
    return { text: text.slice(start, end), rules: [...new Set(rules)] }
  })
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === '') return true
  if (Array.isArray(value)) return value.length === 0
  return (
    typeof value === 'object' &&
    value !== null &&
    Object.values(value).every((one) => one === undefined)
  )
}

function whereOf(text: string, message: string): TextError {
  const [, line, column] = /line (\d+) column (\d+)/.exec(message) ?? []
  if (line) return { message: plain(message), line: Number(line), column: Number(column) }
  const position = Number(/position (\d+)/.exec(message)?.[1] ?? text.length)
  const before = text.slice(0, position).split('\n')
  return { message: plain(message), line: before.length, column: before.at(-1)!.length + 1 }
}

function plain(message: string): string {
  return message.replace(/ in JSON at position.*$/, '').replace(/ \(line.*\)$/, '')
}
