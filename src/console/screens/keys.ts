/** Keys of all accounts, and making one. */
import { useState } from 'preact/hooks'
import { usePages, withQuery, type Pages, call, useAnswer } from '../api.ts'
import type { KeyRow, AccountRow } from '../answers.ts'
import { html } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Button } from '../parts/button.ts'
import { Money, Time } from '../parts/facts.ts'
import { Filters, isFiltered, type Filter } from '../parts/filters.ts'
import { LimitEditor, limitsOf, textsOf } from '../parts/limits.ts'
import { Empty, Failure } from '../parts/states.ts'
import { ColumnChoice, Table, type Column } from '../parts/table.ts'
import { place, go } from '../state.ts'
import { CheckField, SelectField, TextField, useSubmission } from '../parts/form.ts'
import { SecretOnce } from '../parts/secret.ts'
import { Dialog } from '../parts/sheet.ts'
import { entriesOf, ModelsField } from './models-field.ts'

const FILTERS: readonly Filter[] = [
  { name: 'q', label: 'text', placeholder: 'part of a name, id or start' },
  { name: 'account', label: 'account', placeholder: 'id of an account' },
  { name: 'team', label: 'team', placeholder: 'id of a team' },
  { name: 'state', label: 'state', values: ['active', 'disabled', 'expired', 'archived'] },
  { name: 'policy', label: 'policy', values: ['any', 'none'] },
]
const NAME = 'keys'

const COLUMNS: readonly Column<KeyRow>[] = [
  { key: 'name', label: 'Name', cell: ({ name }) => name, sort: 'name' },
  {
    key: 'state',
    label: 'State',
    cell: (row) => html`<${KeyState} row=${row} />`,
    phone: 'figure',
  },
  { key: 'account', label: 'Account', cell: ({ account_id }) => account_id, phone: 'rest' },
  { key: 'team', label: 'Team', cell: ({ team_id }) => team_id ?? '–', phone: 'none' },
  {
    key: 'start',
    label: 'Start',
    cell: ({ start }) => html`<code>${start}…</code>`,
    phone: 'rest',
  },
  { key: 'policy', label: 'Policy', cell: (row) => policyOf(row), phone: 'rest' },
  {
    key: 'spend',
    label: 'Spend',
    cell: (row) => html`<${Money} usd=${row.spend_usd} />`,
    sort: 'spend_usd',
    phone: 'rest',
  },
  {
    key: 'running',
    label: 'Running',
    cell: ({ running }) => running ?? '–',
    end: true,
    phone: 'none',
  },
  {
    key: 'used',
    label: 'Last used',
    cell: ({ last_used_at: at }) => (at === null ? 'never' : html`<${Time} at=${at} short />`),
    sort: 'last_used_at',
    phone: 'none',
  },
  {
    key: 'expires',
    label: 'Expires',
    cell: ({ expires_at: at }) => (at === null ? 'never' : html`<${Time} at=${at} short />`),
    phone: 'none',
  },
]

export function Keys() {
  const { query } = place.value
  const [creating, setCreating] = useState(query.has('new'))
  useKeys({ n: () => setCreating(true) })
  const list = usePages<KeyRow>(pathOf(query))
  return html`<div class="screen">
    <header class="screen-head">
      <h1>Keys</h1>
      <${Filters} filters=${FILTERS} />
      <div class="screen-actions">
        <${ColumnChoice} name=${NAME} columns=${COLUMNS} />
        <${Button} kind="primary" right="keys" onClick=${() => setCreating(true)}>New key<//>
      </div>
    </header>
    <${KeyList} list=${list} onNew=${() => setCreating(true)} />
    ${
      creating &&
      html`<${NewKey}
      account=${query.get('account') ?? query.get('new') ?? ''}
      onClose=${() => setCreating(false)}
      onCreated=${list.reload}
    />`
    }
  </div>`
}

