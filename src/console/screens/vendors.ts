/** Vendors: how each is doing, and what can be done with it; and adding one in three steps. */
import { useState } from 'preact/hooks'
import { actsOf, perform, testVendor, useOpened, type Act } from '../acts.ts'
import { call, useAnswer } from '../api.ts'
import type { ModelRow } from '../answers.ts'
import { count, shortCount } from '../format.ts'
import { html, type Content } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Button } from '../parts/button.ts'
import { Confirm } from '../parts/confirm.ts'
import { Facts, Time } from '../parts/facts.ts'
import { useSubmission } from '../parts/form.ts'
import { Heads } from '../parts/heads.ts'
import { Dialog, Sheet } from '../parts/sheet.ts'
import { Answered, Empty, Failure, Notice } from '../parts/states.ts'
import { hrefOpening, Table, type Column } from '../parts/table.ts'
import { allows, place, setQuery } from '../state.ts'
import { actorText } from '../text.ts'
import { Tested } from './connections.ts'
import { changeEntries, GiveKey, undoRevision, Where, type Applied } from './vendor-key.ts'
import {
  ChooseModels,
  ChooseVendor,
  type Offer,
  type OffersAnswer,
  type Vendor,
} from './vendor-steps.ts'
import type { ProviderAnswer, TestAnswer } from '../../server/admin/resources/managed.ts'

const EVERY_MS = 15_000

const COLUMNS: readonly Column<ProviderAnswer>[] = [
  { key: 'name', label: 'Vendor', cell: ({ name }) => name },
  { key: 'state', label: 'State', cell: stateOf, phone: 'figure' },
  { key: 'use', label: 'Plugin', cell: ({ use }) => use, phone: 'rest' },
  {
    key: 'from',
    label: 'From',
    cell: ({ from, where }) => (from === 'managed' ? 'set up here' : (where ?? from)),
    title: ({ where }) => where ?? undefined,
    phone: 'none',
    long: true,
  },
  { key: 'models', label: 'Models', cell: ({ models }) => count(models), end: true, phone: 'none' },
  {
    key: 'calls',
    label: 'Calls, 24 h',
    cell: ({ last_24h: last }) => shortCount(last?.calls),
    end: true,
    phone: 'none',
  },
  {
    key: 'failures',
    label: 'Failures, 24 h',
    cell: (row) => shortCount(failuresOf(row)),
    end: true,
    phone: 'rest',
  },
  {
    key: 'success',
    label: 'Last success',
    cell: ({ last_success: at }) =>
      at === null ? 'none since the start' : html`<${Time} at=${at} />`,
    phone: 'rest',
  },
  { key: 'key', label: 'Key', cell: ({ key }) => key ?? 'needs none', phone: 'none' },
]

function failuresOf({ last_24h: last }: ProviderAnswer): number | null {
  return last && Object.values(last.failures).reduce((sum, many) => sum + many, 0)
}

function stateOf({ left_out, key, models }: ProviderAnswer): Content {
  if (left_out !== null) return html`<span class="bad">✕ left out</span>`
  if (key === 'not set') return html`<span class="muted">○ without a key</span>`
  if (models === 0) return html`<span class="muted">○ serves nothing</span>`
  return html`<span class="ok">● in force</span>`
}

export function Vendors() {
  const answer = useAnswer<{ data: readonly ProviderAnswer[] }>('/admin/providers', {
    every: EVERY_MS,
  })
  const [adding, setAdding] = useOpened('add')
  const open = place.value.query.get('open') ?? undefined
  useKeys({ n: () => allows('config') && setAdding('') })
  const close = () => setQuery({ open: undefined }, { replace: true })
  return html`<div class="screen-head">
      <div class="screen-actions">
        <${Button} kind="primary" right="config" onClick=${() => setAdding('')}>Add a vendor<//>
      </div>
    </div>
    <${Answered} of=${answer} lines=${10}>
      ${({ data }: { data: readonly ProviderAnswer[] }) => html`${
        data.length === 0
          ? html`<${Empty} title="There are no vendors."><p class="muted">A vendor brings the models that it offers and that have a price.</p><//>`
          : html`<${Table}
              name="vendors"
              caption="Vendors"
              columns=${COLUMNS}
              rows=${data}
              idOf=${({ name }: ProviderAnswer) => name}
              hrefOf=${({ name }: ProviderAnswer) => hrefOpening(name)}
              actsOf=${({ name }: ProviderAnswer) => actsOf({ kind: 'vendor', id: name, name })}
              open=${open}
            />`
      }
      ${open !== undefined && html`<${VendorSheet} key=${open} name=${open} row=${data.find(({ name }) => name === open)} onClose=${close} />`}`}
    <//>
    ${adding !== undefined && html`<${AddVendor} onClose=${() => setAdding(undefined)} />`}`
}

