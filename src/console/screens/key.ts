/** One key: its rights, its use, its policy. */
import { useMemo, useState } from 'preact/hooks'
import { perform, switchOf, useOpened } from '../acts.ts'
import { useAnswer, withQuery, call, to } from '../api.ts'
import type { KeyRow, ShownCall, UsageAnswer } from '../answers.ts'
import { MISSING, exactMoney, shortCount } from '../format.ts'
import { html, type Content } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Spark } from '../parts/bar.ts'
import { Button } from '../parts/button.ts'
import { copyText, Id } from '../parts/copy.ts'
import { Facts, Money, Tile, Time } from '../parts/facts.ts'
import { LimitEditor, Limits, limitsOf, textsOf } from '../parts/limits.ts'
import { spanOf } from '../parts/range.ts'
import { Answered, Notice } from '../parts/states.ts'
import { Tabs } from '../parts/tabs.ts'
import { Table, type Column } from '../parts/table.ts'
import { go, useTitle, type ScreenProps } from '../state.ts'
import { CACHE_USES, KeyState, policyOf } from './keys.ts'
import { CALL_COLUMNS, STATUS_COLUMN } from './outcome.ts'
import { PolicyEditor } from './policy.ts'
import { usageTable } from './usage-rows.ts'
import { Confirm } from '../parts/confirm.ts'
import { ChangeDialog, keySeed, useChange } from '../parts/conflict.ts'
import { Choose } from '../parts/choose.ts'
import { CheckField, FormEnd, SelectField, send, TextField, useSubmission } from '../parts/form.ts'
import { SecretOnce } from '../parts/secret.ts'
import { Dialog } from '../parts/sheet.ts'
import { entriesOf, ModelsField } from './models-field.ts'

const DAYS = '-30d'

const { at, model, tokens, total, cost } = CALL_COLUMNS
const LAST_CALLS: readonly Column<ShownCall>[] = [at, STATUS_COLUMN, model, tokens, total, cost]

export function Key({ params }: ScreenProps) {
  const { id = '', tab = 'overview' } = params
  const path = `/admin/keys/${id}`
  const answer = useAnswer<{ data: KeyRow }>(path)
  useKeys({ e: () => go(`/console/keys/${id}/policy`), c: () => void copyText(id) })
  useTitle(answer.data?.data.name, 'key')
  return html`<div class="screen">
    ${!answer.data && html`<h1 class="hidden">Key</h1>`}
    <${Answered} of=${answer} lines=${12}>
      ${({ data }: { data: KeyRow }) => html`<div class="screen">
        <header class="screen-head">
          <h1><a class="quiet" href=${`/console/accounts/${data.account_id}/overview`}>${data.account_id}</a> / ${data.name}</h1>
          <${KeyState} row=${data} />
          <${Id} id=${data.id} />
          <${Actions} row=${data} onChange=${answer.reload} />
        </header>
        <${Tabs} label="Parts of the key" current=${tab} tabs=${[
          'overview',
          'policy',
          'requests',
        ].map((key) => ({
          key,
          label:
            key === 'policy' ? `Policy (${policyOf(data)})` : key[0]!.toUpperCase() + key.slice(1),
          href: `/console/keys/${id}/${key}`,
        }))} />
        ${
          tab === 'policy'
            ? html`<${PolicyEditor} row=${data} onSaved=${(row: KeyRow) => answer.put({ data: { ...data, ...row } })} />`
            : tab === 'requests'
              ? html`<${Calls} id=${id} limit=${50} />`
              : html`<${Overview} row=${data} onChange=${answer.reload} />`
        }
      </div>`}
    <//>
  </div>`
}

