/** Teams of an account: keys with limits, models and a switch in common. */
import { useState } from 'preact/hooks'
import { call, useAnswer, withQuery } from '../api.ts'
import type { TeamRow } from '../answers.ts'
import { html } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Button } from '../parts/button.ts'
import { Confirm } from '../parts/confirm.ts'
import { ChangeDialog, seedOf, useChange } from '../parts/conflict.ts'
import { Copy } from '../parts/copy.ts'
import { CheckField, FormEnd, send, TextField, useSubmission } from '../parts/form.ts'
import { LimitEditor, Limits, limitsOf, textsOf } from '../parts/limits.ts'
import { Dialog } from '../parts/sheet.ts'
import { Answered, Empty } from '../parts/states.ts'
import { amounts, Table, type Column } from '../parts/table.ts'
import { allows, place, setQuery } from '../state.ts'
import { entriesOf, ModelsField } from './models-field.ts'

const COLUMNS: readonly Column<TeamRow>[] = [
  { key: 'name', label: 'Name', cell: ({ name }) => name },
  { key: 'state', label: 'State', cell: ({ state }) => state, phone: 'figure' },
  { key: 'keys', label: 'Keys', cell: ({ key_count }) => key_count, end: true, phone: 'rest' },
  amounts(({ spend }) => spend.month, {
    key: 'spend',
    label: 'Spend this month',
    phone: 'rest',
  }),
]

/** The teams, and the one that is open. */
export function Teams({ account, zone }: { readonly account: string; readonly zone: string }) {
  const answer = useAnswer<{ data: readonly TeamRow[] }>(withQuery('/admin/teams', { account }))
  const [creating, setCreating] = useState(false)
  const open = place.value.query.get('team')
  useKeys({ n: () => allows('keys') && setCreating(true) })
  const done = (id: string) => {
    setCreating(false)
    answer.reload()
    setQuery({ team: id })
  }
  return html`<div class="screen">
    <div class="screen-head">
      <div class="screen-actions"><${Button} kind="primary" right="keys" onClick=${() => setCreating(true)}>New team<//></div>
    </div>
    <${Answered} of=${answer}>
      ${({ data }: { data: readonly TeamRow[] }) =>
        data.length === 0
          ? html`<${Empty} title="There are no teams yet."><p class="muted">A team has limits and models for all of its keys together.</p><//>`
          : html`<${Table} name="teams" caption="Teams" columns=${COLUMNS} rows=${data} whole idOf=${({ id }: TeamRow) => id} hrefOf=${({ id }: TeamRow) => withQuery(`/console/accounts/${account}/teams`, { team: id })} />`}
    <//>
    ${open && html`<${Team} key=${open} id=${open} zone=${zone} onChange=${answer.reload} />`}
    ${creating && html`<${NewTeam} account=${account} onClose=${() => setCreating(false)} onDone=${done} />`}
  </div>`
}

function Team({
  id,
  zone,
  onChange,
}: {
  readonly id: string
  readonly zone: string
  readonly onChange: () => void
}) {
  const answer = useAnswer<{ data: TeamRow }>(`/admin/teams/${id}`)
  const [acting, setActing] = useState<'edit' | 'archive' | 'invite'>()
  useKeys({ i: () => allows('keys') && setActing('invite') })
  const done = () => {
    setActing(undefined)
    answer.reload()
    onChange()
  }
  return html`<${Answered} of=${answer}>
    ${({ data }: { data: TeamRow }) => html`<section class="panel" aria-label=${data.name}>
        <header>
          <h2><bdi>${data.name}</bdi></h2>
          <div class="actions">
            <a class="button" href=${withQuery('/console/keys', { team: id })}>Its keys</a>
            <a class="button" href=${withQuery('/console/usage', { team: id, from: 'month' })}>Usage</a>
            ${
              !data.archived_at &&
              html`<${Button} right="keys" onClick=${() => setActing('invite')}>Invite<//>
                <${Button} right="keys" onClick=${() => setActing('edit')}>Edit<//>
                <${Button} kind="danger" right="keys" onClick=${() => setActing('archive')}>Archive<//>`
            }
            <${Button} kind="quiet" onClick=${() => setQuery({ team: undefined })}>Close<//>
          </div>
        </header>
        <div class="panel-body">
          <${Limits}
            limits=${data.limit_status ?? []}
            zone=${zone}
            owners=${data.archived_at ? {} : { team: `/admin/teams/${id}`, account: `/admin/accounts/${data.account_id}` }}
            onChange=${answer.reload}
          />
        </div>
      </section>
      ${acting === 'invite' && html`<${Invite} team=${data} onClose=${() => setActing(undefined)} />`}
      ${acting === 'edit' && html`<${EditTeam} row=${data} onClose=${() => setActing(undefined)} onDone=${done} />`}
      ${acting === 'archive' && html`<${ArchiveTeam} row=${data} onClose=${() => setActing(undefined)} onDone=${done} />`}`}
  <//>`
}

