/** A model that is set up at run time: a form and its text, which are the same entry, and what serving it would change. */
import { useState } from 'preact/hooks'
import { call, useAnswer } from '../api.ts'
import { testOf } from '../acts.ts'
import { count } from '../format.ts'
import { html } from '../html.ts'
import { Button } from '../parts/button.ts'
import {
  CheckField,
  FormEnd,
  RowsField,
  SelectField,
  TextField,
  useFocus,
  useSubmission,
} from '../parts/form.ts'
import { Dialog } from '../parts/sheet.ts'
import { Answered, Failure, Notice } from '../parts/states.ts'
import { perform } from '../acts.ts'
import { ofMillion, perMillion } from './model-prices.ts'
import { entriesOf } from './models-field.ts'
import { changeEntries, entriesRequest, type Applied } from './vendor-key.ts'
import { configOf, type OffersAnswer } from './vendor-steps.ts'
import type { EntryAnswer, ManagedAnswer } from '../../server/admin/resources/managed.ts'

interface Deployment {
  readonly provider: string
  readonly model: string
  readonly priority?: number
  readonly weight?: number
}

/** Members of an entry that the form has fields for; others stay as they are in the text. */
interface Entry {
  readonly deployments?: readonly Deployment[]
  readonly aliases?: readonly string[]
  readonly pricing?: Readonly<Record<string, unknown>>
  readonly modality?: string
  readonly context_length?: number
  readonly free_tier?: boolean
  readonly fallbacks?: readonly (string | { readonly model: string })[]
  readonly cache?: string | object
}

const MODALITIES = [
  '',
  ...'chat image ocr speech transcription embedding rerank moderation'.split(' '),
]
const CACHES = ['', 'off', 'asked', 'on']
const TOKEN_PRICES = [
  ['prompt', 'prompt'],
  ['completion', 'answer'],
  ['input_cache_read', 'cached prompt'],
] as const

/** @param name the name of the model; one that is set up already is changed */
export function ModelForm({
  name,
  onClose,
}: {
  readonly name: string
  readonly onClose: () => void
}) {
  const managed = useAnswer<{ data: ManagedAnswer }>('/admin/managed')
  return html`<${Dialog} title=${name === '' ? 'Add a model' : name} wide onClose=${onClose}>
    <${Answered} of=${managed}>
      ${({ data }: { data: ManagedAnswer }) => html`<${Fields} name=${name} known=${data.entries.find((one) => one.section === 'models' && one.name === name)} onClose=${onClose} />`}
    <//>
  <//>`
}