function AddVendor({ onClose }: { readonly onClose: () => void }) {
  const [vendor, setVendor] = useState<Vendor>()
  const title = vendor ? `Models of ${vendor.name}` : 'Add a vendor'
  return html`<${Dialog} title=${title} wide onClose=${onClose}>
    ${
      vendor
        ? html`<p class="ok">✓ ${vendor.name} answered with ${count(vendor.offers.length)} models.</p>
            <${ChooseModels} vendor=${vendor} served=${false} onServed=${onClose} />`
        : html`<${ChooseVendor} onFound=${setVendor} />`
    }
  <//>`
}

type Doing = 'key' | 'where' | 'remove' | 'history'

function VendorSheet({
  name,
  row,
  onClose,
}: {
  readonly name: string
  readonly row: ProviderAnswer | undefined
  readonly onClose: () => void
}) {
  const [doing, setDoing] = useState<Doing>()
  const [tested, setTested] = useState<TestAnswer>()
  const test = useSubmission(async () => {
    const body = { name }
    setTested((await call<{ data: TestAnswer }>('POST', '/admin/providers/test', { body })).data)
  })
  const stop = () => setDoing(undefined)
  if (!row)
    return html`<${Sheet} title=${name} onClose=${onClose}><${Empty} title="There is no such vendor." /><//>`
  const isManaged = row.changed !== null
  return html`<${Sheet} title=${name} onClose=${onClose}>
    <div class="stack">
      <p class="actions">
        <${Button} right="config" busy=${test.busy} onClick=${() => test.submit()}>Test<//>
        ${isManaged && row.key !== null && html`<${Button} right="config" onClick=${() => setDoing('key')}>New key<//>`}
        ${!isManaged && html`<${Button} right="config" onClick=${() => setDoing('where')}>Where it is set<//>`}
        <a class="button quiet" href="/console/usage?group=deployment">Usage</a>
        ${isManaged && html`<${Button} kind="quiet" right="config" onClick=${() => setDoing('history')}>History<//> <${Button} kind="danger" right="config" onClick=${() => setDoing('remove')}>Remove<//>`}
      </p>
      ${tested && html`<p role="status"><${Tested} ...${tested} /></p>`}
      ${test.error && html`<${Failure} error=${test.error} />`}
      ${row.left_out !== null && html`<${Notice} tone="bad">It is not in force: ${row.left_out}<//>`}
      <${Facts} facts=${factsOf(row)} />
      <${Offers} name=${name} />
    </div>
    ${doing === 'key' && html`<${GiveKey} provider=${name} test=${testVendor(name)} onClose=${stop} onDone=${stop} />`}
    ${doing === 'where' && html`<${Where} name=${name} path=${`providers.${name}.`} onClose=${stop} />`}
    ${doing === 'remove' && html`<${Remove} row=${row} onClose=${stop} onDone=${onClose} />`}
    ${doing === 'history' && html`<${History} onClose=${stop} />`}
  <//>`
}

function factsOf(row: ProviderAnswer): (readonly [string, Content])[] {
  const { use, address, from, where, models, last_24h: last, last_success, key, changed } = row
  const failures = Object.entries(last?.failures ?? {})
  const set = changed && html`, by ${actorText(changed.by)}, <${Time} at=${changed.at} />`
  return [
    ['Plugin', use],
    [
      'Address',
      address === null ? 'that of the vendor' : html`<span class="mono">${address}</span>`,
    ],
    ['From', from === 'managed' ? html`set up here${key === null ? set : ''}` : (where ?? from)],
    ['Key', key === null ? 'needs none' : html`${key}${key === 'set' && set}`],
    ['Models', count(models)],
    ['Calls, 24 h', last === null ? 'not kept' : count(last.calls)],
    [
      'Failures, 24 h',
      last === null
        ? 'not kept'
        : failures.length === 0
          ? 'none'
          : failures.map(([why, many]) => `${why.replaceAll('_', ' ')} ${count(many)}`).join(', '),
    ],
    ['Last success', last_success ? html`<${Time} at=${last_success} />` : 'none since the start'],
  ]
}

interface Compared {
  readonly offers: readonly Offer[]
  readonly gone: readonly string[]
}