function Overview({ row, onChange }: { readonly row: KeyRow; readonly onChange: () => void }) {
  const zone = row.time_zone ?? 'UTC'
  const owners = {
    key: `/admin/keys/${row.id}`,
    team: row.team_id && `/admin/teams/${row.team_id}`,
    account: `/admin/accounts/${row.account_id}`,
  }
  const path = useMemo(() => usagePath(row.id, Date.now()), [row.id])
  const usage = useAnswer<UsageAnswer>(path).data
  const course = (metric: 'cost_usd' | 'calls', label: string) =>
    usage &&
    html`<span>by UTC day</span>
      <${Spark} values=${usageTable(usage, metric).rows[0]?.values ?? []} label=${label} />`
  return html`<${Warnings} row=${row} />
    <div class="tiles">
      <${Tile} label="Spent this month" href=${withQuery('/console/usage', { key: row.id, from: 'month' })} note=${course('cost_usd', 'Spend by day, USD')}><${Money} usd=${row.spend?.month} /><//>
      <${Tile} label="Calls, 30 days" href=${to.requests({ key: row.id, from: usage?.range.from ?? DAYS, charged: 'true' })} counted=${usage?.totals.calls} note=${course('calls', 'Calls by day')}>${shortCount(usage?.totals.calls)}<//>
      <${Tile} label="Spent today" note=${zone}><${Money} usd=${row.spend?.day} /><//>
      <${Tile} label="Spent in all" note=${exactMoney(row.spend_usd)}><${Money} usd=${row.spend_usd} /><//>
      <${Tile} label="Running now" href=${withQuery('/console/requests', { key: row.id, running: 'true' })}>${row.running ?? MISSING}<//>
    </div>
    <div class="columns">
      <section class="panel" aria-label="Limits">
        <header><h2>Limits</h2></header>
        <div class="panel-body"><${Limits} limits=${row.limit_status ?? []} zone=${zone} owners=${row.archived_at ? {} : owners} onChange=${onChange} /></div>
      </section>
      <section class="panel" aria-label="Settings">
        <header><h2>Settings</h2></header>
        <div class="panel-body"><${Facts} facts=${settingsOf(row)} /></div>
      </section>
    </div>
    <section class="stack" aria-label="Last refusals">
      <h2>Last refusals</h2>
      <${Calls} id=${row.id} limit=${5} refused />
    </section>`
}

function usagePath(key: string, now: number): string {
  const { from } = spanOf(new URLSearchParams({ from: DAYS }), undefined, now)
  return withQuery('/admin/usage', { key, from, rollup: 'day' })
}

function settingsOf(row: KeyRow): (readonly [string, Content])[] {
  return [
    ['Begins with', html`<code>${row.start}…</code>`],
    ['Created', html`<${Time} at=${row.created_at} />`],
    ['Expires', row.expires_at ? html`<${Time} at=${row.expires_at} />` : 'never'],
    [
      'Models',
      row.models ? html`<span class="mono">${row.models.join(', ') || 'none'}</span>` : 'all',
    ],
    ['Policy', html`<a href=${`/console/keys/${row.id}/policy`}>${policyOf(row)}</a>`],
    ['Team', row.team_id ?? 'none'],
    ['Denied models', html`<span class="mono">${row.deny_models?.join(', ') ?? 'none'}</span>`],
    ['Tag', row.tag ?? 'from each request'],
    ['Personal data', row.mask ? 'masked for vendors' : 'not masked by the key'],
    ['Contents', row.log_content ? 'kept, where the configuration allows it' : 'not kept'],
    ['Note', row.note ?? 'none'],
    ...(row.previous_secret
      ? [
          [
            'Secret before',
            html`<code>${row.previous_secret.start}…</code> works until <${Time} at=${row.previous_secret.until} />`,
          ] as const,
        ]
      : []),
  ]
}

function Warnings({ row }: { readonly row: KeyRow }) {
  if (!row.warnings || row.warnings.length === 0) return null
  return html`<${Notice} tone="warn">
    <ul>${row.warnings.map((one) => html`<li key=${one.message}>${one.message}</li>`)}</ul>
  <//>`
}

function Actions({ row, onChange }: { readonly row: KeyRow; readonly onChange: () => void }) {
  const [open, setOpen] = useOpened()
  const close = () => setOpen(undefined)
  const done = () => {
    close()
    onChange()
  }
  const state = row.disabled ? 'disabled' : 'active'
  const disable = switchOf({ kind: 'key', id: row.id, name: row.name, state }, '/admin/keys')
  if (row.archived_at)
    return html`<span class="muted">archived <${Time} at=${row.archived_at} /></span>`
  return html`<div class="screen-actions">
    <${Button} right="keys" onClick=${() => setOpen('edit')}>Edit<//>
    <${Button} right="keys" onClick=${() => perform(disable)}>${disable.verb}<//>
    <${Button} right="keys" onClick=${() => setOpen('rotate')}>Rotate<//>
    <a class="button" href=${withQuery('/console/play', { key: row.id })}>Play</a>
    <${Button} kind="danger" right="keys" onClick=${() => setOpen('archive')}>Archive<//>
    ${open === 'edit' && html`<${EditKey} row=${row} onClose=${close} onDone=${done} />`}
    ${(open === 'rotate' || open === 'leaked') && html`<${RotateKey} row=${row} leaked=${open === 'leaked'} onClose=${close} onDone=${done} />`}
    ${open === 'archive' && html`<${ArchiveKey} row=${row} onClose=${close} onDone=${done} />`}
  </div>`
}

