/** Actions on an account: credits, corrections, settings, its end. */
import { useState } from 'preact/hooks'
import { call, toApiError, type ApiError } from '../api.ts'
import type { AccountRow } from '../answers.ts'
import { addAmounts, exactMoney, plainDecimal } from '../format.ts'
import { html } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Confirm } from '../parts/confirm.ts'
import { Conflict, useChange } from '../parts/conflict.ts'
import { Diff } from '../parts/diff.ts'
import { TextField, useSubmission } from '../parts/form.ts'
import { LimitFields, limitsOf, textsOf } from '../parts/limits.ts'
import { Dialog } from '../parts/sheet.ts'
import { Failure } from '../parts/states.ts'
import { toast } from '../parts/toast.ts'
import { allows } from '../state.ts'
import { keysOf } from './accounts.ts'

interface ActionProps {
  readonly row: AccountRow
  readonly onClose: () => void
  readonly onDone: () => void
}

/** Books money. The same reference books once, so that a repeated request is no second booking. */
export function AddCredits({ row, onClose, onDone }: ActionProps) {
  const [usd, setUsd] = useState('')
  const [reference, setReference] = useState(() => `console-${crypto.randomUUID().slice(0, 13)}`)
  const [note, setNote] = useState('')
  const after = sumWith(row.balance_usd, usd)
  const form = useSubmission(async () => {
    const body = { usd: usd.trim(), reference, ...(note && { note }) }
    const { data } = await call<{ data: { duplicate: boolean } }>(
      'POST',
      `/admin/accounts/${row.id}/credits`,
      { body },
    )
    toast(data.duplicate ? 'This reference was booked already' : `Added ${exactMoney(usd.trim())}`)
    onDone()
  })
  return html`<${Dialog} title=${html`Add credits to <bdi>${row.name}</bdi>`} onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      <${TextField} label="Amount, USD" value=${usd} onInput=${setUsd} placeholder="10.00" autofocus error=${form.errorFor('usd')} />
      <${TextField} label="Reference" value=${reference} onInput=${setReference} mono help="Booked once: repeating it changes nothing." error=${form.errorFor('reference')} />
      <${TextField} label="Note" value=${note} onInput=${setNote} error=${form.errorFor('note')} />
      <${BeforeAfter} before=${row.balance_usd} after=${after} />
      ${row.free_tier && html`<p class="help">The first credits end the free tier of this account, for good.</p>`}
      ${form.error && !['usd', 'reference', 'note'].includes(form.error.param ?? '') && html`<${Failure} error=${form.error} />`}
      <div class="actions">
        <${Button} kind="primary" type="submit" role="billing" busy=${form.busy}>Add credits<//>
        <${Button} onClick=${onClose}>Cancel<//>
      </div>
    </form>
  <//>`
}

export function Adjust({ row, onClose, onDone }: ActionProps) {
  const [usd, setUsd] = useState('')
  const [reason, setReason] = useState('')
  const [reference] = useState(() => `console-${crypto.randomUUID().slice(0, 13)}`)
  const [missing, setMissing] = useState(false)
  const form = useSubmission(async () => {
    if (reason.trim() === '') return setMissing(true)
    await call('POST', `/admin/accounts/${row.id}/adjust`, {
      body: { usd: usd.trim(), reason: reason.trim(), reference },
    })
    toast('Adjusted')
    onDone()
  })
  return html`<${Dialog} title=${html`Adjust <bdi>${row.name}</bdi>`} onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      <p>Rows of the ledger are never changed. A correction is a row of its own, with a reason.</p>
      <${TextField} label="Amount, USD" value=${usd} onInput=${setUsd} placeholder="-4.00" autofocus help="With a minus it is taken away." error=${form.errorFor('usd')} />
      <${TextField} label="Reason" value=${reason} onInput=${setReason} error=${missing && reason.trim() === '' ? 'A correction needs a reason.' : form.errorFor('reason')} />
      <${BeforeAfter} before=${row.balance_usd} after=${sumWith(row.balance_usd, usd)} />
      ${form.error && !['usd', 'reason'].includes(form.error.param ?? '') && html`<${Failure} error=${form.error} />`}
      <div class="actions">
        <${Button} kind="primary" type="submit" role="billing" busy=${form.busy}>Adjust<//>
        <${Button} onClick=${onClose}>Cancel<//>
      </div>
    </form>
  <//>`
}

