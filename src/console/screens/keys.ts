/** Keys of all accounts, and making one. */
import { useState } from 'preact/hooks'
import { useAnswer, usePages, withQuery, type Pages, call } from '../api.ts'
import type { KeyRow, Policy, TeamRow } from '../answers.ts'
import { MISSING, duration } from '../format.ts'
import { html } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Button } from '../parts/button.ts'
import { Time } from '../parts/facts.ts'
import { Filters, isFiltered, type Filter } from '../parts/filters.ts'
import { LimitEditor, limitsOf, textsOf, valueOf } from '../parts/limits.ts'
import { Empty, Failure, Notice } from '../parts/states.ts'
import { amounts, ColumnChoice, ListEnd, Table, type Column } from '../parts/table.ts'
import { place, go } from '../state.ts'
import { actsOf, onlyThis, useOpened } from '../acts.ts'
import { Choose } from '../parts/choose.ts'
import { CheckField, FormEnd, SelectField, send, TextField, useSubmission } from '../parts/form.ts'
import { lazy } from '../parts/lazy.ts'
import { to } from '../api.ts'
import { SecretOnce } from '../parts/secret.ts'
import { Dialog } from '../parts/sheet.ts'
import { entriesOf, ModelsField } from './models-field.ts'

const FILTERS: readonly Filter[] = [
  { name: 'q', label: 'text', placeholder: 'part of a name, id or start' },
  { name: 'account', label: 'account', chooses: 'account' },
  { name: 'team', label: 'team', chooses: 'team' },
  { name: 'state', label: 'state', values: ['active', 'disabled', 'expired', 'archived'] },
  { name: 'policy', label: 'policy', values: ['any', 'none'] },
]
const NAME = 'keys'

const COLUMNS: readonly Column<KeyRow>[] = [
  {
    key: 'name',
    label: 'Name',
    cell: ({ name }) => name,
    title: ({ name }) => name,
    sort: 'name',
    long: true,
  },
  {
    key: 'state',
    label: 'State',
    cell: (row) => html`<${KeyState} row=${row} />`,
    phone: 'figure',
  },
  {
    key: 'account',
    label: 'Account',
    cell: ({ account_id }) => account_id,
    title: ({ account_id }) => account_id,
    phone: 'rest',
    long: true,
  },
  {
    key: 'team',
    label: 'Team',
    cell: ({ team_id }) => team_id ?? 'none',
    phone: 'none',
    long: true,
  },
  {
    key: 'start',
    label: 'Begins with',
    cell: ({ start }) => html`<code>${start}…</code>`,
    phone: 'rest',
  },
  { key: 'policy', label: 'Policy', cell: (row) => policyOf(row), phone: 'rest' },
  amounts(({ spend_usd }) => spend_usd, {
    key: 'spend',
    label: 'Spent in all',
    sort: 'spend_usd',
    phone: 'rest',
  }),
  {
    key: 'running',
    label: 'Running',
    cell: ({ running }) => running ?? MISSING,
    end: true,
    phone: 'none',
  },
  {
    key: 'used',
    label: 'Last used',
    cell: ({ last_used_at: at }) => (at === null ? 'never' : html`<${Time} at=${at} isHour />`),
    sort: 'last_used_at',
    phone: 'none',
  },
  {
    key: 'expires',
    label: 'Expires',
    cell: ({ expires_at: at }) => (at === null ? 'never' : html`<${Time} at=${at} isHour />`),
    phone: 'none',
  },
]

