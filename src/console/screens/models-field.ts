/** The models that a key may use: ids and patterns as text, or chosen from the catalog. */
import { useAnswer } from '../api.ts'
import { count } from '../format.ts'
import { html } from '../html.ts'
import { TextField } from '../parts/form.ts'
import type { ModelRow } from '../answers.ts'

const NAMED = 5

export function entriesOf(text: string): readonly string[] {
  return text.split(/[\s,]+/).filter(Boolean)
}

export function ModelsField({
  value,
  onInput,
  error,
  empty,
}: {
  readonly value: string
  readonly onInput: (value: string) => void
  readonly error?: string | undefined
  /** The models where none is given; all of them by default. */
  readonly empty?: string | undefined
}) {
  const models = useAnswer<{ data: readonly ModelRow[] }>('/admin/models').data?.data
  const entries = entriesOf(value)
  const matched = models?.filter(({ id }) => entries.some((one) => covers(one, id))) ?? []
  const help =
    entries.length === 0
      ? `Empty: ${empty === undefined ? 'all models' : 'those of new keys'}. Else ids and vendor/*, with spaces between.`
      : models &&
        `Matches ${matched.length} of ${models.length} models${matched.length > 0 && matched.length <= NAMED ? `: ${matched.map(({ id }) => id).join(', ')}` : ''}.`
  return html`<div>
    <${TextField} label="Models" value=${value} onInput=${onInput} mono help=${help} error=${error} placeholder=${empty ?? 'all'} />
    ${models && models.length > 1 && html`<${Picker} models=${models} entries=${entries} onChange=${(next: readonly string[]) => onInput(next.join(' '))} />`}
  </div>`
}

function Picker({
  models,
  entries,
  onChange,
}: {
  readonly models: readonly ModelRow[]
  readonly entries: readonly string[]
  readonly onChange: (entries: readonly string[]) => void
}) {
  const kinds = [...Map.groupBy(models, ({ modality }) => modality)]
  const vendors = Map.groupBy(models, ({ id }) => id.slice(0, id.indexOf('/') + 1))
  const patterns = [...vendors].flatMap(([vendor, of]) =>
    vendor === '' || of.length < 2
      ? []
      : [{ id: `${vendor}*`, note: `${count(of.length)} models` }],
  )
  const rows = [...patterns, ...models.map(({ id, modality }) => ({ id, note: modality }))]
  const toggle = (id: string, on: boolean) =>
    onChange(on ? [...entries, id] : entries.filter((one) => one !== id))
  const covering = (id: string) => entries.find((one) => one !== id && covers(one, id))
  return html`<details class="picker">
    <summary>Choose from the catalog</summary>
    <div class="actions">
      ${kinds.map(
        ([kind, of]) =>
          html`<button key=${kind} type="button" class="button" onClick=${() => onChange([...new Set([...entries, ...of.map(({ id }) => id)])])}>
            + ${kind} (${count(of.length)})
          </button>`,
      )}
    </div>
    <ul>
      ${rows.map(({ id, note }) => {
        const by = covering(id)
        return html`<li key=${id}>
          <label class="check">
            <input
              type="checkbox"
              checked=${by !== undefined || entries.includes(id)}
              disabled=${by !== undefined}
              onChange=${(event: Event) => toggle(id, (event.target as HTMLInputElement).checked)}
            />
            <span class="mono">${id}</span> <span class="muted">${by ? `by ${by}` : note}</span>
          </label>
        </li>`
      })}
    </ul>
  </details>`
}

function covers(entry: string, id: string): boolean {
  return entry.endsWith('/*') ? id.startsWith(entry.slice(0, -1)) : entry === id
}
