/** Actions on a key: its settings, another secret, the end. */
import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import type { KeyRow } from '../answers.ts'
import { html } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Confirm } from '../parts/confirm.ts'
import { Conflict, useChange } from '../parts/conflict.ts'
import { Diff } from '../parts/diff.ts'
import { CheckField, TextField, useSubmission } from '../parts/form.ts'
import { LimitFields, limitsOf, textsOf } from '../parts/limits.ts'
import { SecretOnce } from '../parts/secret.ts'
import { Dialog } from '../parts/sheet.ts'
import { Failure } from '../parts/states.ts'
import { entriesOf, ModelsField } from './models-field.ts'

const DAY_S = 86_400
const MOST_DAYS = 30

interface ActionProps {
  readonly row: KeyRow
  readonly onClose: () => void
  readonly onDone: () => void
}

export function EditKey({ row, onClose, onDone }: ActionProps) {
  const [name, setName] = useState(row.name)
  const [limits, setLimits] = useState(textsOf(row))
  const [expires, setExpires] = useState(row.expires_at?.slice(0, 10) ?? '')
  const [models, setModels] = useState(row.models?.join(' ') ?? '')
  const [tag, setTag] = useState(row.tag ?? '')
  const [note, setNote] = useState(row.note ?? '')
  const [content, setContent] = useState(row.log_content ?? false)
  const allowed = entriesOf(models)
  const wanted: Record<string, unknown> = {
    name: name.trim(),
    ...limitsOf(limits),
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
  }
  const { form, changes, versions } = useChange(`/admin/keys/${row.id}`, row, wanted, onDone)
  const { errorFor } = form
  return html`<${Dialog} title=${`Settings of ${row.name}`} wide onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      <${TextField} label="Name" value=${name} onInput=${setName} error=${errorFor('name')} />
      <${LimitFields} texts=${limits} onChange=${setLimits} none="default" errorFor=${errorFor} />
      <div class="row">
        <${TextField} label="Expires" type="date" value=${expires} onInput=${setExpires} help="Start of that UTC day. Empty: never." error=${errorFor('expires_at')} />
        <${TextField} label="Tag" value=${tag} onInput=${setTag} error=${errorFor('tag')} />
      </div>
      <${ModelsField} value=${models} onInput=${setModels} error=${errorFor('models')} />
      <${TextField} label="Note" value=${note} onInput=${setNote} rows=${2} most=${1000} error=${errorFor('note')} />
      <${CheckField} label="Contents of its calls may be kept" checked=${content} onChange=${setContent} help="Only where the configuration allows that." />
      <section><h3>What will change</h3><${Diff} changes=${changes} none="Nothing yet." /></section>
      ${form.error && html`<${Failure} error=${form.error} />`}
      ${versions && html`<${Conflict} ...${versions} />`}
      <div class="actions">
        <${Button} kind="primary" type="submit" role="admin" busy=${form.busy}>${versions ? 'Apply mine on top' : 'Save'}<//>
        <${Button} onClick=${onClose}>Cancel<//>
      </div>
    </form>
  <//>`
}

/** Gives the key another secret; the previous one works for a while. */
export function RotateKey({ row, onClose, onDone }: ActionProps) {
  const [days, setDays] = useState(1)
  // In the component and nowhere else: leaving the dialog forgets it.
  const [secret, setSecret] = useState<string>()
  const until = new Date(Date.now() + days * DAY_S * 1000)
    .toISOString()
    .slice(0, 16)
    .replace('T', ' ')
  const form = useSubmission(async () => {
    const answer = await call<{ key: string }>('POST', `/admin/keys/${row.id}/rotate`, {
      body: { overlap: days * DAY_S },
      revision: row.revision ?? null,
    })
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
      <label class="field">
        <span><b>The secret of now works for ${days === 1 ? '1 more day' : `${days} more days`}</b></span>
        <input type="range" min="0" max=${MOST_DAYS} value=${days} aria-label="Days that the secret of now still works" onInput=${(event: Event) => setDays(Number((event.target as HTMLInputElement).value))} />
        <span class="help">${days === 0 ? 'It ends at once.' : `Until ${until} UTC.`} A secret of an earlier rotation ends at once.</span>
      </label>
      ${form.error && html`<${Failure} error=${form.error} />`}
      <div class="actions">
        <${Button} kind="primary" type="submit" role="admin" busy=${form.busy}>Rotate<//>
        <${Button} onClick=${onClose}>Cancel<//>
      </div>
    </form>
  <//>`
}

export function DisableKey({ row, onClose, onDone }: ActionProps) {
  const { id, name, start, disabled, revision = null } = row
  const act = async () => {
    await call('PATCH', `/admin/keys/${id}`, { body: { disabled: !disabled }, revision })
    onDone()
  }
  const verb = disabled ? 'Enable' : 'Disable'
  return html`<${Confirm} title=${`${verb} this key?`} verb=${`${verb} key`} danger=${!disabled} act=${act} onClose=${onClose}>
    <p>
      Programs that use <b>${name}</b> (<code>${start}…</code>)
      ${disabled ? ' work again from the next call on.' : ' are refused from the next call on, until it is enabled again.'}
    </p>
  <//>`
}

export function ArchiveKey({ row, onClose, onDone }: ActionProps) {
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
