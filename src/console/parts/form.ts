/** Fields of forms: label above, help below, error below with what would be right; and how a form ends. */
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { call, toApiError, type ApiError } from '../api.ts'
import { ownAddress } from '../base.ts'
import { html, type Content } from '../html.ts'
import { curl, yaml, type ApiRequest } from './as-text.ts'
import { Button } from './button.ts'
import { Code } from './copy.ts'
import { Failure } from './states.ts'
import type { Right } from '../../server/admin/resources/rights.ts'

let fields = 0

interface FieldProps {
  readonly label: Content
  readonly help?: Content
  readonly error?: string | undefined
  readonly disabled?: boolean
}

function useField({ help, error }: FieldProps) {
  const ref = useRef('')
  if (ref.current === '') ref.current = `field-${++fields}`
  const id = ref.current
  const described = [help ? `${id}-help` : '', error ? `${id}-error` : ''].filter(Boolean).join(' ')
  return {
    id,
    control: {
      id,
      'aria-describedby': described || undefined,
      'aria-invalid': error ? 'true' : undefined,
    },
  }
}

function frame(id: string, { label, help, error }: FieldProps, control: Content, side?: Content) {
  return html`<div class=${error ? 'field wrong' : 'field'}>
    <div class="field-head"><label for=${id}>${label}</label>${side}</div>
    ${control} ${help ? html`<p class="help" id=${`${id}-help`}>${help}</p>` : null}
    ${error ? html`<p class="error" id=${`${id}-error`}>${error}</p>` : null}
  </div>`
}

/** A line of text, or several with `rows`. `most` shows a counter of code points; a `decimal` has a point in every language. */
export function TextField(
  ownProps: FieldProps & {
    readonly decimal?: boolean
    readonly value: string
    readonly onInput: (value: string) => void
    readonly rows?: number
    readonly most?: number
    readonly mono?: boolean
    readonly type?: string
    readonly placeholder?: string
    readonly autocomplete?: string
    readonly autofocus?: boolean
    /** The id of a list of values that are proposed. */
    readonly list?: string
    readonly onFocus?: () => void
  },
) {
  const comma = ownProps.decimal && /^\s*-?\d+,\d*\s*$/.test(ownProps.value)
  const written = `Write ${ownProps.value.trim().replace(',', '.')}`
  const props = comma ? { ...ownProps, error: written } : ownProps
  const { value, onInput, rows, most, mono, type = 'text', placeholder, disabled } = props
  const { id, control } = useField(props)
  const shared = {
    ...control,
    value,
    placeholder,
    disabled,
    class: mono ? 'mono' : '',
    autofocus: props.autofocus,
    list: props.list,
    onFocus: props.onFocus,
    autocomplete: props.autocomplete ?? 'off',
    spellcheck: mono ? false : undefined,
    onInput: (event: Event) => onInput((event.target as HTMLInputElement).value),
  }
  const length = most === undefined ? 0 : [...value].length
  const counter =
    most !== undefined &&
    html`<span class=${length > most ? 'counter bad' : 'counter'}> ${length} / ${most} </span>`
  const box =
    rows === undefined
      ? html`<input type=${type} ...${shared} />`
      : html`<textarea rows=${rows} ...${shared}></textarea>`
  return frame(id, props, box, counter)
}

export function SelectField(
  props: FieldProps & {
    readonly value: string
    readonly options: readonly { readonly value: string; readonly label: string }[]
    readonly onChange: (value: string) => void
    readonly autofocus?: boolean
  },
) {
  const { value, options, onChange, disabled, autofocus } = props
  const { id, control } = useField(props)
  const change = (event: Event) => onChange((event.target as HTMLSelectElement).value)
  return frame(
    id,
    props,
    html`<select ...${control} autofocus=${autofocus} disabled=${disabled} onChange=${change}>
      ${options.map(
        (one) =>
          html`<option key=${one.value} value=${one.value} selected=${one.value === value}>
            ${one.label}
          </option>`,
      )}
    </select>`,
  )
}

export function CheckField(
  props: FieldProps & {
    readonly checked: boolean
    readonly onChange: (checked: boolean) => void
  },
) {
  const { label, help, error, checked, onChange, disabled } = props
  const { id, control } = useField(props)
  const change = (event: Event) => onChange((event.target as HTMLInputElement).checked)
  return html`<div class="field">
    <label class="check">
      <input
        type="checkbox"
        ...${control}
        checked=${checked}
        disabled=${disabled}
        onChange=${change}
      />
      ${label}
    </label>
    ${help ? html`<p class="help" id=${`${id}-help`}>${help}</p>` : null}
    ${error ? html`<p class="error" id=${`${id}-error`}>${error}</p>` : null}
  </div>`
}

export function RadioField({
  label,
  value,
  options,
  onChange,
  help,
  disabled,
}: Omit<FieldProps, 'error'> & {
  readonly value: string
  readonly options: readonly { readonly value: string; readonly label: Content }[]
  readonly onChange: (value: string) => void
}) {
  const name = useRef(`choice-${++fields}`).current
  return html`<fieldset class="field">
    <legend>${label}</legend>
    <div class="choices">
      ${options.map(
        (one) =>
          html`<label class="check" key=${one.value}>
            <input
              type="radio"
              name=${name}
              value=${one.value}
              checked=${one.value === value}
              disabled=${disabled}
              onChange=${() => onChange(one.value)}
            />
            ${one.label}
          </label>`,
      )}
    </div>
    ${help ? html`<p class="help">${help}</p>` : null}
  </fieldset>`
}