export function EditAccount({ row, onClose, onDone }: ActionProps) {
  const [name, setName] = useState(row.name)
  const [limits, setLimits] = useState(textsOf(row))
  const [alert, setAlert] = useState(row.alert_below_usd ?? '')
  const [note, setNote] = useState(row.note ?? '')
  const wanted: Record<string, unknown> = {
    name: name.trim(),
    ...limitsOf(limits),
    alert_below_usd: alert.trim() || null,
    note: note || null,
  }
  const { form, changes, versions } = useChange(`/admin/accounts/${row.id}`, row, wanted, onDone)
  const { errorFor } = form
  return html`<${Dialog} title=${html`Settings of <bdi>${row.name}</bdi>`} wide onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      <${TextField} label="Name" value=${name} onInput=${setName} error=${errorFor('name')} disabled=${!allows('admin')} />
      <p class="help">These hold for all its keys together, beside the limits of each key.</p>
      <${LimitFields} texts=${limits} onChange=${setLimits} none="unlimited" errorFor=${errorFor} />
      <${TextField} label="Alert below, USD" value=${alert} onInput=${setAlert} placeholder="default" error=${errorFor('alert_below_usd')} />
      <${TextField} label="Note" value=${note} onInput=${setNote} rows=${2} most=${1000} error=${errorFor('note')} />
      <section><h3>What will change</h3><${Diff} changes=${changes} none="Nothing yet." /></section>
      ${form.error && html`<${Failure} error=${form.error} />`}
      ${versions && html`<${Conflict} ...${versions} />`}
      <div class="actions">
        <${Button} kind="primary" type="submit" role="billing" busy=${form.busy}>${versions ? 'Apply mine on top' : 'Save'}<//>
        <${Button} onClick=${onClose}>Cancel<//>
      </div>
    </form>
  <//>`
}

/** Refuses all keys of the account, or lets them work again. */
export function DisableAccount({ row, onClose, onDone }: ActionProps) {
  const act = async () => {
    await call('PATCH', `/admin/accounts/${row.id}`, {
      body: { disabled: !row.disabled },
      revision: row.revision ?? null,
    })
    onDone()
  }
  if (row.disabled) {
    return html`<${Confirm} title="Enable this account?" verb="Enable" danger=${false} act=${act} onClose=${onClose}>
      <p>Its ${keysOf(row)} keys work again from the next call on.</p>
    <//>`
  }
  return html`<${Confirm} title="Disable this account?" verb="Disable" typed=${row.name} act=${act} onClose=${onClose}>
    <p>Its ${keysOf(row)} keys are refused from the next call on, until it is enabled again.</p>
  <//>`
}

/** Refuses all keys of the account for good. */
export function ArchiveAccount({ row, onClose, onDone }: ActionProps) {
  const act = async () => {
    await call('DELETE', `/admin/accounts/${row.id}`, { revision: row.revision ?? null })
    onDone()
  }
  return html`<${Confirm} title="Archive this account?" verb="Archive account" typed=${row.name} act=${act} onClose=${onClose}>
    <p>Its ${keysOf(row)} keys are refused for good. Its rows, its balance (${exactMoney(row.balance_usd)}) and its statements stay.</p>
  <//>`
}

export function VerifyNow({ id }: { readonly id: string }) {
  const [state, setState] = useState<'idle' | 'busy' | 'ok' | 'wrong'>('idle')
  const [error, setError] = useState<ApiError>()
  const verify = async () => {
    setState('busy')
    setError(undefined)
    try {
      const { data } = await call<{ data: { ok: boolean } }>(
        'GET',
        `/admin/ledger/verify?account=${encodeURIComponent(id)}`,
      )
      setState(data.ok ? 'ok' : 'wrong')
    } catch (thrown) {
      setError(toApiError(thrown))
      setState('idle')
    }
  }
  return html`<span class="actions" aria-live="polite">
    ${state === 'ok' && html`<span class="ok">✓ sums equal their rows</span>`}
    ${state === 'wrong' && html`<span class="bad">✕ sums differ from their rows</span>`}
    ${error && html`<span class="bad">${error.message}</span>`}
    <${Button} busy=${state === 'busy'} onClick=${verify}>Verify now<//>
  </span>`
}

function BeforeAfter({
  before,
  after,
}: {
  readonly before: string
  readonly after: string | undefined
}) {
  return html`<p aria-live="polite">Balance <b class="number">${exactMoney(before)}</b> → <b class="number">${after === undefined ? '–' : exactMoney(after)}</b></p>`
}

/** The balance with an amount that is being typed; undefined while it is none. */
function sumWith(balance: string, typed: string): string | undefined {
  try {
    return addAmounts([balance, plainDecimal(typed.trim())])
  } catch {
    return undefined
  }
}
