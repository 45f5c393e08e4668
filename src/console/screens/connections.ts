/** Search engines and sinks that are set up at run time: what there is, and a form to add one. */
import { useState } from 'preact/hooks'
import { call, useAnswer } from '../api.ts'
import { html, type Content } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Confirm } from '../parts/confirm.ts'
import { Time } from '../parts/facts.ts'
import { FormEnd, SelectField, TextField, useSubmission } from '../parts/form.ts'
import { Heads } from '../parts/heads.ts'
import { Panel } from '../parts/panel.ts'
import { Answered, Empty, Failure, Notice } from '../parts/states.ts'
import { allows } from '../state.ts'
import { actorText } from '../text.ts'
import { Option, optionsOf, shownOptions } from './plugin-fields.ts'
import { changeEntries, entriesRequest } from './vendor-key.ts'
import type {
  EntryAnswer,
  ManagedAnswer,
  PluginAnswer,
  TestAnswer,
} from '../../server/admin/resources/managed.ts'

const SECTIONS: Readonly<Record<string, { readonly section: string; readonly label: string }>> = {
  search: { section: 'engines', label: 'A search engine' },
  sink: { section: 'sinks', label: 'A sink' },
}

export function Connections() {
  const mayRead = allows('config')
  const entries = useAnswer<{ data: ManagedAnswer }>(mayRead ? '/admin/managed' : null)
  const plugins = useAnswer<{ data: readonly PluginAnswer[] }>(mayRead ? '/admin/plugins' : null)
  if (!mayRead) return html`<${Notice}>Search engines and sinks are set up by the role admin.<//>`
  return html`<div class="halves">
    <${Answered} of=${entries}>
      ${({ data }: { data: ManagedAnswer }) => html`<${Entries} ...${data} />`}
    <//>
    <${Answered} of=${plugins}>
      ${({ data }: { data: readonly PluginAnswer[] }) => html`<${AddEntry} plugins=${data} />`}
    <//>
  </div>`
}

function Entries({ entries, enabled }: ManagedAnswer) {
  const own = entries.filter(({ section }) => section === 'engines' || section === 'sinks')
  if (!enabled) {
    return html`<${Notice}>The configuration has managed: false, so that nothing is set up here.<//>`
  }
  if (own.length === 0) {
    return html`<${Empty} title="No engine and no sink is set up here.">
      <p class="muted">Those of the file are in the configuration. Vendors and models are under Models.</p>
    <//>`
  }
  return html`<${Panel} title="Set up at run time">
    <table class="plain stacked">
      <${Heads} names=${['Name', 'Kind', 'Changed', 'State', '']} />
      <tbody>
        ${own.map(
          (entry) => html`<${Row} key=${`${entry.section}/${entry.name}`} entry=${entry} />`,
        )}
      </tbody>
    </table>
  <//>`
}

