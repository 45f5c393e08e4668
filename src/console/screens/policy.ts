/** The policy of a key: a form and its text side by side, tried on texts, compared with the saved one, then saved. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { ApiError } from '../api.ts'
import type { KeyRow, Policy } from '../answers.ts'
import { html } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Button } from '../parts/button.ts'
import { stayWhile } from '../state.ts'
import { Difference, SavePolicy, useDifference } from './policy-save.ts'
import { PolicyForm } from './policy-form.ts'
import { PolicyOfKey } from './policy-of-key.ts'
import { lineOf, readPolicyText, writePolicy } from './policy-text.ts'
import { TryIt, useTrial, type TrialTexts } from './policy-try.ts'
import { Replay } from './policy-replay.ts'

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
        <${Button} kind="primary" role="admin" title=${problem ?? 'Ctrl+Enter'} onClick=${save}>Save…<//>
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
        <div class="panel-body"><${TextPane} text=${text} onInput=${edit} error=${parsed.error} invalid=${invalid} /></div>
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
