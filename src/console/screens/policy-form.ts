/** The members of a policy as controls. They write the text, which is the state. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { useAnswer, type ApiError } from '../api.ts'
import type { Policy } from '../answers.ts'
import { html } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Button } from '../parts/button.ts'
import { CheckField, RadioField, SelectField, TextField } from '../parts/form.ts'
import { Notice } from '../parts/states.ts'
import type { Verdict } from '../../server/admin/resources/policy.ts'

const MOST_PATTERNS = 32

/** @param disabled while the text cannot be read */
export function PolicyForm({
  policy,
  found,
  error,
  disabled,
  onChange,
}: {
  readonly policy: Policy
  readonly found: readonly Verdict[]
  readonly error: ApiError | undefined
  readonly disabled: boolean
  readonly onChange: (policy: Policy) => void
}) {
  const { guard = {}, escalate } = policy
  const set = (change: Partial<Record<keyof Policy, unknown>>) =>
    onChange({ ...policy, ...change } as Policy)
  const setGuard = (change: object) => set({ guard: { ...guard, ...change } })
  const errorFor = (member: string) =>
    error?.param === `policy.${member}` ? error.message : undefined
  const text = (member: 'scope' | 'systemPrompt' | 'refusal') => (value: string) =>
    set({ [member]: value || undefined })
  return html`<fieldset class="form" disabled=${disabled}>
    <legend class="hidden">Members of the policy</legend>
    ${guard.mode === 'monitor' && html`<${Notice} tone="warn">Monitor: findings are recorded, and nothing is enforced.<//>`}
    <${TextField} label="Scope" value=${policy.scope ?? ''} onInput=${text('scope')} rows=${2} most=${4000} error=${errorFor('scope')} help="The only subjects allowed. Told to the model; judged only where a judge is configured." />
    <${Deny} denied=${policy.deny ?? []} onChange=${(deny: readonly string[]) => set({ deny: deny.length > 0 ? deny : undefined })} />
    <${Patterns} disabled=${disabled} found=${found} patterns=${policy.bannedPatterns ?? []} error=${error} onChange=${(patterns: readonly string[]) => set({ bannedPatterns: patterns.length > 0 ? patterns : undefined })} />
    <${TextField} label="System prompt" value=${policy.systemPrompt ?? ''} onInput=${text('systemPrompt')} rows=${3} most=${20_000} error=${errorFor('systemPrompt')} />
    <${TextField}
      label="Answer limit, tokens"
      value=${String(policy.maxOutputTokens ?? '')}
      placeholder="none"
      error=${errorFor('maxOutputTokens')}
      onInput=${(value: string) => set({ maxOutputTokens: value.trim() === '' ? undefined : /^\d+$/.test(value.trim()) ? Number(value) : value })}
    />
    <${RadioField} label="When blocked" value=${guard.onBlock ?? ''} onChange=${(value: string) => setGuard({ onBlock: value || undefined })} options=${[
      { value: '', label: 'default (refuse)' },
      { value: 'refuse', label: 'refuse' },
      { value: 'error', label: 'error' },
    ]} />
    <${TextField} label="Refusal" value=${policy.refusal ?? ''} onInput=${text('refusal')} rows=${2} most=${2000} placeholder="I can't help with that here." error=${errorFor('refusal')} />
    <${CheckField} label="Escalate blocks" checked=${escalate?.enabled ?? false} onChange=${(enabled: boolean) => set({ escalate: enabled || escalate?.message ? { ...escalate, enabled } : undefined })} help="Marks the event for the operator's ticket queue, and adds a message to the refusal." />
    ${escalate?.enabled && html`<${TextField} label="Message of the escalation" value=${escalate.message ?? ''} onInput=${(message: string) => set({ escalate: { enabled: true, message: message || undefined } })} rows=${2} most=${2000} error=${errorFor('escalate.message')} />`}
    <${GuardFields} guard=${guard} onChange=${setGuard} errorFor=${errorFor} />
  </fieldset>`
}

function Deny({
  denied,
  onChange,
}: {
  readonly denied: readonly string[]
  readonly onChange: (deny: readonly string[]) => void
}) {
  const [shown, setShown] = useState<string>()
  const toggle = (name: string, on: boolean) =>
    onChange(on ? [...denied, name] : denied.filter((one) => one !== name))
  return html`<fieldset class="field">
    <legend>Deny</legend>
    <div class="choices">
      ${Object.keys(CATEGORIES).map(
        (name) => html`<label class="check" key=${name} title=${CATEGORIES[name]}>
          <input type="checkbox" checked=${denied.includes(name)} onFocus=${() => setShown(name)} onChange=${(event: Event) => toggle(name, (event.target as HTMLInputElement).checked)} />
          ${name}
        </label>`,
      )}
    </div>
    <p class="help" aria-live="polite">${shown ? CATEGORIES[shown] : 'Asking for it and producing it both count.'}</p>
  </fieldset>`
}

function Patterns({
  patterns,
  found,
  error,
  disabled,
  onChange,
}: {
  readonly disabled: boolean
  readonly patterns: readonly string[]
  readonly found: readonly Verdict[]
  readonly error: ApiError | undefined
  readonly onChange: (patterns: readonly string[]) => void
}) {
  const [many, setMany] = useState<string>()
  const replace = (index: number, value: string) =>
    onChange(patterns.map((one, place) => (place === index ? value : one)))
  const move = (index: number) =>
    onChange(
      patterns.map((one, place) =>
        place === index - 1 ? patterns[index]! : place === index ? patterns[index - 1]! : one,
      ),
    )
  const addMany = () => {
    onChange([
      ...patterns,
      ...(many ?? '')
        .split('\n')
        .map((line) => line.trim())
        .filter(Boolean),
    ])
    setMany(undefined)
  }
  const wrong = (index: number) =>
    error?.param === `policy.bannedPatterns[${index}]` ||
    error?.param === `policy.bannedPatterns.${index}`
      ? error.message
      : undefined
  const matches = (index: number) =>
    found.flatMap(({ rule, side, spans }) =>
      rule === `bannedPatterns[${index}]`
        ? (spans ?? []).map(({ text }) => `“${text}” in the ${side}`)
        : [],
    )
  const list = useRef<HTMLOListElement>(null)
  const isAdded = useRef(false)
  const add = () => {
    isAdded.current = true
    onChange([...patterns, ''])
  }
  useEffect(() => {
    if (isAdded.current) list.current?.querySelector<HTMLElement>('li:last-child input')?.focus()
    isAdded.current = false
  }, [patterns.length])
  useKeys({ n: () => !disabled && list.current?.checkVisibility() && add() })
  return html`<fieldset class="field">
    <legend class="legend-row">Banned patterns <span class="counter">${patterns.length} / ${MOST_PATTERNS}</span></legend>
    <p class="help">Words or RE2 expressions; upper and lower case are the same. Plain words are found in disguises, too.</p>
    <ol class="patterns" ref=${list}>
      ${patterns.map(
        (pattern, index) => html`<li key=${index}>
          <input type="text" class="mono" spellcheck=${false} aria-label=${`Pattern ${index + 1}`} aria-invalid=${wrong(index) ? 'true' : undefined} value=${pattern} onInput=${(event: Event) => replace(index, (event.target as HTMLInputElement).value)} />
          <span class=${wrong(index) ? 'bad' : 'ok'} aria-hidden="true">${wrong(index) ? '✕' : '✓'}</span>
          <button type="button" class="button quiet" aria-label=${`Move pattern ${index + 1} up`} aria-disabled=${index === 0 ? 'true' : undefined} onClick=${() => index > 0 && move(index)}>↑</button>
          <button type="button" class="button quiet" aria-label=${`Remove pattern ${index + 1}`} onClick=${() => onChange(patterns.filter((_, place) => place !== index))}>✕</button>
          ${wrong(index) ? html`<p class="error" role="alert">${wrong(index)}</p>` : matches(index).length > 0 && html`<p class="help">matches ${matches(index).join(', ')}</p>`}
        </li>`,
      )}
    </ol>
    ${many !== undefined && html`<${TextField} label="One pattern a line" value=${many} onInput=${setMany} rows=${4} mono />`}
    <div class="actions">
      <${Button} title="n" onClick=${add}>Add pattern<//>
      ${many === undefined ? html`<${Button} kind="quiet" onClick=${() => setMany('')}>Paste many<//>` : html`<${Button} onClick=${addMany}>Add these<//>`}
    </div>
  </fieldset>`
}

function GuardFields({
  guard,
  onChange,
  errorFor,
}: {
  readonly guard: NonNullable<Policy['guard']>
  readonly onChange: (change: object) => void
  readonly errorFor: (member: string) => string | undefined
}) {
  // Asked for once the pointer or the focus comes near: most policies have no judge.
  const [isNear, setIsNear] = useState(false)
  const come = () => setIsNear(true)
  const models =
    useAnswer<{ data: readonly { readonly id: string; readonly modality: string }[] }>(
      isNear ? '/admin/models' : null,
    ).data?.data ?? []
  const guards =
    useAnswer<{ data: { readonly guards: readonly { readonly guard: string }[] } }>(
      isNear ? '/admin/guard' : null,
    ).data?.data.guards ?? []
  const sides = [
    { value: '', label: 'default (on)' },
    { value: 'true', label: 'on' },
    { value: 'false', label: 'off' },
  ]
  const side = (member: 'input' | 'output') => ({
    value: guard[member] === undefined ? '' : String(guard[member]),
    options: sides,
    onChange: (value: string) =>
      onChange({ [member]: value === '' ? undefined : value === 'true' }),
  })
  const choice = (member: 'mode' | 'onError' | 'stream', values: readonly string[]) => ({
    value: guard[member] ?? '',
    options: [
      { value: '', label: `default (${values[0]})` },
      ...values.map((value) => ({ value, label: value })),
    ],
    onChange: (value: string) => onChange({ [member]: value || undefined }),
  })
  const judges = [
    ...guards.map((one) => `guard/${one.guard}`),
    ...models.filter(({ modality }) => modality === 'chat').map(({ id }) => id),
  ]
  if (guard.model !== undefined && !judges.includes(guard.model)) judges.unshift(guard.model)
  return html`<div class="row" onPointerEnter=${come} onFocusIn=${come}>
    <${SelectField} label="Check input" ...${side('input')} />
    <${SelectField} label="Check output" ...${side('output')} />
    <${SelectField} label="Mode" ...${choice('mode', ['block', 'monitor'])} />
    <${SelectField} label="If a guard fails" ...${choice('onError', ['block', 'allow'])} />
    <${SelectField} label="Streams" ...${choice('stream', ['scan', 'buffer'])} help="scan releases text as soon as it is safe." />
    <${SelectField} label="Judge" value=${guard.model ?? ''} onChange=${(value: string) => onChange({ model: value || undefined })} error=${errorFor('guard.model')} options=${[{ value: '', label: 'default' }, ...judges.map((id) => ({ value: id, label: id }))]} />
  </div>`
}

const CATEGORIES: Readonly<Record<string, string>> = {
  code: 'Writing, changing, explaining, running or judging program text: source, queries, markup, configuration, shell, regular expressions, formulas, tests, schemas. Not: talk about the software trade, product support without debugging.',
  math: 'Computing, solving or proving something as the point of the request, homework and everyday arithmetic included. Not: quantities, dates, prices and facts that happen to be numbers.',
  roleplay:
    'The assistant is asked to be, or speaks as, a person or character; shared fiction, companion talk, game mastering. Not: third-person stories, functional framing such as "act as a proofreader".',
  medical:
    'Diagnosis, treatment, dosing, reading of symptoms or results, for a human being. Not: general biology, public health facts, logistics of clinics, food.',
  legal:
    'Advice on rights, liability or procedure in a situation; drafting or reading legal documents. Not: history and civics, news.',
  'financial-advice':
    'What to buy, sell, borrow, insure or save, personal tax and pension choices, judging a portfolio. Not: definitions, company facts, billing support.',
  'personal-data':
    'Text that carries data of an identifiable private person, or a request to find or compile it. Not: public figures in their public role, organisations, placeholders.',
}