function Row({ entry }: { readonly entry: EntryAnswer }) {
  const { section, name, value, changed_at, changed_by, revision, left_out, shadowed_by } = entry
  const [asking, setAsking] = useState(false)
  const [tested, setTested] = useState<TestAnswer>()
  const test = useSubmission(async () => {
    const path = `/admin/${section}/test`
    const { data } = await call<{ data: TestAnswer }>('POST', path, { body: { name } })
    setTested(data)
  })
  const remove = async () => {
    await changeEntries([{ section, name, value: null, revision }], `Removed ${name}`)
    setAsking(false)
  }
  const { use } = (value ?? {}) as { readonly use?: string }
  return html`<tr>
    <th scope="row" class="mono">${name}</th>
    <td data-label="kind">${use}</td>
    <td data-label="changed"><${Time} at=${changed_at} /> by ${actorText(changed_by)}</td>
    <td data-label="state">
      ${
        left_out !== null
          ? html`<span class="bad">✕ ${left_out}</span>`
          : shadowed_by !== null
            ? html`<span class="warn">! ${shadowed_by} has this name, and wins</span>`
            : html`<span class="ok">✓ in force</span>`
      }
      ${tested && html`<div><${Tested} ...${tested} /></div>`}
      ${test.error && html`<${Failure} error=${test.error} />`}
    </td>
    <td>
      <div class="actions">
        <${Button} right="config" busy=${test.busy} onClick=${() => test.submit()}>Test<//>
        <${Button} kind="danger" right="config" onClick=${() => setAsking(true)}>Remove<//>
      </div>
      ${
        asking &&
        html`<${Confirm} title=${`Remove ${name}?`} verb="Remove" act=${remove} onClose=${() => setAsking(false)}>
          <p>No gateway uses it from now on.</p>
        <//>`
      }
    </td>
  </tr>`
}

export function Tested({ ok, ms, message, cause, models }: TestAnswer): Content {
  if (ok === false) return html`<span class="bad">✕ ${cause ?? message}</span>`
  if (ok === null) return html`<span class="muted">${message}</span>`
  const modelCount = models && models.length > 0 ? `, ${models.length} models` : ''
  return html`<span class="ok">✓ answered in ${ms} ms${modelCount}</span>`
}

function AddEntry({ plugins }: { readonly plugins: readonly PluginAnswer[] }) {
  const [kind, setKind] = useState('sink')
  const [use, setUse] = useState('')
  const [name, setName] = useState('')
  const [given, setGiven] = useState<Readonly<Record<string, string>>>({})
  const [tested, setTested] = useState<TestAnswer>()
  const ofKind = plugins.filter((one) => one.kind === kind)
  const plugin = ofKind.find((one) => one.name === use) ?? ofKind[0]!
  const { section } = SECTIONS[kind]!
  const chosen = name.trim() || plugin.name
  const options = optionsOf(plugin, given)
  const test = useSubmission(async () => {
    const body = { use: plugin.name, options }
    setTested((await call<{ data: TestAnswer }>('POST', `/admin/${section}/test`, { body })).data)
  })
  const changesWith = (own: object) => [
    {
      section,
      name: chosen,
      value: {
        use: plugin.name,
        options: own,
        ...(kind === 'search' && { price: given.price ?? '0' }),
      },
    },
  ]
  const shown = changesWith(shownOptions(plugin, given, chosen))
  const [{ value: shownValue }] = shown as [(typeof shown)[number]]
  const entry =
    kind === 'sink'
      ? { sinks: [{ ...shownValue, name: chosen }] }
      : { search: { engines: { [chosen]: shownValue } } }
  const add = useSubmission(async () => {
    await changeEntries(changesWith(options), `Added ${chosen}`)
    setGiven({})
    setName('')
    setTested(undefined)
  })
  const put = (option: string) => (text: string) => setGiven({ ...given, [option]: text })
  return html`<${Panel} title="Add an engine or a sink">
    <form class="form" onSubmit=${add.submit}>
      <${SelectField}
        label="What"
        value=${kind}
        options=${Object.entries(SECTIONS).map(([value, { label }]) => ({ value, label }))}
        onChange=${setKind}
      />
      <${SelectField}
        label="Plugin"
        value=${plugin.name}
        options=${ofKind.map((one) => ({ value: one.name, label: one.name }))}
        onChange=${setUse}
      />
      <${TextField} label="Name" value=${name} placeholder=${plugin.name} onInput=${setName} />
      ${plugin.fields.map((field) => html`<${Option} key=${`${plugin.name}.${field.name}`} field=${field} value=${given[field.name] ?? ''} onInput=${put(field.name)} />`)}
      ${kind === 'search' && html`<${TextField} label="Price of one search in USD" value=${given.price ?? ''} onInput=${put('price')} />`}
      ${tested && html`<p><${Tested} ...${tested} /></p>`}
      ${test.error && html`<${Failure} error=${test.error} />`}
      <${FormEnd} form=${add} verb="Add" right="config" request=${entriesRequest(shown)} entry=${entry}>
        <${Button} right="config" busy=${test.busy} onClick=${() => test.submit()}>Test<//>
      <//>
    </form>
  <//>`
}
