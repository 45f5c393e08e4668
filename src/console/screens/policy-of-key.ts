/** Chooses a key that has a policy, to copy or compare with it. */
import { useState } from 'preact/hooks'
import { call, useAnswer } from '../api.ts'
import type { KeyRow, Policy } from '../answers.ts'
import { html } from '../html.ts'
import { Button } from '../parts/button.ts'
import { SelectField, TextField, useSubmission } from '../parts/form.ts'
import { Dialog } from '../parts/sheet.ts'
import { Failure } from '../parts/states.ts'

/** @param onChosen gets the policy, with the name of its key */
export function PolicyOfKey({
  title,
  verb,
  help,
  onClose,
  onChosen,
}: {
  readonly title: string
  readonly verb: string
  readonly help: string
  readonly onClose: () => void
  readonly onChosen: (policy: Policy, name: string) => void
}) {
  const [id, setId] = useState('')
  const [wrong, setWrong] = useState<string>()
  const keys = useAnswer<{ data: readonly KeyRow[] }>('/admin/keys?policy=any&sort=name&limit=200')
  const form = useSubmission(async () => {
    if (id.trim() === '') return setWrong('Choose a key, or enter its id.')
    const { data } = await call<{ data: KeyRow }>(
      'GET',
      `/admin/keys/${encodeURIComponent(id.trim())}`,
    )
    if (!data.policy) return setWrong('That key has no policy.')
    onChosen(data.policy, `${data.account_id}/${data.name}`)
    onClose()
  })
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      <${SelectField}
        label="Keys with a policy"
        value=${id}
        onChange=${setId}
        options=${[
          { value: '', label: keys.data ? 'choose one' : '…' },
          ...(keys.data?.data ?? []).map((one) => ({
            value: one.id,
            label: `${one.account_id}/${one.name}`,
          })),
        ]}
      />
      <${TextField}
        label=${`Key to ${verb.toLowerCase()}`}
        value=${id}
        onInput=${setId}
        mono
        placeholder="key_…"
        error=${wrong}
        autofocus
        help=${help}
      />
      ${form.error && html`<${Failure} error=${form.error} />`}
      <div class="actions">
        <${Button} kind="primary" type="submit" busy=${form.busy}>${verb}<//>
      </div>
    </form>
  <//>`
}
