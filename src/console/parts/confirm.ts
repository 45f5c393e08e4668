/** Asks before an action that cannot be taken back. */
import { useState } from 'preact/hooks'
import { toApiError, type ApiError } from '../api.ts'
import { html, type Content } from '../html.ts'
import { Button } from './button.ts'
import { TextField } from './form.ts'
import { Dialog } from './sheet.ts'
import { Failure } from './states.ts'

/**
 * A question with one action.
 * @param typed text that the reader has to type first
 * @param reason a reason that the reader may change; with it the dialog asks for one
 * @param act the action; its error stays in the dialog
 */
export function Confirm({
  title,
  verb,
  typed,
  reason,
  danger = true,
  act,
  onClose,
  children,
}: {
  readonly title: string
  readonly verb: string
  readonly typed?: string
  readonly reason?: string
  readonly danger?: boolean
  readonly act: (reason: string) => Promise<void>
  readonly onClose: () => void
  readonly children?: Content
}) {
  const [text, setText] = useState('')
  const [why, setWhy] = useState(reason ?? '')
  const [missing, setMissing] = useState(false)
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError>()
  const submit = async (event: Event) => {
    event.preventDefault()
    if (busy) return
    if (typed !== undefined && text.trim() !== typed) return setMissing(true)
    if (reason !== undefined && why.trim() === '') return setMissing(true)
    setBusy(true)
    setError(undefined)
    try {
      await act(why.trim())
    } catch (thrown) {
      setError(toApiError(thrown))
      setBusy(false)
    }
  }
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form onSubmit=${submit} class="form">
      ${children}
      ${
        typed !== undefined &&
        html`<${TextField}
          label=${`Type ${typed} to confirm`}
          value=${text}
          onInput=${setText}
          error=${missing && text.trim() !== typed ? `This is not ${typed}.` : undefined}
        />`
      }
      ${
        reason !== undefined &&
        html`<${TextField} label="Reason" value=${why} onInput=${setWhy} autofocus error=${missing && why.trim() === '' ? 'It needs a reason.' : undefined} />`
      }
      ${error && html`<${Failure} error=${error} />`}
      <div class="actions">
        <${Button} kind=${danger ? 'danger-filled' : 'primary'} type="submit" busy=${busy}>
          ${verb}
        <//>
        <${Button} onClick=${onClose}>Cancel<//>
      </div>
    </form>
  <//>`
}
