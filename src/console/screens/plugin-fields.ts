/** The options of a plugin as fields of a form, and the values that they stand for. */
import { html } from '../html.ts'
import { CheckField, SelectField, TextField } from '../parts/form.ts'
import type { PluginAnswer } from '../../server/admin/resources/managed.ts'

type Field = PluginAnswer['fields'][number]

export function Option({
  field,
  value,
  onInput,
  error,
}: {
  readonly field: Field
  readonly value: string
  readonly error?: string | undefined
  readonly onInput: (text: string) => void
}) {
  const { label, help, kind, example, choices, required } = field
  const shown = required ? label : `${label} (optional)`
  if (kind === 'flag') {
    return html`<${CheckField} label=${label} help=${help} checked=${value === 'true'} onChange=${(on: boolean) => onInput(on ? 'true' : '')} />`
  }
  if (kind === 'choice') {
    const all = ['', ...(choices ?? [])].map((one) => ({ value: one, label: one || 'as usual' }))
    return html`<${SelectField} label=${shown} help=${help} value=${value} options=${all} onChange=${onInput} />`
  }
  const secret = kind === 'secret' && { type: 'password', autocomplete: 'new-password' }
  return html`<${TextField} label=${shown} help=${help} value=${value} placeholder=${example} mono ...${secret} error=${error} onInput=${onInput} />`
}

/** Options as the API takes them. */
export function optionsOf(
  { fields }: Pick<PluginAnswer, 'fields'>,
  given: Readonly<Record<string, string>>,
): object {
  const options: Record<string, unknown> = {}
  for (const { name, kind } of fields) {
    const text = given[name]?.trim()
    if (!text) continue
    const value = readAs(kind, text)
    const [first = '', second] = name.split('.')
    if (second === undefined) options[first] = value
    else options[first] = { ...(options[first] as object), [second]: value }
  }
  return options
}

function readAs(kind: Field['kind'], text: string): unknown {
  if (kind === 'number') return Number(text)
  if (kind === 'flag') return text === 'true'
  return kind === 'list' ? text.split(',').map((one) => one.trim()) : text
}

/** The same options with a variable in place of each secret, to be shown. @param name the name of the entry */
export function shownOptions(
  plugin: Pick<PluginAnswer, 'fields'>,
  given: Readonly<Record<string, string>>,
  name: string,
): object {
  const variables = plugin.fields.flatMap((field) => {
    if (field.kind !== 'secret' || !given[field.name]?.trim()) return []
    const words = `${name}_${field.name.replaceAll(/([a-z\d])([A-Z])/g, '$1_$2')}`
    const variable = words
      .replaceAll(/\W/g, '_')
      .toUpperCase()
      .replace(/^(?=\d)/, '_')
    return [[field.name, `\${${variable}}`] as const]
  })
  return optionsOf(plugin, { ...given, ...Object.fromEntries(variables) })
}
