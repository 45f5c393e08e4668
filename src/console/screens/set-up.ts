/** Vendors, models, search engines and sinks that are set up at run time: what there is, and plain forms to add more. */
import { useState } from 'preact/hooks'
import { call, useAnswer } from '../api.ts'
import { html, type Content } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Confirm } from '../parts/confirm.ts'
import { Time } from '../parts/facts.ts'
import { CheckField, SelectField, TextField, useSubmission } from '../parts/form.ts'
import { Heads } from '../parts/heads.ts'
import { Panel } from '../parts/panel.ts'
import { Answered, Empty, Failure, Notice } from '../parts/states.ts'
import { allows } from '../state.ts'
import type {
  EntryAnswer,
  ManagedAnswer,
  PluginAnswer,
  TestAnswer,
} from '../../server/admin/resources/managed.ts'

const SECTIONS: Readonly<Record<string, { readonly section: string; readonly label: string }>> = {
  provider: { section: 'providers', label: 'A vendor' },
  search: { section: 'engines', label: 'A search engine' },
  sink: { section: 'sinks', label: 'A sink' },
}

export function SetUp() {
  const mayRead = allows('config')
  const entries = useAnswer<{ data: ManagedAnswer }>(mayRead ? '/admin/managed' : null)
  const plugins = useAnswer<{ data: readonly PluginAnswer[] }>(mayRead ? '/admin/plugins' : null)
  if (!mayRead) return html`<${Notice}>Vendors are set up by the role admin.<//>`
  const onChanged = () => entries.reload()
  return html`<div class="stack">
    <${Answered} of=${entries}>
      ${({ data }: { data: ManagedAnswer }) => html`<${Entries} ...${data} onChanged=${onChanged} />`}
    <//>
    <div class="halves">
      <${Answered} of=${plugins}>
        ${({ data }: { data: readonly PluginAnswer[] }) => html`<${AddEntry} plugins=${data} onChanged=${onChanged} />`}
      <//>
      <${AddModel} onChanged=${onChanged} />
    </div>
  </div>`
}

function Entries({
  entries,
  enabled,
  onChanged,
}: ManagedAnswer & { readonly onChanged: () => void }) {
  if (!enabled) {
    return html`<${Notice}>The configuration has managed: false, so that nothing is set up here.<//>`
  }
  if (entries.length === 0) {
    return html`<${Empty} title="Nothing is set up here.">
      <p class="muted">Vendors and models of the file are in the configuration.</p>
    <//>`
  }
  return html`<${Panel} title="Set up at run time">
    <table class="plain stacked">
      <${Heads} names=${['Name', 'Kind', 'Changed', 'State', '']} />
      <tbody>
        ${entries.map(
          (entry) =>
            html`<${Row} key=${`${entry.section}/${entry.name}`} entry=${entry} onChanged=${onChanged} />`,
        )}
      </tbody>
    </table>
  <//>`
}

