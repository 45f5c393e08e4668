/** A vendor in three steps: its tile, its key, and the models that are served. */
import { useState } from 'preact/hooks'
import { call, useAnswer } from '../api.ts'
import type { Read } from '../amounts.ts'
import { count } from '../format.ts'
import { html } from '../html.ts'
import { Button } from '../parts/button.ts'
import {
  CheckField,
  FormEnd,
  RadioField,
  TextField,
  useFocus,
  useSubmission,
} from '../parts/form.ts'
import { Answered, Failure } from '../parts/states.ts'
import { isPerToken, ofMillion, Price, pricesOf } from './model-prices.ts'
import { Option, optionsOf, shownOptions } from './plugin-fields.ts'
import { changeEntries, entriesRequest, type EntryChange } from './vendor-key.ts'
import type { OfferAnswer, PluginAnswer } from '../../server/admin/resources/managed.ts'

type Given = Readonly<Record<string, string>>
export type Offer = Read<OfferAnswer>

/** A vendor that answered with its models. */
export interface Vendor {
  readonly name: string
  readonly plugin: PluginAnswer
  readonly options: object
  /** The options with variables in place of secrets. */
  readonly shown: object
  readonly offers: readonly Offer[]
}

export function ChooseVendor({ onFound }: { readonly onFound: (vendor: Vendor) => void }) {
  const plugins = useAnswer<{ data: readonly PluginAnswer[] }>('/admin/plugins')
  const [chosen, setChosen] = useState<PluginAnswer>()
  if (chosen)
    return html`<${VendorKey} plugin=${chosen} onBack=${() => setChosen(undefined)} onFound=${onFound} />`
  return html`<${Answered} of=${plugins}>
    ${({ data }: { data: readonly PluginAnswer[] }) => html`<${Tiles} plugins=${data.filter(({ kind, fields }) => kind === 'provider' && fields.some((one) => one.kind === 'secret'))} onChoose=${setChosen} />`}
  <//>`
}