function Fields({
  name: given,
  known,
  onClose,
}: {
  readonly name: string
  readonly known: EntryAnswer | undefined
  readonly onClose: () => void
}) {
  const [name, setName] = useState(given)
  const [text, setText] = useState(() => JSON.stringify(known?.value ?? {}, undefined, 2))
  // The form shows the last text that could be read.
  const [entry, setEntry] = useState<Entry>(known?.value ?? {})
  const [dry, setDry] = useState<Applied>()
  const wrong = problemOf(text)
  // The form comes after the answer, when the dialog has given the focus away.
  const focused = useFocus('input:not(:disabled)')
  const set = (change: Partial<Record<keyof Entry, unknown>>) => {
    const next = Object.fromEntries(
      Object.entries({ ...entry, ...change }).filter(([, value]) => value !== undefined),
    )
    setEntry(next)
    setText(JSON.stringify(next, undefined, 2))
  }
  const edit = (value: string) => {
    setText(value)
    if (problemOf(value) === undefined) setEntry(JSON.parse(value))
  }
  const id = name.trim()
  const changes = [{ section: 'models', name: id, value: entry, revision: known?.revision }]
  const check = useSubmission(async () => {
    const body = { changes, dry_run: true }
    setDry((await call<{ data: Applied }>('POST', '/admin/managed', { body })).data)
  })
  const form = useSubmission(async () => {
    if (wrong !== undefined) return
    await changeEntries(changes, `Serving ${id}`)
    onClose()
    await perform(testOf(id))
  })
  const errorFor = (member: string) =>
    form.errorFor(`models.${id}.${member}`) ?? check.errorFor(`models.${id}.${member}`)
  const disabled = wrong !== undefined
  const checked = check.unplaced()
  return html`<form class="form" ref=${focused} onSubmit=${form.submit}>
    <${TextField} label="Id" value=${name} onInput=${setName} mono autofocus=${given === ''} disabled=${known !== undefined} placeholder="acme/large" help="What clients ask for. vendor/* is every model of a vendor that has a price." />
    <fieldset class="form" disabled=${disabled}>
      <legend class="hidden">Members of the entry</legend>
      <${Deployments} of=${entry.deployments ?? []} onChange=${(all: readonly Deployment[]) => set({ deployments: all.length > 0 ? all : undefined })} errorFor=${errorFor} />
      <${TextField} label="Other names" value=${entry.aliases?.join(' ') ?? ''} onInput=${(names: string) => set({ aliases: entriesOf(names).length > 0 ? entriesOf(names) : undefined })} mono placeholder="none" error=${errorFor('aliases')} />
      <${Prices} pricing=${entry.pricing} onChange=${(pricing: Entry['pricing']) => set({ pricing })} errorFor=${errorFor} />
      <div class="row">
        <${SelectField} label="Modality" value=${entry.modality ?? ''} options=${MODALITIES.map((value) => ({ value, label: value || 'as listed, else chat' }))} onChange=${(modality: string) => set({ modality: modality || undefined })} />
        <${TextField} label="Context, tokens" value=${String(entry.context_length ?? '')} placeholder="as listed" onInput=${(value: string) => set({ context_length: numberIn(value) })} error=${errorFor('context_length')} />
        <${SelectField} label="Answer cache" value=${typeof entry.cache === 'string' ? entry.cache : ''} options=${CACHES.map((value) => ({ value, label: value || (typeof entry.cache === 'object' ? 'as in the text' : 'off') }))} onChange=${(cache: string) => set({ cache: cache || undefined })} />
      </div>
      <${TextField} label="Fallbacks, in their order" value=${(entry.fallbacks ?? []).map((one) => (typeof one === 'string' ? one : one.model)).join(' ')} onInput=${(names: string) => set({ fallbacks: fallbacksOf(entriesOf(names), entry.fallbacks) })} mono placeholder="none" help="Asked where all of its deployments are down. Other conditions are in the text." error=${errorFor('fallbacks')} />
      <${CheckField} label="Free tier" checked=${entry.free_tier ?? false} onChange=${(on: boolean) => set({ free_tier: on || undefined })} help="Accounts without credits may use it." error=${errorFor('free_tier')} />
    </fieldset>
    <details open=${disabled}>
      <summary>As text, with all other members</summary>
      <${TextField} label="Entry as JSON" value=${text} onInput=${edit} rows=${Math.max(6, text.split('\n').length + 1)} mono error=${wrong} />
    </details>
    ${checked && html`<${Failure} error=${checked} />`}
    ${dry && html`<${WouldChange} of=${dry} />`}
    <${FormEnd} form=${form} verb=${known ? 'Save and test' : 'Serve and test'} right="config" onClose=${onClose} request=${entriesRequest(changes)} entry=${configOf(changes)}>
      <${Button} right="config" busy=${check.busy} onClick=${() => check.submit()}>Check<//>
    <//>
  </form>`
}