/** What the vendor offers beside what is served of it. It is asked when a reader wants that. */
function Offers({ name }: { readonly name: string }) {
  const [compared, setCompared] = useState<Compared>()
  const [refused, setRefused] = useState<string>()
  const form = useSubmission(async () => {
    const [answer, models] = await Promise.all([
      call<OffersAnswer & { readonly listed: boolean }>('POST', '/admin/providers/offers', {
        body: { name },
      }),
      call<{ data: readonly ModelRow[] }>('GET', '/admin/models'),
    ])
    setRefused(answer.message === undefined ? undefined : (answer.cause ?? answer.message ?? ''))
    const offered = new Set(answer.data.map(({ model }) => model))
    const served = models.data.flatMap(({ deployments }) =>
      deployments.filter(({ provider }) => provider === name).map(({ model }) => model),
    )
    const gone = answer.listed ? [...new Set(served)].filter((one) => !offered.has(one)) : []
    setCompared({ offers: answer.data, gone })
  })
  return html`<section class="stack">
    <h3>Models that it offers</h3>
    ${form.error && html`<${Failure} error=${form.error} />`}
    ${refused !== undefined && html`<${Notice} tone="bad">${refused || 'The vendor did not answer.'}<//>`}
    ${compared && refused === undefined && html`<${OfferTable} ...${compared} provider=${name} />`}
    <div><${Button} right="config" busy=${form.busy} onClick=${() => form.submit()}>${compared ? 'Ask again' : 'Ask the vendor'}<//></div>
  </section>`
}

const MOST_OFFERS = 200

function OfferTable({ offers, gone, provider }: Compared & { readonly provider: string }) {
  const groups = [
    { title: 'Served and gone at the vendor', rows: gone.map((model) => ({ model, id: '' })) },
    {
      title: 'Listed, without a price',
      rows: offers.filter((one) => !one.pricing && one.served_as.length === 0),
    },
    {
      title: 'Listed, not served',
      rows: offers.filter((one) => one.pricing && one.served_as.length === 0),
    },
    { title: 'Served', rows: offers.filter((one) => one.served_as.length > 0) },
  ]
  const serve = (id: string) =>
    changeEntries([{ section: 'models', name: id, value: {} }], `Serving ${id}`)
  return groups.map(
    ({ title, rows }) =>
      rows.length > 0 &&
      html`<details key=${title} open=${rows.length <= 20}>
        <summary>${title} <span class="muted">${count(rows.length)}</span></summary>
        <ul class="lines">
          ${rows.slice(0, MOST_OFFERS).map(
            (row) =>
              html`<li key=${row.model}>
                <span class="mono">${row.model}</span>
                ${title === 'Listed, not served' && html`<${Button} kind="quiet" right="config" onClick=${() => serve(row.id)}>Serve<//>`}
                ${title === 'Listed, without a price' && html`<a href=${`/console/models?add=${encodeURIComponent(`${provider}/${row.model}`)}`}>Add it with a price</a>`}
              </li>`,
          )}
        </ul>
        ${rows.length > MOST_OFFERS && html`<p class="muted">${count(rows.length - MOST_OFFERS)} more.</p>`}
      </details>`,
  )
}

/** Removes a vendor with the models that nothing else serves, all of which are named first. */
function Remove({
  row: { name, changed },
  onClose,
  onDone,
}: {
  readonly row: ProviderAnswer
  readonly onClose: () => void
  readonly onDone: () => void
}) {
  const entries = useAnswer<{ data: { readonly entries: readonly Named[] } }>('/admin/managed').data
  const own = (entries?.data.entries ?? []).filter(
    ({ section, name: model, value }) =>
      section === 'models' &&
      (value.deployments?.length
        ? value.deployments.every(({ provider }) => provider === name)
        : model.startsWith(`${name}/`)),
  )
  const act = async () => {
    const changes = [
      { section: 'providers', name, value: null, revision: changed!.revision },
      ...own.map((one) => ({ section: 'models', name: one.name, value: null })),
    ]
    await changeEntries(changes, `Removed ${name}`)
    onDone()
  }
  return html`<${Confirm} title=${`Remove ${name}?`} verb="Remove" act=${act} onClose=${onClose}>
    <p>Its key is forgotten. Calls that run end as usual.</p>
    ${own.length > 0 && html`<p>These go with it: <span class="mono">${own.map((one) => one.name).join(', ')}</span></p>`}
  <//>`
}

interface Named {
  readonly section: string
  readonly name: string
  readonly value: { readonly deployments?: readonly { readonly provider: string }[] }
}

interface Revision {
  readonly revision: number
  readonly at: string
  readonly by: string
  readonly summary: string
}

/** Former states of all that is set up here, and going back to one. */
function History({ onClose }: { readonly onClose: () => void }) {
  const answer = useAnswer<{ data: readonly Revision[] }>('/admin/managed/history')
  const back = (to: number): Act => ({
    verb: 'Back to this',
    right: 'config',
    act: async () => {
      const body = { to }
      const { data } = await call<{ data: Applied }>('POST', '/admin/managed/revert', { body })
      return { message: `Back to revision ${to}`, undo: () => undoRevision(data.revision) }
    },
  })
  return html`<${Dialog} title="History of what is set up here" wide onClose=${onClose}>
    <${Answered} of=${answer}>
      ${({ data }: { data: readonly Revision[] }) => html`<table class="plain ruled stacked">
        <${Heads} names=${['Revision', 'When', 'By', 'What', 'Act']} />
        <tbody>
          ${data.map(
            ({ revision, at, by, summary }, place) =>
              html`<tr key=${revision}>
                <th scope="row">${count(revision)}</th>
                <td><${Time} at=${at} /></td>
                <td data-label="by">${actorText(by)}</td>
                <td>${summary}</td>
                <td class="end">${place > 0 && html`<${Button} kind="quiet" right="config" onClick=${() => perform(back(revision)).then(onClose)}>Back to this<//>`}</td>
              </tr>`,
          )}
        </tbody>
      </table>`}
    <//>
  <//>`
}
