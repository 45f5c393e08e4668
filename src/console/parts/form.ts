/** Fields of forms: label above, help below, error below with what would be right. */
import { useRef, useState } from 'preact/hooks'
import { toApiError, type ApiError } from '../api.ts'
import { html, type Content } from '../html.ts'

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

/** A line of text, or several with `rows`. `most` shows a counter of code points. */
export function TextField(
  props: FieldProps & {
    readonly value: string
    readonly onInput: (value: string) => void
    readonly rows?: number
    readonly most?: number
    readonly mono?: boolean
    readonly type?: string
    readonly placeholder?: string
    readonly autocomplete?: string
    readonly autofocus?: boolean
  },
) {
  const { value, onInput, rows, most, mono, type = 'text', placeholder, disabled } = props
  const { id, control } = useField(props)
  const shared = {
    ...control,
    value,
    placeholder,
    disabled,
    class: mono ? 'mono' : '',
    autofocus: props.autofocus,
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
  },
) {
  const { value, options, onChange, disabled } = props
  const { id, control } = useField(props)
  const change = (event: Event) => onChange((event.target as HTMLSelectElement).value)
  return frame(
    id,
    props,
    html`<select ...${control} disabled=${disabled} onChange=${change}>
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

export interface Submission {
  readonly busy: boolean
  readonly error: ApiError | undefined
  errorFor(param: string): string | undefined
  submit(event?: Event): void
}

/** @param act rejects with an ApiError that the form shows */
export function useSubmission(act: () => Promise<void>): Submission {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError>()
  return {
    busy,
    error,
    errorFor: (param) => (error?.param === param ? error.message : undefined),
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