function Deployments({
  of,
  onChange,
  errorFor,
}: {
  readonly of: readonly Deployment[]
  readonly onChange: (all: readonly Deployment[]) => void
  readonly errorFor: (member: string) => string | undefined
}) {
  const [asked, setAsked] = useState<string>()
  const vendors = useAnswer<{ data: readonly { readonly name: string }[] }>('/admin/providers')
  const [offers, setOffers] = useState<readonly string[]>([])
  // The vendor's own names, once for each vendor.
  const ask = (name: string) => {
    if (name === asked || !vendors.data?.data.some((one) => one.name === name)) return
    setAsked(name)
    call<OffersAnswer>('POST', '/admin/providers/offers', { body: { name } }).then(
      ({ data }) => setOffers(data.map(({ model }) => model)),
      () => setOffers([]),
    )
  }
  const fields = (
    { provider, model, priority = 0, weight = 1 }: Deployment,
    set: (change: Partial<Deployment>) => void,
    at: number,
  ) => html`
    <${TextField} label="Vendor" value=${provider} list="vendors-known" mono onInput=${(value: string) => set({ provider: value.trim() })} error=${errorFor(`deployments[${at}].provider`)} />
    <${TextField} label="Its name there" value=${model} list="offers-known" mono onFocus=${() => ask(provider)} onInput=${(value: string) => set({ model: value.trim() })} error=${errorFor(`deployments[${at}].model`)} />
    <${TextField} label="Order" value=${String(priority)} onInput=${(value: string) => set({ priority: Number(value) || 0 })} />
    <${TextField} label="Share" value=${String(weight)} onInput=${(value: string) => set({ weight: Number(value) || 1 })} error=${errorFor(`deployments[${at}].weight`)} />`
  return html`<datalist id="vendors-known">${vendors.data?.data.map(({ name }) => html`<option key=${name} value=${name}></option>`)}</datalist>
    <datalist id="offers-known">${offers.map((name) => html`<option key=${name} value=${name}></option>`)}</datalist>
    <${RowsField} label="Deployments" rows=${of} onChange=${onChange} none="None of its own: calls go where the id says, to vendor/name." add="Add a deployment" fresh=${{ provider: '', model: '' }} error=${errorFor('deployments')}>${fields}<//>`
}

/** Prices of tokens are typed for a million, and kept for one. */
function Prices({
  pricing,
  onChange,
  errorFor,
}: {
  readonly pricing: Entry['pricing']
  readonly onChange: (pricing: Entry['pricing']) => void
  readonly errorFor: (member: string) => string | undefined
}) {
  const [typed, setTyped] = useState<Readonly<Record<string, string>>>({})
  const set = (name: string) => (usd: string) => {
    setTyped({ ...typed, [name]: usd })
    const next = { ...pricing, [name]: ofMillion(usd) }
    if (usd.trim() === '') delete next[name]
    onChange(Object.keys(next).length > 0 ? next : undefined)
  }
  const shown = (name: string) => {
    const usd = pricing?.[name]
    if (typed[name] !== undefined) return typed[name]
    return typeof usd === 'string' && /^[\d.]+(?:e-?\d+)?$/i.test(usd) ? perMillion(usd) : ''
  }
  return html`<fieldset class="form">
    <legend>Price in USD for a million tokens</legend>
    <div class="row">
      ${TOKEN_PRICES.map(([name, word]) => html`<${TextField} key=${name} decimal label=${`Of the ${word}`} value=${shown(name)} placeholder="as listed" onInput=${set(name)} help=${typeof pricing?.[name] === 'string' ? `${pricing[name]} for one` : undefined} error=${errorFor(`pricing.${name}`)} />`)}
    </div>
    ${errorFor('pricing') && html`<p class="error">${errorFor('pricing')}</p>`}
  </fieldset>`
}

function WouldChange({ of: { models, warnings } }: { readonly of: Applied }) {
  const lines = (['added', 'changed', 'removed'] as const).flatMap((how) =>
    models[how].length === 0
      ? []
      : [
          `${how}: ${models[how].slice(0, 10).join(', ')}${models[how].length > 10 ? ` and ${count(models[how].length - 10)} more` : ''}`,
        ],
  )
  return html`<${Notice} tone=${warnings.length > 0 ? 'warn' : 'ok'}>
    <ul>
      ${lines.map((line) => html`<li key=${line}>${line}</li>`)}
      ${lines.length === 0 && html`<li>No model changes.</li>`}
      ${warnings.map(({ message }) => html`<li key=${message}>${message}</li>`)}
    </ul>
  <//>`
}

/** Names in their order; one that is there already keeps its conditions. */
function fallbacksOf(names: readonly string[], former: Entry['fallbacks'] = []) {
  const all = names.map(
    (name) => former.find((one) => typeof one === 'object' && one.model === name) ?? name,
  )
  return all.length > 0 ? all : undefined
}

/** A number, or the text itself, which the API refuses with what would be right. */
function numberIn(text: string): number | string | undefined {
  const trimmed = text.trim()
  return trimmed === '' ? undefined : /^\d{1,9}$/.test(trimmed) ? Number(trimmed) : trimmed
}

function problemOf(text: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text)
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    return isObject ? undefined : 'An entry is an object, such as { "aliases": ["large"] }.'
  } catch (error) {
    return String((error as Error).message)
  }
}
