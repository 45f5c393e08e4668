/** The guided start: from a vendor's key to a first call and a client key, on one page. */
import { useEffect, useState } from 'preact/hooks'
import { call, useAnswer } from '../api.ts'
import type { AccountRow, Overview } from '../answers.ts'
import type { Usd } from '../amounts.ts'
import { count, exactMoney } from '../format.ts'
import { html, type Content } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Copy } from '../parts/copy.ts'
import { TextField, useFocus, useSubmission } from '../parts/form.ts'
import { Panel } from '../parts/panel.ts'
import { Snippets } from '../parts/snippets.ts'
import { Answered, Failure, Notice } from '../parts/states.ts'
import { allows, prefer, stayWhile } from '../state.ts'
import { ChooseModels, ChooseVendor, type Vendor } from './vendor-steps.ts'
import type { ManagedAnswer } from '../../server/admin/resources/managed.ts'

export function Start() {
  const mayConfigure = allows('config')
  const overview = useAnswer<{ data: Overview }>('/admin/overview')
  const managed = useAnswer<{ data: ManagedAnswer }>(mayConfigure ? '/admin/managed' : null)
  const [vendor, setVendor] = useState<Vendor>()
  const [model, setModel] = useState<string>()
  const [called, setCalled] = useState(false)
  const there = overview.data?.data.setup.vendors ?? []
  if (!mayConfigure) return html`<${Notice}>A gateway is set up by the role admin.<//>`
  const state = managed.data?.data
  return html`<div class="screen start">
    <header class="screen-head">
      <h1>Start</h1>
      <div class="screen-actions"><a class="button" href="/console" onClick=${() => prefer({ started: true })}>Not now</a></div>
    </header>
    ${state && !state.enabled && html`<${Notice} tone="warn">The configuration has <code>managed: false</code>: vendors are set up in its file.<//>`}
    ${state && !state.durable && html`<${Notice} tone="warn">State is in memory: what is set up here is gone when the gateway ends.<//>`}
    <${Step} number=${1} title="Vendor and its key" done=${vendor !== undefined || there.length > 0}>
      ${there.map(({ name, models, from }) => html`<p key=${name}><span class="ok" aria-hidden="true">✓ </span>${name}: ${count(models)} models from ${from}</p>`)}
      ${vendor ? html`<p>${vendor.name} answered with ${count(vendor.offers.length)} models. <${Button} kind="quiet" onClick=${() => setVendor(undefined)}>Another vendor<//></p>` : html`<${ChooseVendor} onFound=${setVendor} />`}
    <//>
    <${Step} number=${2} title="Models" done=${model !== undefined} waits=${!vendor && there.length === 0}>
      ${vendor && html`<${ChooseModels} key=${vendor.name} vendor=${vendor} served=${model !== undefined} onServed=${setModel} />`}
    <//>
    <${Step} number=${3} title="Client key and first call" done=${called} waits=${model === undefined && there.length === 0}>
      ${(model !== undefined || there.length > 0) && html`<${ClientKey} model=${model} onCalled=${() => setCalled(true)} />`}
    <//>
  </div>`
}

function Step({
  number,
  title,
  done,
  waits = false,
  children,
}: {
  readonly number: number
  readonly title: string
  readonly done: boolean
  readonly waits?: boolean
  readonly children?: Content
}) {
  const mark = done
    ? html`<span class="ok" aria-label="done">✓</span>`
    : html`<span class="muted">${number}</span>`
  return html`<div>
    <${Panel} title=${html`${mark} ${title}`}>${waits ? html`<p class="muted">After the step before.</p>` : children}<//>
  </div>`
}

// The key for programs, and its first call.

function ClientKey({
  model,
  onCalled,
}: {
  readonly model: string | undefined
  readonly onCalled: () => void
}) {
  const accounts = useAnswer<{ data: readonly AccountRow[] }>('/admin/accounts?limit=2')
  return html`<${Answered} of=${accounts}>
    ${({ data }: { data: readonly AccountRow[] }) => html`<${MakeKey} account=${data[0]} only=${data.length < 2} model=${model} onCalled=${onCalled} />`}
  <//>`
}