export function Keys() {
  const { query } = place.value
  const [creating, setCreating] = useOpened('new')
  useKeys({ n: () => setCreating('') })
  const list = usePages<KeyRow>(pathOf(query))
  return html`<div class="screen">
    <header class="screen-head">
      <h1>Keys</h1>
      <${Filters} filters=${FILTERS} />
      <div class="screen-actions">
        <${ColumnChoice} name=${NAME} columns=${COLUMNS} />
        <${Button} kind="primary" right="keys" onClick=${() => setCreating('')}>New key<//>
      </div>
    </header>
    <${KeyList} list=${list} onNew=${() => setCreating('')} />
    ${
      creating !== undefined &&
      html`<${NewKey}
      account=${creating || (query.get('account') ?? '')}
      onClose=${() => setCreating(undefined)}
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
      nameOf=${({ name }: KeyRow) => name}
      actsOf=${(row: KeyRow) => [
        ...actsOf({ kind: 'key', id: row.id, name: row.name, state: stateOf(row)[0] }),
        ...onlyThis('account', 'account', row.account_id),
        ...onlyThis('team', 'team', row.team_id),
      ]}
      loading=${list.loading}
    />
    <${ListEnd} list=${list} noun="key" />`
}

/** The state of a key: its word, tone and shape. */
function stateOf(row: KeyRow): readonly [word: string, tone: string, shape: string] {
  if (row.archived_at) return ['archived', 'muted', '○']
  if (row.disabled) return ['disabled', 'warn', '○']
  if (row.expires_at !== null && Date.parse(row.expires_at) < Date.now())
    return ['expired', 'warn', '○']
  return ['active', 'ok', '●']
}

export function KeyState({ row }: { readonly row: KeyRow }) {
  const [word, tone, shape] = stateOf(row)
  return html`<span class=${tone}><span aria-hidden="true">${shape}</span> ${word}</span>`
}

export function policyOf({ policy: value }: { readonly policy: object | null }): string {
  if (!value) return 'none'
  const policy = value as Policy
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

/** The team or account whose new keys get settings. */
type Owner = Pick<TeamRow, 'name' | 'new_keys'>

function policiesFor(owner: Owner | undefined) {
  const { policy } = owner?.new_keys ?? {}
  return [
    { value: 'none', label: policy ? `as for new keys, ${policyOf({ policy })}` : 'none' },
    { value: 'own', label: 'written here' },
    { value: 'copy', label: 'copy of another key’s' },
  ]
}

/** What new keys get where nothing else is wanted, in words. */
function usualOf(settings: Owner['new_keys'] | undefined): readonly string[] {
  const { limits, models, deny_models: denied, policy, tag, cache } = settings ?? {}
  const { expires_in: seconds, log_content: kept, mask } = settings ?? {}
  const words = [
    limits && `at most ${limits.map((one) => valueOf(one)).join(', ')}`,
    models && `the models ${models.join(', ')}`,
    denied && `not the models ${denied.join(', ')}`,
    policy && `a policy of ${policyOf({ policy })}`,
    tag && `the tag ${tag}`,
    cache && `the answer cache ${CACHE_USES.find(({ value }) => value === cache)!.label}`,
    seconds && `an end after ${duration(seconds * 1000)}`,
    kept && 'contents of calls kept',
    mask && 'personal data masked for vendors',
  ]
  return words.filter((one) => typeof one === 'string')
}

/** One pattern stands ready; empty ones are left out. */
const NEW_POLICY: Policy = { version: 1, bannedPatterns: [''] }

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
  const [account, setAccount] = useState(given)
  const [name, setName] = useState('')
  const [limits, setLimits] = useState(() => textsOf([{ unit: 'usd', value: '' }]))
  const [team, setTeam] = useState('')
  const [models, setModels] = useState('')
  const [choice, setChoice] = useState('none')
  const [policy, setPolicy] = useState(NEW_POLICY)
  const [source, setSource] = useState('')
  const [more, setMore] = useState({ expires: '', tag: '', note: '', hash: '', cache: '' })
  const [flags, setFlags] = useState({ log_content: false, mask: false })
  const [missing, setMissing] = useState<string>()
  // The secret is in the component and nowhere else: leaving the dialog forgets it.
  const [made, setMade] = useState<{ readonly key: KeyRow; readonly secret: string }>()
  const set = (member: keyof typeof more) => (value: string) =>
    setMore({ ...more, [member]: value })
  const wanted = limits.filter(({ value }) => value.trim() !== '')
  const allowed = entriesOf(models)
  const settings = {
    ...(wanted.length > 0 && { limits: limitsOf(wanted) }),
    ...(team && { team_id: team }),
    ...(more.expires && { expires_at: `${more.expires}T00:00:00Z` }),
    ...(allowed.length > 0 && { models: allowed }),
    ...(choice === 'own' && { policy: withoutEmpty(policy) }),
    ...(more.tag && { tag: more.tag }),
    ...(more.cache && { cache: more.cache }),
    ...(flags.log_content && { log_content: true }),
    ...(flags.mask && { mask: true }),
  }
  const body = {
    name: name.trim(),
    ...settings,
    ...(more.note && { note: more.note }),
    ...(more.hash && { sha256: more.hash.trim() }),
  }
  const request = { method: 'POST', path: `/admin/accounts/${account}/keys`, body }
  const of = team ? `teams/${team}` : account && `accounts/${account}`
  const owner = useAnswer<{ data: Owner }>(of ? `/admin/${of}` : null).data?.data
  const form = useSubmission(async () => {
    if (name.trim() === '') return setMissing('name')
    if (account === '') return setMissing('account')
    setMissing(undefined)
    const copied = choice === 'copy' && { policy: await policyOfKey(source) }
    const answer = await send<{ data: KeyRow; key?: string }>({
      ...request,
      body: { ...body, ...copied },
    })
    onCreated()
    if (answer.key !== undefined) return setMade({ key: answer.data, secret: answer.key })
    onClose()
    go(to.key(answer.data.id))
  })
  if (made) {
    const leave = () => {
      const { id } = made.key
      setMade(undefined)
      onClose()
      go(to.key(id))
    }
    return html`<${SecretOnce} title=${`Key ${made.key.name}`} secret=${made.secret} onStored=${leave} />`
  }
  const { errorFor } = form
  const usual = usualOf(owner?.new_keys)
  const isOther = Object.values(more).some(Boolean) || flags.mask || flags.log_content
  const secret = more.hash ? { sha256: more.hash.trim() } : { secret: '${GATEWAY_KEY}' }
  const key = { id: slug(name), name: name.trim(), ...secret, ...settings }
  const entry = { seed: { accounts: [{ id: account, name: account, keys: [key] }] } }
  return html`<${Dialog} title="New key" wide onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      <div class="row">
        <${TextField} label="Name" value=${name} onInput=${setName} autofocus error=${missing === 'name' && name === '' ? 'A key needs a name, such as the program that uses it.' : errorFor('name')} />
        <${Choose} kind="account" label="Account" value=${account} known=${team ? undefined : (owner?.name ?? account)} onChoose=${setAccount} help="It pays for the calls." error=${missing === 'account' && account === '' ? 'Choose the account that pays.' : undefined} />
        <${Choose} kind="team" label="Team" value=${team} onChoose=${setTeam} of=${{ account: account || undefined }} placeholder="none" error=${errorFor('team_id')} />
      </div>
      ${usual.length > 0 && html`<${Notice}>New keys of <bdi>${owner!.name}</bdi> get what is left empty here: ${usual.join('; ')}.<//>`}
      <${LimitEditor} limits=${limits} onChange=${setLimits} none="None of its own: the defaults, or those for new keys." errorFor=${errorFor} />
      <${ModelsField} value=${models} onInput=${setModels} error=${errorFor('models')} empty=${owner?.new_keys?.models?.join(' ')} />
      <div class="row">
        <${SelectField} label="Policy" value=${choice} onChange=${setChoice} options=${policiesFor(owner)} />
        ${choice === 'copy' && html`<${Choose} kind="key" label="Key to copy from" value=${source} onChoose=${setSource} />`}
      </div>
      ${choice === 'own' && html`<${LazyPolicy} policy=${policy} send=${withoutEmpty(policy)} onChange=${setPolicy} />`}
      <details open=${isOther}>
        <summary>More: expiry, tag, contents, answer cache, masking, a hash</summary>
        <div class="form">
          <div class="row">
            <${TextField} label="Expires" type="date" value=${more.expires} onInput=${set('expires')} help="Start of that UTC day. Empty: never." error=${errorFor('expires_at')} />
            <${TextField} label="Tag" value=${more.tag} onInput=${set('tag')} help="Counts all its calls under this tag." error=${errorFor('tag')} />
            <${SelectField} label="Answer cache" value=${more.cache} onChange=${set('cache')} options=${CACHE_USES} />
          </div>
          <${TextField} label="Note" value=${more.note} onInput=${set('note')} rows=${2} most=${1000} error=${errorFor('note')} />
          <${CheckField} label="Contents of its calls may be kept" checked=${flags.log_content} onChange=${(on: boolean) => setFlags({ ...flags, log_content: on })} help="Only where the configuration allows that." />
          <${CheckField} label="Personal data is masked for vendors" checked=${flags.mask} onChange=${(on: boolean) => setFlags({ ...flags, mask: on })} help="It needs a guard with mask: keys in the configuration." error=${errorFor('mask')} />
          <${TextField} label="I have a hash (SHA-256)" value=${more.hash} onInput=${set('hash')} mono help="Of a key that was made elsewhere and keeps working. No secret is made then." error=${errorFor('sha256')} />
        </div>
      </details>
      <${FormEnd} form=${form} verb="Create key" right="keys" onClose=${onClose} request=${request} entry=${entry} />
    </form>
  <//>`
}

/** Use of stored answers by the calls of a key. */
export const CACHE_USES = [
  { value: '', label: 'as the model says' },
  { value: 'off', label: 'off' },
  { value: 'asked', label: 'where a call asks' },
  { value: 'on', label: 'on' },
]

const LazyPolicy = lazy(async () => (await import('./policy.ts')).PolicyFields)

/** A policy without patterns in which nothing was typed. */
function withoutEmpty({ bannedPatterns: patterns = [], ...others }: Policy): Policy {
  const filled = patterns.filter(Boolean)
  return filled.length > 0 ? { ...others, bannedPatterns: filled } : others
}

/** An id for a file, made of a name. */
function slug(name: string): string {
  return (
    name
      .trim()
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '-') || 'key'
  )
}

async function policyOfKey(id: string): Promise<Policy> {
  const { data } = await call<{ data: KeyRow }>('GET', `/admin/keys/${encodeURIComponent(id)}`)
  return data.policy ?? { version: 1 }
}
