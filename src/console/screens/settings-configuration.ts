/** The effective configuration: each value, and where it comes from. Secrets are shown only as set. */
import { useState } from 'preact/hooks'
import { useAnswer } from '../api.ts'
import { count } from '../format.ts'
import { html } from '../html.ts'
import { TextField } from '../parts/form.ts'
import { Answered, Empty, Notice } from '../parts/states.ts'
import { allows, place, setQuery } from '../state.ts'
import type { SettingAnswer } from '../../server/admin/resources/gateway.ts'

/** Rows of one section: price lists have thousands, and a search finds them. */
const MOST_ROWS = 500

export function Configuration() {
  const answer = useAnswer<{ data: readonly SettingAnswer[] }>(
    allows('admin') ? '/admin/config' : null,
  )
  const text = place.value.query.get('q') ?? ''
  if (!allows('admin')) {
    return html`<${Notice}>The configuration is shown to the role admin.<//>`
  }
  return html`<div class="stack">
    <div class="settings-search">
      <${TextField}
        label="Search"
        value=${text}
        onInput=${(q: string) => setQuery({ q: q || undefined }, { replace: true })}
        placeholder="part of a path, a value or an origin"
      />
    </div>
    <${Answered} of=${answer} lines=${10}>
      ${({ data }: { data: readonly SettingAnswer[] }) => html`<${Sections} settings=${data} text=${text} />`}
    <//>
  </div>`
}

function Sections({
  settings,
  text,
}: {
  readonly settings: readonly SettingAnswer[]
  readonly text: string
}) {
  const wanted = text.trim().toLowerCase()
  const shown = settings.filter((setting) => wordsOf(setting).includes(wanted))
  if (shown.length === 0) {
    return html`<${Empty} title="No setting matches."><p class="muted">Search for less.</p><//>`
  }
  const sections = [...Map.groupBy(shown, ({ path }) => path.split('.')[0]!)]
  return sections.map(
    ([name, ofSection]) =>
      html`<${Section}
        key=${name}
        name=${name}
        settings=${ofSection}
        open=${wanted !== '' || ofSection.length <= 40}
      />`,
  )
}

/** A section, whose rows are made when it is opened. */
function Section({
  name,
  settings,
  open,
}: {
  readonly name: string
  readonly settings: readonly SettingAnswer[]
  readonly open: boolean
}) {
  const [chosen, setChosen] = useState<boolean>()
  const isOpen = chosen ?? open
  const more = settings.length - MOST_ROWS
  return html`<details
    class="panel section"
    open=${isOpen}
    onToggle=${(event: Event) => setChosen((event.target as HTMLDetailsElement).open)}
  >
    <summary><h2>${name}</h2><span class="muted">${count(settings.length)}</span></summary>
    ${
      isOpen &&
      html`<table class="settings">
          <thead class="hidden">
            <tr>
              <th scope="col">SettingAnswer</th>
              <th scope="col">Value</th>
              <th scope="col">From</th>
            </tr>
          </thead>
          <tbody>
            ${settings.slice(0, MOST_ROWS).map(
              ({ path, value, secret, origin }) =>
                html`<tr key=${path}>
                  <th scope="row" class="mono">${path}</th>
                  <td class="mono">
                    ${secret ? html`<span class="muted">${String(value)}</span>` : written(value)}
                  </td>
                  <td class=${origin.from === 'default' ? 'muted' : ''}>${originOf(origin)}</td>
                </tr>`,
            )}
          </tbody>
        </table>
        ${more > 0 && html`<p class="caption">${count(more)} more; search for them.</p>`}`
    }
  </details>`
}

function originOf({ from, file, name }: SettingAnswer['origin']): string {
  return name ?? file ?? from
}

function written(value: unknown): string {
  if (value === null || value === undefined) return '–'
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function wordsOf({ path, value, origin }: SettingAnswer): string {
  return `${path} ${written(value)} ${originOf(origin)}`.toLowerCase()
}
