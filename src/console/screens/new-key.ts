/** Making a key: its rights, and then its secret, once. */
import { useState } from 'preact/hooks'
import { call, useAnswer } from '../api.ts'
import type { AccountRow, KeyRow } from '../answers.ts'
import { html } from '../html.ts'
import { Button } from '../parts/button.ts'
import { CheckField, SelectField, TextField, useSubmission } from '../parts/form.ts'
import { LimitFields, limitsOf, textsOf } from '../parts/limits.ts'
import { SecretOnce } from '../parts/secret.ts'
import { Dialog } from '../parts/sheet.ts'
import { Failure } from '../parts/states.ts'
import { go } from '../state.ts'
import { entriesOf, ModelsField } from './models-field.ts'

/** The form, then the secret. @param account the account, where it is chosen already */
export function NewKey({
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
  const [limits, setLimits] = useState(textsOf({}))
  const [expires, setExpires] = useState('')
  const [models, setModels] = useState('')
  const [tag, setTag] = useState('')
  const [note, setNote] = useState('')
  const [content, setContent] = useState(false)
  const [policy, setPolicy] = useState('none')
  const [source, setSource] = useState('')
  const [hash, setHash] = useState('')
  const [missing, setMissing] = useState<string>()
  // In the component and nowhere else: leaving the dialog forgets it.
  const [made, setMade] = useState<{ readonly key: KeyRow; readonly secret: string }>()
  const chosen = account || accounts?.[0]?.id || ''
  const form = useSubmission(async () => {
    if (name.trim() === '') return setMissing('name')
    if (chosen === '') return setMissing('account')
    setMissing(undefined)
    const allowed = entriesOf(models)
    const body = {
      name: name.trim(),
      ...limitsOf(limits),
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
    /^(name|rpm_limit|concurrency_limit|spend_cap|expires_at|models|tag|note|sha256)/.test(
      form.error.param,
    )
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
      <${LimitFields} texts=${limits} onChange=${setLimits} none="default" errorFor=${errorFor} />
      <div class="row">
        <${TextField} label="Expires" type="date" value=${expires} onInput=${setExpires} help="Start of that UTC day. Empty: never." error=${errorFor('expires_at')} />
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
        <${Button} kind="primary" type="submit" role="admin" busy=${form.busy}>Create key<//>
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