function Tiles({
  plugins,
  onChoose,
}: {
  readonly plugins: readonly PluginAnswer[]
  readonly onChoose: (plugin: PluginAnswer) => void
}) {
  const [text, setText] = useState('')
  const wanted = text.trim().toLowerCase()
  const shown = plugins.filter(({ name }) => name.includes(wanted))
  const chooseFirst = (event: Event) => {
    event.preventDefault()
    const first = shown.find(({ name }) => name === wanted) ?? shown[0]
    if (first) onChoose(first)
  }
  return html`<form class="form" ref=${useFocus('input')} onSubmit=${chooseFirst}>
    <${TextField} label="Search vendors" value=${text} onInput=${setText} placeholder="openai, anthropic, groq" />
    <div class="vendors">
      ${shown.map((one) => html`<button type="button" class="button" key=${one.name} onClick=${() => onChoose(one)}>${one.name}</button>`)}
    </div>
    ${shown.length === 0 && html`<p class="muted">No vendor is called so. <b>openai-compatible</b> takes the address of any server that speaks OpenAI's form.</p>`}
  </form>`
}

/** Asks the vendor for its models, which tests its key too. */
function VendorKey({
  plugin,
  onBack,
  onFound,
}: {
  readonly plugin: PluginAnswer
  readonly onBack: () => void
  readonly onFound: (vendor: Vendor) => void
}) {
  const [given, setGiven] = useState<Given>({})
  const [name, setName] = useState(plugin.name)
  const [refused, setRefused] = useState<string>()
  const main = plugin.fields.filter(({ kind, required }) => required || kind === 'secret')
  const others = plugin.fields.filter((one) => !main.includes(one))
  const form = useSubmission(async () => {
    const missing = main.find(({ name: field, required }) => required && !given[field]?.trim())
    if (missing) return setRefused(`${missing.label} is needed.`)
    setRefused(undefined)
    const id = name.trim()
    const options = optionsOf(plugin, given)
    const body = { name: id, use: plugin.name, options }
    const answer = await call<OffersAnswer>('POST', '/admin/providers/offers', { body })
    if (answer.message !== undefined)
      return setRefused(answer.cause ?? answer.message ?? 'The vendor did not answer.')
    const shown = shownOptions(plugin, given, id)
    onFound({ name: id, plugin, options, shown, offers: answer.data })
  })
  const field = (one: PluginAnswer['fields'][number], first: boolean) =>
    html`<${Option} key=${one.name} field=${one} value=${given[one.name] ?? ''} error=${first ? refused : undefined} onInput=${(text: string) => setGiven({ ...given, [one.name]: text })} />`
  return html`<form class="form" ref=${useFocus('input')} onSubmit=${form.submit}>
    <p><b>${plugin.name}</b> is asked for its models, which tests what you give here.</p>
    ${main.map((one, place) => field(one, place === 0))}
    <details>
      <summary>More</summary>
      <div class="form">
        <${TextField} label="Name" value=${name} onInput=${setName} mono help="What its models begin with, such as ${plugin.name}/large." />
        ${others.map((one) => field(one, false))}
      </div>
    </details>
    ${main.length === 0 && refused && html`<p class="error">${refused}</p>`}
    ${form.error && html`<${Failure} error=${form.error} />`}
    <div class="actions">
      <${Button} kind="primary" type="submit" busy=${form.busy}>Continue<//>
      <${Button} onClick=${onBack}>Another vendor<//>
    </div>
  </form>`
}

export interface OffersAnswer {
  readonly data: readonly Offer[]
  /** Why the vendor gave none. */
  readonly message?: string | null
  readonly cause?: string | null
}

export function ChooseModels({
  vendor: { name, plugin, options, shown: shownOnly, offers },
  served,
  onServed,
}: {
  readonly vendor: Vendor
  readonly served: boolean
  readonly onServed: (model: string) => void
}) {
  const priced = offers.filter(({ pricing }) => pricing !== null)
  const [which, setWhich] = useState(priced.length > 0 ? 'all' : 'some')
  const [chosen, setChosen] = useState<readonly string[]>([])
  const [prices, setPrices] = useState<Given>({})
  const [text, setText] = useState('')
  const [missing, setMissing] = useState<string>()
  const focused = useFocus('button[type=submit]')
  const some = offers.filter(({ id }) => chosen.includes(id))
  const entries =
    which === 'all'
      ? [{ name: `${name}/*`, value: {} }]
      : some.map((one) => entryOf(one, name, prices))
  const changesWith = (own: object) => [
    { section: 'providers', name, value: { use: plugin.name, options: own } },
    ...entries.map((entry) => ({ section: 'models', ...entry })),
  ]
  const form = useSubmission(async () => {
    if (which === 'some' && some.length === 0) return setMissing('Choose at least one model.')
    const unpriced = some.find(
      ({ id, pricing }) => !pricing && !(prices[`${id} prompt`] && prices[`${id} completion`]),
    )
    if (which === 'some' && unpriced) return setMissing(`${unpriced.model} needs a price.`)
    setMissing(undefined)
    await changeEntries(changesWith(options), `Serving models of ${name}`)
    const first =
      which === 'all' ? priced.find(({ modality }) => (modality ?? 'chat') === 'chat') : some[0]
    onServed(first?.id ?? '')
  })
  if (served)
    return html`<p><span class="ok" aria-hidden="true">✓ </span>Served by every gateway from now on.</p>`
  const wanted = text.trim().toLowerCase()
  const shown = offers.filter(({ model }) => model.toLowerCase().includes(wanted)).slice(0, 100)
  return html`<form class="form" ref=${focused} onSubmit=${form.submit}>
    <${RadioField} label="Serve" value=${which} onChange=${setWhich} options=${[
      {
        value: 'all',
        label: `All models with a price, ${count(priced.length)} of ${count(offers.length)}, also later ones`,
      },
      { value: 'some', label: 'Single ones' },
    ]} disabled=${priced.length === 0} />
    ${
      which === 'some' &&
      html`<${TextField} label="Search models" value=${text} onInput=${setText} />
        <ul class="offers">
          ${shown.map((offer) => html`<li key=${offer.id}><${OfferRow} offer=${offer} on=${chosen.includes(offer.id)} prices=${prices} onChange=${(on: boolean) => setChosen(on ? [...chosen, offer.id] : chosen.filter((id) => id !== offer.id))} onPrices=${setPrices} /></li>`)}
        </ul>
        ${offers.length > shown.length && html`<p class="muted">${count(shown.length)} of ${count(offers.length)}: search for the others.</p>`}`
    }
    ${missing && html`<p class="error" role="alert">${missing}</p>`}
    <${FormEnd} form=${form} verb="Serve them" right="config" request=${entriesRequest(changesWith(shownOnly))} entry=${configOf(changesWith(shownOnly))} />
  </form>`
}

/** Entries of vendors and models as a configuration has them. */
export function configOf(changes: readonly EntryChange[]): object {
  const of = (section: string) => {
    const own = changes.filter((one) => one.section === section)
    return (
      own.length > 0 && { [section]: Object.fromEntries(own.map((one) => [one.name, one.value])) }
    )
  }
  return { ...of('providers'), ...of('models') }
}

function OfferRow({
  offer: { id, model, context_length: context, pricing, served_as: served },
  on,
  prices,
  onChange,
  onPrices,
}: {
  readonly offer: Offer
  readonly on: boolean
  readonly prices: Given
  readonly onChange: (on: boolean) => void
  readonly onPrices: (prices: Given) => void
}) {
  const shown = pricesOf(pricing ?? {}).filter(
    ([name]) => ['prompt', 'completion'].includes(name) || !isPerToken(name),
  )
  const note = [
    context === null ? '' : `${count(context)} tokens`,
    served.length > 0 ? `served as ${served.join(', ')}` : '',
  ].filter(Boolean)
  return html`<${CheckField} label=${html`<span class="mono">${model}</span> <span class="muted">${shown.map(([name, usd]) => html`<${Price} key=${name} name=${name} usd=${usd} /> `)}${note.join(' · ')}</span>`} checked=${on} onChange=${onChange} />
    ${
      on &&
      pricing === null &&
      html`<div class="actions">
        ${['prompt', 'completion'].map((name) => html`<${TextField} key=${name} decimal label=${`USD for a million tokens of the ${name === 'prompt' ? 'prompt' : 'answer'}`} value=${prices[`${id} ${name}`] ?? ''} onInput=${(usd: string) => onPrices({ ...prices, [`${id} ${name}`]: usd })} />`)}
      </div>`
    }`
}

function entryOf({ id, model, pricing }: Offer, provider: string, prices: Given) {
  if (pricing) return { name: id, value: {} }
  const perToken = (name: string) => ofMillion(prices[`${id} ${name}`] ?? '')
  return {
    name: id,
    value: {
      deployments: [{ provider, model }],
      pricing: { prompt: perToken('prompt'), completion: perToken('completion') },
    },
  }
}