const QUESTION = 'Stored the key? It cannot be shown again.'

function MakeKey({
  account,
  only,
  model,
  onCalled,
}: {
  readonly account: AccountRow | undefined
  readonly only: boolean
  readonly model: string | undefined
  readonly onCalled: () => void
}) {
  const [name, setName] = useState('first client')
  const [usd, setUsd] = useState('10')
  const [secret, setSecret] = useState<string>()
  const needsMoney =
    !account || account.available_usd === '0' || account.available_usd.startsWith('-')
  useEffect(() => (secret === undefined ? undefined : stayWhile(() => QUESTION)), [secret])
  const focused = useFocus('button[type=submit]')
  const form = useSubmission(async () => {
    const id = account?.id ?? 'default'
    if (!account) await call('POST', '/admin/accounts', { body: { id, name: 'Default' } })
    if (needsMoney && usd.trim() !== '')
      await call('POST', `/admin/accounts/${id}/credits`, {
        body: { usd: usd.trim(), reference: `start-${id}` },
      })
    const made = await call<{ key: string }>('POST', `/admin/accounts/${id}/keys`, {
      body: { name: name.trim() },
    })
    setSecret(made.key)
  })
  if (secret !== undefined) {
    return html`<p>This is the only time that the key can be read. The gateway keeps a hash of it.</p>
      <div class="secret"><code class="mono" tabindex="0">${secret}</code><${Copy} text=${secret} label="Copy key" /></div>
      <${FirstCall} secret=${secret} model=${model} onCalled=${onCalled} />
      <${Snippets} secret=${secret} model=${model} />`
  }
  return html`<form class="form" ref=${focused} onSubmit=${form.submit}>
    <p class="help">${account ? html`Its calls are charged to <b>${account.name}</b>, which has ${exactMoney(account.available_usd)}.${only ? '' : ' Keys of other accounts are made under Keys.'}` : 'A first account, "Default", is made with it: it pays for the calls.'}</p>
    <${TextField} label="Name of the key" value=${name} onInput=${setName} />
    ${needsMoney && html`<${TextField} label="Credits of the account, USD" value=${usd} onInput=${setUsd} />`}
    ${form.error && html`<${Failure} error=${form.error} />`}
    <div class="actions"><${Button} kind="primary" type="submit" right="keys" busy=${form.busy}>Create key<//></div>
  </form>`
}

interface ChatAnswer {
  readonly choices?: readonly { readonly message: { readonly content: string | null } }[]
  readonly usage?: { readonly cost?: Usd }
}

function FirstCall({
  secret,
  model,
  onCalled,
}: {
  readonly secret: string
  readonly model: string | undefined
  readonly onCalled: () => void
}) {
  const [text, setText] = useState('Say hello in five words.')
  const [answer, setAnswer] = useState<ChatAnswer>()
  const begin = useFocus('button[type=submit]')
  const models = useAnswer<{ data: readonly { id: string; modality?: string }[] }>(
    model ? null : '/v1/models',
    { key: secret },
  )
  const modelId =
    model ||
    models.data?.data.find(({ id, modality }) => modality === 'chat' && !id.startsWith('mock/'))?.id
  const form = useSubmission(async () => {
    const body = { model: modelId, messages: [{ role: 'user', content: text }] }
    setAnswer(await call<ChatAnswer>('POST', '/v1/chat/completions', { key: secret, body }))
    onCalled()
  })
  return html`<form class="form" ref=${begin} onSubmit=${form.submit}>
    <${TextField} label=${html`Ask <span class="mono">${modelId ?? '…'}</span>`} value=${text} onInput=${setText} />
    <div class="actions"><${Button} kind="primary" type="submit" busy=${form.busy}>Send<//></div>
    ${form.error && html`<${Failure} error=${form.error} />`}
    ${answer && html`<div class="notice ok" role="status"><p><bdi>${answer.choices?.[0]?.message.content ?? ''}</bdi></p><p class="muted">It cost ${exactMoney(answer.usage?.cost)}. <a href="/console/requests">The call</a> · <a href="/console">Overview</a></p></div>`}
  </form>`
}