/** Ends of calls that got no answer of a model for a reason that the key or its caller can change. */
const REFUSED = ['blocked', 'limited', 'rejected']

function Calls({
  id,
  limit,
  refused = false,
}: {
  readonly id: string
  readonly limit: number
  readonly refused?: boolean
}) {
  const filter = (more: Readonly<Record<string, string>>) =>
    new URLSearchParams([
      ['key', id],
      ...(refused ? REFUSED.map((end): [string, string] => ['end', end]) : []),
      ...Object.entries(more),
    ])
  const answer = useAnswer<{ data: readonly ShownCall[] }>(
    withQuery('/admin/requests', filter({ limit: `${limit}` })),
  )
  return html`<${Answered} of=${answer} lines=${limit > 5 ? 10 : 3}>
    ${({ data }: { data: readonly ShownCall[] }) =>
      data.length === 0
        ? html`<p class="muted">${refused ? 'No call of this key was refused.' : 'This key has made no call yet.'}</p>`
        : html`<div class="stack">
            <${Table}
              name="calls"
              caption=${refused ? 'Refused calls' : 'Calls'}
              columns=${LAST_CALLS}
              rows=${data}
              idOf=${(row: ShownCall) => row.id}
              hrefOf=${(row: ShownCall) => withQuery('/console/requests', { key: id, open: row.id })}
            />
            <p><a href=${withQuery('/console/requests', filter({ from: '-30d' }))}>All of them</a></p>
          </div>`}
  <//>`
}

// Actions on a key: its settings, another secret, the end.

const DAY_S = 86_400
const MOST_DAYS = 30

interface ActionProps {
  readonly row: KeyRow
  readonly onClose: () => void
  readonly onDone: () => void
}

function EditKey({ row, onClose, onDone }: ActionProps) {
  const [name, setName] = useState(row.name)
  const [limits, setLimits] = useState(textsOf(row.limits))
  const [denied, setDenied] = useState(row.deny_models?.join(' ') ?? '')
  const [team, setTeam] = useState(row.team_id ?? '')
  const [expires, setExpires] = useState(row.expires_at?.slice(0, 10) ?? '')
  const [models, setModels] = useState(row.models?.join(' ') ?? '')
  const [tag, setTag] = useState(row.tag ?? '')
  const [note, setNote] = useState(row.note ?? '')
  const [content, setContent] = useState(row.log_content ?? false)
  const [mask, setMask] = useState(row.mask ?? false)
  const [cache, setCache] = useState<string>(row.cache ?? '')
  const allowed = entriesOf(models)
  const wanted: Record<string, unknown> = {
    name: name.trim(),
    limits: limitsOf(limits),
    team_id: team.trim() || null,
    deny_models: denied.trim() === '' ? null : entriesOf(denied),
    expires_at:
      expires === ''
        ? null
        : expires === row.expires_at?.slice(0, 10)
          ? row.expires_at
          : `${expires}T00:00:00.000Z`,
    models: allowed.length > 0 ? allowed : null,
    tag: tag || null,
    note: note || null,
    log_content: content,
    mask,
    cache: cache || null,
  }
  const changing = useChange(
    `/admin/keys/${row.id}`,
    { ...row, limits: limitsOf(textsOf(row.limits)) },
    wanted,
    onDone,
  )
  const { errorFor } = changing.form
  return html`<${ChangeDialog} title=${`Settings of ${row.name}`} right="keys" changing=${changing} entry=${keySeed(row, wanted)} onClose=${onClose}>
    <${TextField} label="Name" value=${name} onInput=${setName} autofocus error=${errorFor('name')} />
    <${LimitEditor} limits=${limits} onChange=${setLimits} none="None of its own: the defaults for requests a minute and calls at once." errorFor=${errorFor} />
    <div class="row">
      <${Choose} kind="team" label="Team" value=${team} onChoose=${setTeam} of=${{ account: row.account_id }} placeholder="none" help="A team of its account." error=${errorFor('team_id')} />
      <${TextField} label="Denied models" value=${denied} onInput=${setDenied} mono placeholder="none" error=${errorFor('deny_models')} />
    </div>
    <div class="row">
      <${TextField} label="Expires" type="date" value=${expires} onInput=${setExpires} help="Start of that UTC day. Empty: never." error=${errorFor('expires_at')} />
      <${TextField} label="Tag" value=${tag} onInput=${setTag} error=${errorFor('tag')} />
      <${SelectField} label="Answer cache" value=${cache} onChange=${setCache} options=${CACHE_USES} />
    </div>
    <${ModelsField} value=${models} onInput=${setModels} error=${errorFor('models')} />
    <${TextField} label="Note" value=${note} onInput=${setNote} rows=${2} most=${1000} error=${errorFor('note')} />
    <${CheckField} label="Contents of its calls may be kept" checked=${content} onChange=${setContent} help="Only where the configuration allows that." />
    <${CheckField} label="Personal data is masked for vendors" checked=${mask} onChange=${setMask} help="It needs a guard with mask: keys in the configuration." error=${errorFor('mask')} />
  <//>`
}

