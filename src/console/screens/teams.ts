/** Teams of an account: keys with limits, models and a switch in common. */
import { useState } from 'preact/hooks'
import { call, useAnswer, withQuery } from '../api.ts'
import type { TeamRow } from '../answers.ts'
import { html } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Confirm } from '../parts/confirm.ts'
import { Conflict, useChange } from '../parts/conflict.ts'
import { Diff } from '../parts/diff.ts'
import { Money } from '../parts/facts.ts'
import { CheckField, TextField, useSubmission } from '../parts/form.ts'
import { LimitEditor, Limits, limitsOf, textsOf } from '../parts/limits.ts'
import { Dialog } from '../parts/sheet.ts'
import { Answered, Empty, Failure } from '../parts/states.ts'
import { Table, type Column } from '../parts/table.ts'
import { place, setQuery } from '../state.ts'
import { entriesOf, ModelsField } from './models-field.ts'

const COLUMNS: readonly Column<TeamRow>[] = [
  { key: 'name', label: 'Name', cell: ({ name }) => name },
  { key: 'state', label: 'State', cell: ({ state }) => state, phone: 'figure' },
  { key: 'keys', label: 'Keys', cell: ({ key_count }) => key_count, end: true, phone: 'rest' },
  {
    key: 'spend',
    label: 'Spend this month',
    cell: ({ spend }) => html`<${Money} usd=${spend.month} />`,
    end: true,
    phone: 'rest',
  },
]

/** The teams, and the one that is open. */
export function Teams({ account, zone }: { readonly account: string; readonly zone: string }) {
  const answer = useAnswer<{ data: readonly TeamRow[] }>(withQuery('/admin/teams', { account }))
  const [creating, setCreating] = useState(false)
  const open = place.value.query.get('team')
  const close = () => {
    setCreating(false)
    answer.reload()
  }
  return html`<div class="screen">
    <div class="screen-head">
      <div class="screen-actions"><${Button} kind="primary" right="keys" onClick=${() => setCreating(true)}>New team<//></div>
    </div>
    <${Answered} of=${answer}>
      ${({ data }: { data: readonly TeamRow[] }) =>
        data.length === 0
          ? html`<${Empty} title="There are no teams yet."><p class="muted">A team has limits and models for all of its keys together.</p><//>`
          : html`<${Table} name="teams" caption="Teams" columns=${COLUMNS} rows=${data} idOf=${({ id }: TeamRow) => id} hrefOf=${({ id }: TeamRow) => withQuery(`/console/accounts/${account}/teams`, { team: id })} />`}
    <//>
    ${open && html`<${Team} key=${open} id=${open} zone=${zone} onChange=${answer.reload} />`}
    ${creating && html`<${NewTeam} account=${account} onClose=${close} />`}
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
  const [acting, setActing] = useState<'edit' | 'archive'>()
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
              html`<${Button} right="keys" onClick=${() => setActing('edit')}>Edit<//>
                <${Button} kind="danger" right="keys" onClick=${() => setActing('archive')}>Archive<//>`
            }
            <${Button} kind="quiet" onClick=${() => setQuery({ team: undefined })}>Close<//>
          </div>
        </header>
        <div class="panel-body">
          <${Limits}
            limits=${data.limit_status ?? []}
            zone=${zone}
            owners=${{ team: `/admin/teams/${id}`, account: `/admin/accounts/${data.account_id}` }}
            onChange=${answer.reload}
          />
        </div>
      </section>
      ${acting === 'edit' && html`<${EditTeam} row=${data} onClose=${() => setActing(undefined)} onDone=${done} />`}
      ${acting === 'archive' && html`<${ArchiveTeam} row=${data} onClose=${() => setActing(undefined)} onDone=${done} />`}`}
  <//>`
}

function NewTeam({ account, onClose }: { readonly account: string; readonly onClose: () => void }) {
  const [name, setName] = useState('')
  const form = useSubmission(async () => {
    await call('POST', `/admin/accounts/${account}/teams`, { body: { name: name.trim() } })
    onClose()
  })
  return html`<${Dialog} title="New team" onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      <${TextField} label="Name" value=${name} onInput=${setName} autofocus error=${form.errorFor('name')} help="Its limits and models are set in the next step." />
      ${form.error && form.error.param !== 'name' && html`<${Failure} error=${form.error} />`}
      <div class="actions">
        <${Button} kind="primary" type="submit" right="keys" busy=${form.busy}>Create team<//>
        <${Button} onClick=${onClose}>Cancel<//>
      </div>
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
  const { form, changes, versions } = useChange(`/admin/teams/${row.id}`, before, wanted, onDone)
  const { errorFor } = form
  return html`<${Dialog} title=${html`Settings of <bdi>${row.name}</bdi>`} wide onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      <${TextField} label="Name" value=${name} onInput=${setName} error=${errorFor('name')} />
      <${LimitEditor} limits=${limits} onChange=${setLimits} none="None." errorFor=${errorFor} />
      <${ModelsField} value=${models} onInput=${setModels} error=${errorFor('models')} />
      <${TextField} label="Denied models" value=${denied} onInput=${setDenied} mono placeholder="none" error=${errorFor('deny_models')} />
      <${TextField} label="Note" value=${note} onInput=${setNote} rows=${2} most=${1000} error=${errorFor('note')} />
      <${CheckField} label="Disabled" checked=${disabled} onChange=${setDisabled} help="Its keys are refused from the next call on." />
      <section><h3>What will change</h3><${Diff} changes=${changes} none="Nothing yet." /></section>
      ${form.error && html`<${Failure} error=${form.error} />`}
      ${versions && html`<${Conflict} ...${versions} />`}
      <div class="actions">
        <${Button} kind="primary" type="submit" right="keys" busy=${form.busy}>${versions ? 'Apply mine on top' : 'Save'}<//>
        <${Button} onClick=${onClose}>Cancel<//>
      </div>
    </form>
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