export function KeyList({
  list,
  onNew,
}: {
  readonly list: Pages<KeyRow>
  readonly onNew?: () => void
}) {
  if (list.error && list.rows.length === 0) {
    return html`<${Failure} error=${list.error} onRetry=${list.reload} />`
  }
  if (!list.loading && list.rows.length === 0) {
    return isFiltered(FILTERS)
      ? html`<${Empty} title="No keys match."><p class="muted">Remove a filter above.</p><//>`
      : html`<${Empty} title="There are no keys yet.">
          <p class="muted">A key belongs to an account, which pays for its calls.</p>
          <${Button} kind="primary" right="keys" onClick=${onNew}>New key<//>
        <//>`
  }
  return html`${list.error && html`<${Failure} error=${list.error} onRetry=${list.reload} keptAt=${list.at} />`}
    <${Table}
      name=${NAME}
      caption="Keys"
      columns=${COLUMNS}
      rows=${list.rows}
      idOf=${({ id }: KeyRow) => id}
      hrefOf=${({ id }: KeyRow) => `/console/keys/${id}/overview`}
      loading=${list.loading}
    />
    ${
      list.next !== null &&
      html`<p class="more"><${Button} busy=${list.loadingMore} onClick=${list.more}>More<//></p>`
    }`
}

export function KeyState({ row }: { readonly row: KeyRow }) {
  const [word, tone, shape] = row.archived_at
    ? ['archived', 'muted', '○']
    : row.disabled
      ? ['disabled', 'warn', '○']
      : row.expires_at !== null && Date.parse(row.expires_at) < Date.now()
        ? ['expired', 'warn', '○']
        : ['active', 'ok', '●']
  return html`<span class=${tone}><span aria-hidden="true">${shape}</span> ${word}</span>`
}

export function policyOf({ policy }: Pick<KeyRow, 'policy'>): string {
  if (!policy) return 'none'
  const rules =
    (policy.deny?.length ?? 0) + (policy.bannedPatterns?.length ?? 0) + (policy.scope ? 1 : 0)
  const text = rules === 0 ? 'no rules' : rules === 1 ? '1 rule' : `${rules} rules`
  return policy.guard?.mode === 'monitor' ? `${text}, monitor` : text
}

function pathOf(query: URLSearchParams): string {
  const parameters = new URLSearchParams()
  for (const name of ['q', 'account', 'team', 'state', 'policy', 'sort']) {
    for (const value of query.getAll(name)) parameters.append(name, value)
  }
  return withQuery('/admin/keys', parameters)
}

// Making a key: its rights, and then its secret, once.

/** The form, then the secret. @param account the account, where it is chosen already */
function NewKey({
  account: given,
  onClose,
  onCreated,
}: {
  readonly account: string
  readonly onClose: () => void
  readonly onCreated: () => void
}) {
  const accounts = useAnswer<{ data: readonly AccountRow[] }>('/admin/accounts?limit=200').data
    ?.data
  const [account, setAccount] = useState(given)
  const [name, setName] = useState('')
  const [limits, setLimits] = useState(textsOf(null))
  const [team, setTeam] = useState('')
  const [expires, setExpires] = useState('')
  const [models, setModels] = useState('')
  const [tag, setTag] = useState('')
  const [note, setNote] = useState('')
  const [content, setContent] = useState(false)
  const [policy, setPolicy] = useState('none')
  const [source, setSource] = useState('')
  const [hash, setHash] = useState('')
  const [missing, setMissing] = useState<string>()
  // The secret is in the component and nowhere else: leaving the dialog forgets it.
  const [made, setMade] = useState<{ readonly key: KeyRow; readonly secret: string }>()
  const chosen = account || accounts?.[0]?.id || ''
  const form = useSubmission(async () => {
    if (name.trim() === '') return setMissing('name')
    if (chosen === '') return setMissing('account')
    setMissing(undefined)
    const allowed = entriesOf(models)
    const body = {
      name: name.trim(),
      ...(limits.length > 0 && { limits: limitsOf(limits) }),
      ...(team.trim() && { team_id: team.trim() }),
      ...(expires && { expires_at: `${expires}T00:00:00Z` }),
      ...(allowed.length > 0 && { models: allowed }),
      ...(tag && { tag }),
      ...(note && { note }),
      ...(content && { log_content: true }),
      ...(policy !== 'none' && { policy: await policyFrom(policy, source) }),
      ...(hash && { sha256: hash.trim() }),
    }
    const answer = await call<{ data: KeyRow; key?: string }>(
      'POST',
      `/admin/accounts/${chosen}/keys`,
      { body },
    )
    onCreated()
    if (answer.key !== undefined) return setMade({ key: answer.data, secret: answer.key })
    onClose()
    go(`/console/keys/${answer.data.id}/overview`)
  })
  if (made) {
    const leave = () => {
      setMade(undefined)
      onClose()
    }
    return html`<${SecretOnce} title=${`Key ${made.key.name}`} secret=${made.secret} onStored=${leave} />`
  }
  const { errorFor } = form
  const isPlaced =
    form.error?.param &&
    /^(name|limits|team_id|expires_at|models|tag|note|sha256)/.test(form.error.param)
  return html`<${Dialog} title="New key" wide onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      <div class="row">
        <${TextField} label="Name" value=${name} onInput=${setName} autofocus help="What the key is for." error=${missing === 'name' && name === '' ? 'A key needs a name, such as the program that uses it.' : errorFor('name')} />
        ${
          accounts && accounts.length > 0
            ? html`<${SelectField} label="Account" value=${chosen} onChange=${setAccount} help="It pays for the calls." options=${accounts.map(({ id, name }) => ({ value: id, label: name === id ? id : `${name} (${id})` }))} />`
            : html`<${TextField} label="Account" value=${account} onInput=${setAccount} help="The id of the account that pays." error=${missing === 'account' ? 'Create an account first.' : undefined} />`
        }
      </div>
      <${LimitEditor} limits=${limits} onChange=${setLimits} none="None of its own: the defaults, or those that its team or account has for new keys." errorFor=${errorFor} />
      <div class="row">
        <${TextField} label="Expires" type="date" value=${expires} onInput=${setExpires} help="Start of that UTC day. Empty: never." error=${errorFor('expires_at')} />
        <${TextField} label="Team" value=${team} onInput=${setTeam} mono placeholder="none" help="The id of a team of the account." error=${errorFor('team_id')} />
        <${TextField} label="Tag" value=${tag} onInput=${setTag} help="Counts all its calls under this tag." error=${errorFor('tag')} />
      </div>
      <${ModelsField} value=${models} onInput=${setModels} error=${errorFor('models')} />
      <div class="row">
        <${SelectField} label="Policy" value=${policy} onChange=${setPolicy} help="Edited after the key is made." options=${[
          { value: 'none', label: 'none' },
          { value: 'empty', label: 'empty' },
          { value: 'copy', label: 'copy of another key’s' },
        ]} />
        ${policy === 'copy' && html`<${TextField} label="Key to copy from" value=${source} onInput=${setSource} mono placeholder="key_…" />`}
      </div>
      <details>
        <summary>More</summary>
        <div class="form">
          <${TextField} label="Note" value=${note} onInput=${setNote} rows=${2} most=${1000} error=${errorFor('note')} />
          <${CheckField} label="Contents of its calls may be kept" checked=${content} onChange=${setContent} help="Only where the configuration allows that." />
          <${TextField} label="I have a hash (SHA-256)" value=${hash} onInput=${setHash} mono help="Of a key that was made elsewhere and keeps working. No secret is made then." error=${errorFor('sha256')} />
        </div>
      </details>
      ${form.error && !isPlaced && html`<${Failure} error=${form.error} />`}
      <div class="actions">
        <${Button} kind="primary" type="submit" right="keys" busy=${form.busy}>Create key<//>
        <${Button} onClick=${onClose}>Cancel<//>
      </div>
    </form>
  <//>`
}

async function policyFrom(choice: string, source: string): Promise<unknown> {
  if (choice === 'empty') return { version: 1 }
  const { data } = await call<{ data: KeyRow }>(
    'GET',
    `/admin/keys/${encodeURIComponent(source.trim())}`,
  )
  return data.policy ?? { version: 1 }
}