function Row({
  entry,
  onChanged,
}: {
  readonly entry: EntryAnswer
  readonly onChanged: () => void
}) {
  const { section, name, value, changed_at, changed_by, revision, left_out, shadowed_by } = entry
  const [asking, setAsking] = useState(false)
  const [tested, setTested] = useState<TestAnswer>()
  const isModel = section === 'models'
  const test = useSubmission(async () => {
    const path = isModel
      ? `/admin/models/${encodeURIComponent(name)}/test`
      : `/admin/${section}/test`
    const { data } = await call<{ data: TestAnswer }>('POST', path, {
      body: isModel ? {} : { name },
    })
    setTested(data)
  })
  const remove = async () => {
    const body = { changes: [{ section, name, value: null, revision }] }
    await call('POST', '/admin/managed', { body })
    setAsking(false)
    onChanged()
  }
  const { use } = (value ?? {}) as { readonly use?: string }
  return html`<tr>
    <th scope="row" class="mono">${name}</th>
    <td data-label="kind">${use ?? 'model'}</td>
    <td data-label="changed"><${Time} at=${changed_at} /> by ${changed_by}</td>
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
          <p>Calls that run end as usual. New calls do not find it from now on, on any gateway.</p>
        <//>`
      }
    </td>
  </tr>`
}

function Tested({ ok, ms, message, cause, models }: TestAnswer): Content {
  if (ok === false) return html`<span class="bad">✕ ${cause ?? message}</span>`
  if (ok === null) return html`<span class="muted">${message}</span>`
  const found = models && models.length > 0 ? `, ${models.length} models` : ''
  return html`<span class="ok">✓ answered in ${ms} ms${found}</span>`
}

function AddEntry({
  plugins,
  onChanged,
}: {
  readonly plugins: readonly PluginAnswer[]
  readonly onChanged: () => void
}) {
  const [kind, setKind] = useState('provider')
  const [use, setUse] = useState('')
  const [name, setName] = useState('')
  const [models, setModels] = useState('')
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
  const add = useSubmission(async () => {
    const value = {
      use: plugin.name,
      options,
      ...(kind === 'search' && { price: given.price ?? '0' }),
    }
    const served = models
      .split(',')
      .map((one) => one.trim())
      .filter(Boolean)
    const added = served.map((one) => ({
      section: 'models',
      name: `${chosen}/${one === 'all' ? '*' : one}`,
      value: {},
    }))
    await call('POST', '/admin/managed', {
      body: { changes: [{ section, name: chosen, value }, ...(kind === 'provider' ? added : [])] },
    })
    setGiven({})
    setName('')
    setTested(undefined)
    onChanged()
  })
  const put = (option: string) => (text: string) => setGiven({ ...given, [option]: text })
  return html`<${Panel} title="Add a vendor, an engine or a sink">
    <form class="form" onSubmit=${add.submit}>
      <${SelectField}
        label="What"
        value=${kind}
        options=${Object.entries(SECTIONS).map(([value, { label }]) => ({ value, label }))}
        onChange=${setKind}
      />
      <${SelectField}
        label="Vendor or plugin"
        value=${plugin.name}
        options=${ofKind.map((one) => ({ value: one.name, label: one.name }))}
        onChange=${setUse}
      />
      <${TextField} label="Name" value=${name} placeholder=${plugin.name} onInput=${setName} />
      ${plugin.fields.map((field) => html`<${Option} key=${`${plugin.name}.${field.name}`} field=${field} value=${given[field.name] ?? ''} onInput=${put(field.name)} />`)}
      ${kind === 'search' && html`<${TextField} label="Price of one search in USD" value=${given.price ?? ''} onInput=${put('price')} />`}
      ${kind === 'provider' && html`<${TextField} label="Models" value=${models} placeholder="all, or names at the vendor" help="Those that the price list has. Others are added in the other form, with prices of their own." onInput=${setModels} />`}
      ${tested && html`<p><${Tested} ...${tested} /></p>`}
      ${(add.error ?? test.error) && html`<${Failure} error=${add.error ?? test.error} />`}
      <div class="actions">
        <${Button} right="config" busy=${test.busy} onClick=${() => test.submit()}>Test<//>
        <${Button} kind="primary" type="submit" right="config" busy=${add.busy}>Add<//>
      </div>
    </form>
  <//>`
}

type Field = PluginAnswer['fields'][number]

function Option({
  field,
  value,
  onInput,
}: {
  readonly field: Field
  readonly value: string
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
  return html`<${TextField} label=${shown} help=${help} value=${value} placeholder=${example} mono ...${secret} onInput=${onInput} />`
}

/** Options as the API takes them. */
function optionsOf({ fields }: PluginAnswer, given: Readonly<Record<string, string>>): object {
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

function AddModel({ onChanged }: { readonly onChanged: () => void }) {
  const [name, setName] = useState('')
  const [deployment, setDeployment] = useState('')
  const [prompt, setPrompt] = useState('')
  const [completion, setCompletion] = useState('')
  const add = useSubmission(async () => {
    const [provider, ...rest] = deployment.trim().split('/')
    const prices = Object.entries({ prompt: prompt.trim(), completion: completion.trim() })
    const pricing = Object.fromEntries(prices.filter(([, price]) => price !== ''))
    const value = {
      ...(rest.length > 0 && { deployments: [{ provider, model: rest.join('/') }] }),
      ...(Object.keys(pricing).length > 0 && { pricing }),
    }
    const changes = [{ section: 'models', name: name.trim(), value }]
    await call('POST', '/admin/managed', { body: { changes } })
    setName('')
    onChanged()
  })
  return html`<${Panel} title="Add a model">
    <form class="form" onSubmit=${add.submit}>
      <${TextField} label="Id" value=${name} placeholder="acme/large" mono help="The vendor and the name; vendor/* is all of its models that the price list has." onInput=${setName} />
      <${TextField} label="Deployment (optional)" value=${deployment} placeholder="provider/model" mono help="Where calls go, if the id does not say it." onInput=${setDeployment} />
      <${TextField} label="Price of a token of the prompt in USD (optional)" value=${prompt} placeholder="as the price list says" onInput=${setPrompt} />
      <${TextField} label="Price of a token of the answer in USD (optional)" value=${completion} placeholder="as the price list says" onInput=${setCompletion} />
      ${add.error && html`<${Failure} error=${add.error} />`}
      <div class="actions">
        <${Button} kind="primary" type="submit" right="config" busy=${add.busy}>Add<//>
      </div>
    </form>
  <//>`
}