/** Gives the key another secret; the previous one works for a while. */
/** @param leaked whether the present secret ends at once */
function RotateKey({ row, leaked, onClose, onDone }: ActionProps & { readonly leaked: boolean }) {
  const [days, setDays] = useState(leaked ? 0 : 1)
  // The secret is in the component and nowhere else: leaving the dialog forgets it.
  const [secret, setSecret] = useState<string>()
  const until = new Date(Date.now() + days * DAY_S * 1000)
    .toISOString()
    .slice(0, 16)
    .replace('T', ' ')
  const request = {
    method: 'POST',
    path: `/admin/keys/${row.id}/rotate`,
    body: { overlap: days * DAY_S },
    revision: row.revision ?? null,
  }
  const form = useSubmission(async () => {
    const answer = await send<{ key: string }>(request)
    setSecret(answer.key)
  })
  if (secret !== undefined) {
    const leave = () => {
      setSecret(undefined)
      onDone()
    }
    return html`<${SecretOnce} title=${`New secret of ${row.name}`} secret=${secret} onStored=${leave} />`
  }
  return html`<${Dialog} title=${`Rotate ${row.name}`} onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      <p>The key gets another secret. Its id, limits, policy and history stay.</p>
      ${row.disabled && html`<${Notice} tone="warn">This key is disabled: its new secret is refused too, until the key is enabled.<//>`}
      ${row.expires_at !== null && Date.parse(row.expires_at) < Date.now() && html`<${Notice} tone="warn">This key has expired: its new secret is refused too, until its expiry is moved.<//>`}
      <label class="field">
        <span><b>The present secret works for ${days === 1 ? '1 more day' : `${days} more days`}</b></span>
        <input type="range" min="0" max=${MOST_DAYS} value=${days} aria-label="Days that the present secret still works" onInput=${(event: Event) => setDays(Number((event.target as HTMLInputElement).value))} />
        <span class="help">${days === 0 ? 'It ends at once.' : `Until ${until} UTC.`} A secret of an earlier rotation ends at once.</span>
      </label>
      <${FormEnd} form=${form} verb=${days === 0 ? 'End it now, and rotate' : 'Rotate'} right="keys" onClose=${onClose} request=${request} />
    </form>
  <//>`
}

function ArchiveKey({ row, onClose, onDone }: ActionProps) {
  const archive = async () => {
    await call('DELETE', `/admin/keys/${row.id}`, { revision: row.revision ?? null })
    onDone()
  }
  return html`<${Confirm} title="Archive this key?" verb="Archive key" typed=${row.name} act=${archive} onClose=${onClose}>
    <p>
      Programs that use <b>${row.name}</b> (<code>${row.start}…</code>) are refused from the next call on, for good.
      Its calls and charges stay. To stop it for a while, disable it instead.
    </p>
  <//>`
}