/** Rows of fields: each can be removed, and one that is added gets the focus. @param children the fields of a row */
export function RowsField<Row extends object>({
  label,
  rows,
  onChange,
  none,
  add,
  fresh,
  error,
  children,
}: {
  readonly label: string
  readonly rows: readonly Row[]
  readonly onChange: (rows: readonly Row[]) => void
  /** The meaning of no row. */
  readonly none: string
  /** The verb that adds a row, and what is in it then. */
  readonly add: string
  readonly fresh: Row
  readonly error: string | undefined
  readonly children: (row: Row, set: (change: Partial<Row>) => void, at: number) => Content
}) {
  const box = useRef<HTMLFieldSetElement>(null)
  const isAdded = useRef(false)
  useEffect(() => {
    const last = [...box.current!.querySelectorAll('.row')].at(-1)
    if (isAdded.current) last?.querySelector<HTMLElement>('input, select')?.focus()
    isAdded.current = false
  }, [rows.length])
  const addOne = () => {
    isAdded.current = true
    onChange([...rows, fresh])
  }
  return html`<fieldset class="form" ref=${box}>
    <legend>${label}</legend>
    ${rows.length === 0 && html`<p class="help">${none}</p>`}
    ${rows.map((row, at) => {
      const set = (change: Partial<Row>) =>
        onChange(rows.map((one, n) => (n === at ? { ...one, ...change } : one)))
      return html`<div class="row tight" key=${at}>
        ${children(row, set, at)}
        <${Button} kind="quiet" onClick=${() => onChange(rows.filter((_, n) => n !== at))}>Remove<//>
      </div>`
    })}
    <div><${Button} onClick=${addOne}>${add}<//></div>
    ${error && html`<p class="error">${error}</p>`}
  </fieldset>`
}

/** The form whose element with this selector gets the focus as it appears: an effect after the paint would miss a key that is pressed at once. */
export function useFocus(selector: string) {
  const form = useRef<HTMLFormElement>(null)
  useLayoutEffect(() => form.current?.querySelector<HTMLElement>(selector)?.focus(), [])
  return form
}

export interface Submission {
  readonly busy: boolean
  readonly error: ApiError | undefined
  /** The error, unless each of its issues stands at a field. */
  unplaced(): ApiError | undefined
  /** What is wrong with the value of a field. */
  errorFor(param: string): string | undefined
  submit(event?: Event): void
}

/** @param act rejects with an ApiError that the form shows */
export function useSubmission(act: () => Promise<void>): Submission {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError>()
  const placed = useRef(new Set<string>()).current
  const issues = issuesOf(error)
  return {
    busy,
    error,
    unplaced: () =>
      issues.length > 0 && issues.every(({ path }) => placed.has(path)) ? undefined : error,
    errorFor(param) {
      placed.add(param)
      return issues.find(({ path }) => path === param)?.message
    },
    submit(event) {
      event?.preventDefault()
      if (busy) return
      setBusy(true)
      setError(undefined)
      act()
        .catch((thrown: unknown) => setError(toApiError(thrown)))
        .finally(() => setBusy(false))
    },
  }
}

/** Everything that the API found wrong, by the member. */
function issuesOf(
  error: ApiError | undefined,
): readonly { readonly path: string; readonly message: string }[] {
  if (!error) return []
  const { issues } = (error.body ?? {}) as { issues?: ReturnType<typeof issuesOf> }
  return issues ?? (error.param === null ? [] : [{ path: error.param, message: error.message }])
}

export function send<Answer>({ method, path, body, revision }: ApiRequest): Promise<Answer> {
  return call<Answer>(method, path, { body, revision: revision ?? null })
}

/**
 * The end of a form: what is wrong with none of its fields, what it would send, and its buttons.
 * @param request what it would send, secrets as variables
 * @param entry the same as members of a configuration
 */
export function FormEnd({
  form,
  verb,
  right,
  kind = 'primary',
  request,
  entry,
  onClose,
  children,
}: {
  readonly form: Submission
  readonly verb: string
  readonly right?: Right
  readonly kind?: 'primary' | 'danger-filled'
  readonly request?: ApiRequest
  readonly entry?: object
  readonly onClose?: () => void
  readonly children?: Content
}) {
  const error = form.unplaced()
  return html`${error && html`<${Failure} error=${error} />`}
    ${request && html`<${ShowAs} request=${request} entry=${entry} />`}
    <div class="actions">
      <${Button} kind=${kind} type="submit" right=${right} busy=${form.busy}>${verb}<//>
      ${onClose && html`<${Button} onClick=${onClose}>Cancel<//>`}
      ${children}
    </div>`
}

/** What a form would send, as a command and as lines of the configuration. */
export function ShowAs({
  request,
  entry,
}: {
  readonly request: ApiRequest
  readonly entry?: object | undefined
}) {
  const [open, setOpen] = useState(false)
  return html`<details
    class="show-as"
    onToggle=${(event: Event) => setOpen((event.target as HTMLDetailsElement).open)}
  >
    <summary>${entry ? 'Show as YAML and curl' : 'Show as curl'}</summary>
    ${open && entry && html`<${Code} label="gateway.config.yaml" text=${yaml(entry)} />`}
    ${open && html`<${Code} label="curl" text=${curl(request, ownAddress())} />`}
  </details>`
}