/** The name of a team and its limits; a row for one stands ready. */
function NewTeam({
  account,
  onClose,
  onDone,
}: {
  readonly account: string
  readonly onClose: () => void
  readonly onDone: (id: string) => void
}) {
  const [name, setName] = useState('')
  const [limits, setLimits] = useState(() => textsOf([{ unit: 'usd', value: '' }]))
  const [models, setModels] = useState('')
  const wanted = limits.filter(({ value }) => value.trim() !== '')
  const allowed = entriesOf(models)
  const settings = {
    name: name.trim(),
    ...(wanted.length > 0 && { limits: limitsOf(wanted) }),
    ...(allowed.length > 0 && { models: allowed }),
  }
  const request = { method: 'POST', path: `/admin/accounts/${account}/teams`, body: settings }
  const form = useSubmission(async () => {
    const { data } = await send<{ data: TeamRow }>(request)
    onDone(data.id)
  })
  const { errorFor } = form
  const entry = { seed: { accounts: [{ id: account, name: account, teams: [settings] }] } }
  return html`<${Dialog} title="New team" wide onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      <${TextField} label="Name" value=${name} onInput=${setName} autofocus error=${errorFor('name')} />
      <${LimitEditor} limits=${limits} onChange=${setLimits} none="None." errorFor=${errorFor} />
      <${ModelsField} value=${models} onInput=${setModels} error=${errorFor('models')} />
      <${FormEnd} form=${form} verb="Create team" right="keys" onClose=${onClose} request=${request} entry=${entry} />
    </form>
  <//>`
}

/** Invites a person to a team. The link is shown once: the gateway sends no mail. */
function Invite({ team, onClose }: { readonly team: TeamRow; readonly onClose: () => void }) {
  const [name, setName] = useState('')
  const [link, setLink] = useState<string>()
  const body = { account: team.account_id, team: team.id, name: name.trim() }
  const request = { method: 'POST', path: '/admin/members', body }
  const form = useSubmission(async () => {
    const answer = await send<{ link: string }>(request)
    setLink(new URL(answer.link, location.origin).href)
  })
  if (link !== undefined)
    return html`<${Dialog} title=${html`Link for <bdi>${name.trim()}</bdi>`} onClose=${onClose}>
      <p>It is shown only now, and works once. Send it yourself: the gateway sends no mail.</p>
      <div class="secret"><code class="mono" tabindex="0">${link}</code><${Copy} text=${link} label="Copy link" /></div>
      <div class="actions"><${Button} kind="primary" onClick=${onClose}>Done<//></div>
    <//>`
  return html`<${Dialog} title=${html`Invite to <bdi>${team.name}</bdi>`} onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      <${TextField} label="Name" value=${name} onInput=${setName} autofocus error=${form.errorFor('name')} />
      <${FormEnd} form=${form} verb="Invite" right="keys" onClose=${onClose} request=${request} />
    </form>
  <//>`
}

interface ActionProps {
  readonly row: TeamRow
  readonly onClose: () => void
  readonly onDone: () => void
}

function EditTeam({ row, onClose, onDone }: ActionProps) {
  const [name, setName] = useState(row.name)
  const [limits, setLimits] = useState(textsOf(row.limits))
  const [models, setModels] = useState(row.models?.join(' ') ?? '')
  const [denied, setDenied] = useState(row.deny_models?.join(' ') ?? '')
  const [disabled, setDisabled] = useState(row.disabled)
  const [note, setNote] = useState(row.note ?? '')
  const listOf = (text: string) => (text.trim() === '' ? null : entriesOf(text))
  const wanted: Record<string, unknown> = {
    name: name.trim(),
    limits: limitsOf(limits),
    models: listOf(models),
    deny_models: listOf(denied),
    disabled,
    note: note || null,
  }
  const before = { ...row, limits: limitsOf(textsOf(row.limits)) }
  const changing = useChange(`/admin/teams/${row.id}`, before, wanted, onDone)
  const { errorFor } = changing.form
  return html`<${ChangeDialog} title=${html`Settings of <bdi>${row.name}</bdi>`} right="keys" changing=${changing} entry=${{ seed: { accounts: [{ id: row.account_id, name: row.account_id, teams: [{ id: row.id, ...seedOf({ ...wanted, disabled: null }) }] }] } }} onClose=${onClose}>
    <${TextField} label="Name" value=${name} onInput=${setName} error=${errorFor('name')} />
    <${LimitEditor} limits=${limits} onChange=${setLimits} none="None." errorFor=${errorFor} />
    <${ModelsField} value=${models} onInput=${setModels} error=${errorFor('models')} />
    <${TextField} label="Denied models" value=${denied} onInput=${setDenied} mono placeholder="none" error=${errorFor('deny_models')} />
    <${TextField} label="Note" value=${note} onInput=${setNote} rows=${2} most=${1000} error=${errorFor('note')} />
    <${CheckField} label="Disabled" checked=${disabled} onChange=${setDisabled} help="Its keys are refused from the next call on." />
  <//>`
}

function ArchiveTeam({ row, onClose, onDone }: ActionProps) {
  const act = async () => {
    await call('DELETE', `/admin/teams/${row.id}`, { revision: row.revision })
    onDone()
  }
  return html`<${Confirm} title="Archive this team?" verb="Archive team" typed=${row.name} act=${act} onClose=${onClose}>
    <p>Its ${row.key_count} keys are archived with it and refused for good. Their calls and charges stay.</p>
  <//>`
}
