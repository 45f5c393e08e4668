/** What a member of an account does on its page: keys within the ceilings of its place, and for those who manage it people and statements. */
import { useState } from 'preact/hooks'
import { call, toApiError, useAnswer, withQuery, type ApiError } from '../api.ts'
import { at } from '../base.ts'
import { duration, wholeDecimals } from '../format.ts'
import { html } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Confirm } from '../parts/confirm.ts'
import { Copy } from '../parts/copy.ts'
import { Money } from '../parts/facts.ts'
import { CheckField, FormEnd, TextField, useSubmission } from '../parts/form.ts'
import { Heads } from '../parts/heads.ts'
import { LimitEditor, limitsOf, textsOf, valueOf } from '../parts/limits.ts'
import { Panel } from '../parts/panel.ts'
import { Dialog } from '../parts/sheet.ts'
import { Answered, Empty, Failure, Notice } from '../parts/states.ts'
import { entriesOf } from './models-field.ts'
import type { KeyRow } from '../answers.ts'
import type { Read } from '../amounts.ts'
import type { memberView } from '../../server/admin/resources/member.ts'
import type { StatementEntry } from '../../server/admin/resources/statement.ts'

interface Place {
  readonly member_id: string
  readonly account_id: string
  readonly current: boolean
}

export interface MemberSession {
  readonly account_id: string
  readonly member_id: string
  readonly team_id: string | null
  readonly manages: boolean
  readonly name: string
  readonly places: readonly Place[]
}

/** A provider to sign in by. */
export interface SignInWay {
  readonly name: string
  readonly label: string
}

/** Who is signed in, or how to. */
export interface MemberAnswer {
  readonly data: MemberSession | null
  readonly sign_in?: { readonly providers: readonly SignInWay[] }
}

export async function acceptInvitation(ticket: string): Promise<void> {
  await call('POST', '/me/api/session', { body: { ticket } })
}

type OwnKey = Pick<
  KeyRow,
  'id' | 'name' | 'start' | 'disabled' | 'limits' | 'models' | 'expires_at' | 'revision'
> & {
  readonly owner?: string | null
}

/** What the place of a member allows for its keys. */
interface Ceilings {
  readonly member_keys: number
  readonly new_keys: {
    readonly limits?: KeyRow['limits']
    readonly models?: readonly string[]
    readonly expires_in?: number
  } | null
}

/** The keys that a member sees: its own, and with `manages` all of its place. */
export function MemberKeys({ member }: { readonly member: MemberSession }) {
  const keys = useAnswer<{ data: readonly OwnKey[] }>('/me/api/keys')
  const place = useAnswer<{ data: Ceilings }>('/me/api/place').data?.data
  const [secret, setSecret] = useState<string>()
  const [error, setError] = useState<ApiError>()
  const [rotating, setRotating] = useState<OwnKey>()
  const [editing, setEditing] = useState<OwnKey | 'new'>()
  const act = (method: string, path: string, body: object) =>
    call<{ key?: string }>(method, `/me/api/keys${path}`, { body }).then(
      ({ key }) => {
        setError(undefined)
        if (key !== undefined) setSecret(key)
        keys.reload()
      },
      (thrown: unknown) => setError(toApiError(thrown)),
    )
  const done = (made?: string) => {
    setEditing(undefined)
    if (made !== undefined) setSecret(made)
    keys.reload()
  }
  return html`<div class="screen-head"><div class="screen-actions"><${Button} kind="primary" onClick=${() => setEditing('new')}>New key<//></div></div>
    ${error && html`<${Failure} error=${error} />`}
    ${secret && html`<${Notice} tone="warn">The secret is shown only now: <code>${secret}</code> <${Copy} text=${secret} label="Copy key" /><//>`}
    <${Answered} of=${keys}>
      ${({ data }: { data: readonly OwnKey[] }) =>
        data.length === 0
          ? html`<${Empty} title="You have no keys yet."><p class="muted">${ceilingsOf(place)}</p><//>`
          : html`<${Panel} title="Keys">
              <table class="plain ruled stacked">
                <${Heads} names=${['Name', 'Begins with', 'Models', 'State', 'Acts']} />
                <tbody>
                  ${data.map((one) => {
                    const isOwn = one.owner === member.member_id
                    return html`<tr key=${one.id}>
                      <th scope="row"><bdi>${one.name}</bdi>${isOwn ? '' : html` <span class="muted">of another member</span>`}</th>
                      <td data-label="begins with"><code>${one.start}…</code></td>
                      <td data-label="models" class="mono">${one.models?.join(', ') ?? 'all'}</td>
                      <td data-label="state">${one.disabled ? 'disabled' : 'active'}</td>
                      <td class="end">
                        ${isOwn && html`<${Button} onClick=${() => setEditing(one)}>Narrow<//> <${Button} onClick=${() => setRotating(one)}>Rotate<//> `}
                        ${(isOwn || !one.disabled) && html`<${Button} onClick=${() => act('PATCH', `/${one.id}`, { disabled: !one.disabled })}>${one.disabled ? 'Enable' : 'Disable'}<//>`}
                      </td>
                    </tr>`
                  })}
                </tbody>
              </table>
            <//>`}
    <//>
    ${editing !== undefined && html`<${KeyForm} row=${editing === 'new' ? undefined : editing} place=${place} onClose=${() => setEditing(undefined)} onDone=${done} />`}
    ${
      rotating &&
      html`<${Confirm}
        title=${`Rotate ${rotating.name}?`}
        verb="Rotate"
        danger=${false}
        act=${async () => {
          await act('POST', `/${rotating.id}/rotate`, {})
          setRotating(undefined)
        }}
        onClose=${() => setRotating(undefined)}
      >
        <p>It gets a new secret, which is shown once. The old one works for a day.</p>
      <//>`
    }`
}

/** The most that the place allows, in words. */
function ceilingsOf(place: Ceilings | undefined): string {
  if (!place) return ''
  const { limits, models, expires_in: seconds } = place.new_keys ?? {}
  const most = (limits ?? []).map((one) => valueOf(one))
  return [
    `At most ${place.member_keys} keys.`,
    most.length > 0 && `Each at most ${most.join(', ')}.`,
    models && `Of the models ${models.join(', ')}.`,
    seconds && `Each ends after ${duration(seconds * 1000)}, or earlier.`,
  ]
    .filter(Boolean)
    .join(' ')
}

/** A key is made, or narrowed, within what the place allows. */
function KeyForm({
  row,
  place,
  onClose,
  onDone,
}: {
  readonly row: OwnKey | undefined
  readonly place: Ceilings | undefined
  readonly onClose: () => void
  readonly onDone: (secret?: string) => void
}) {
  const [name, setName] = useState(row?.name ?? '')
  const [limits, setLimits] = useState(() => textsOf(row?.limits))
  const [models, setModels] = useState(row?.models?.join(' ') ?? '')
  const [expires, setExpires] = useState(row?.expires_at?.slice(0, 10) ?? '')
  const allowed = entriesOf(models)
  const form = useSubmission(async () => {
    const body = {
      name: name.trim(),
      ...((row || limits.length > 0) && { limits: limitsOf(limits) }),
      ...((row || allowed.length > 0) && { models: allowed.length > 0 ? allowed : null }),
      ...((row || expires) && { expires_at: expires ? `${expires}T00:00:00Z` : null }),
    }
    const [method, path] = row ? ['PATCH', `/me/api/keys/${row.id}`] : ['POST', '/me/api/keys']
    const { key } = await call<{ key?: string }>(method!, path!, {
      body,
      revision: row?.revision ?? null,
    })
    onDone(key)
  })
  const { errorFor } = form
  return html`<${Dialog} title=${row ? `Narrow ${row.name}` : 'New key'} wide onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      <p class="help">${ceilingsOf(place)}</p>
      <${TextField} label="Name" value=${name} onInput=${setName} autofocus error=${errorFor('name')} />
      <${LimitEditor} limits=${limits} onChange=${setLimits} none="None of its own: those of its account or team." errorFor=${errorFor} />
      <div class="row">
        <${TextField} label="Models" value=${models} onInput=${setModels} mono placeholder=${place?.new_keys?.models?.join(' ') ?? 'all'} error=${errorFor('models')} />
        <${TextField} label="Expires" type="date" value=${expires} onInput=${setExpires} help=${place?.new_keys?.expires_in ? 'Start of that UTC day. Empty: as late as it may.' : 'Start of that UTC day. Empty: never.'} error=${errorFor('expires_at')} />
      </div>
      <${FormEnd} form=${form} verb=${row ? 'Save' : 'Make key'} onClose=${onClose} />
    </form>
  <//>`
}

type Person = ReturnType<typeof memberView>

/** The members of a place, and inviting one. */
export function People() {
  const people = useAnswer<{ data: readonly Person[] }>('/me/api/members')
  const [name, setName] = useState('')
  const [email, setEmail] = useState('')
  const [manages, setManages] = useState(false)
  const [link, setLink] = useState<string>()
  const [error, setError] = useState<ApiError>()
  const form = useSubmission(async () => {
    const body = { name: name.trim(), email: email.trim() || null, manages }
    const made = await call<{ link?: string }>('POST', '/me/api/members', { body })
    if (made.link !== undefined) setLink(new URL(made.link, location.origin).href)
    setName('')
    setEmail('')
    people.reload()
  })
  const change = (id: string, body: object) =>
    call('PATCH', `/me/api/members/${id}`, { body }).then(
      () => people.reload(),
      (thrown: unknown) => setError(toApiError(thrown)),
    )
  return html`${error && html`<${Failure} error=${error} />`}
    <${Answered} of=${people}>
      ${({ data }: { data: readonly Person[] }) => html`<${Panel} title="People">
        <table class="plain ruled stacked">
          <${Heads} names=${['Name', 'E-mail', 'Manages', 'Acts']} />
          <tbody>
            ${data.map(
              (one) => html`<tr key=${one.id}>
                <th scope="row"><bdi>${one.name}</bdi>${one.disabled ? ', disabled' : ''}</th>
                <td data-label="e-mail">${one.email ?? 'none'}</td>
                <td data-label="manages">${one.manages ? 'yes' : 'no'}</td>
                <td class="end">
                  <${Button} onClick=${() => change(one.id, { manages: !one.manages })}>${one.manages ? 'End managing' : 'Let manage'}<//>${' '}
                  <${Button} onClick=${() => change(one.id, { disabled: !one.disabled })}>${one.disabled ? 'Enable' : 'Disable'}<//>
                </td>
              </tr>`,
            )}
          </tbody>
        </table>
      <//>`}
    <//>
    <${Panel} title="Invite">
      ${link && html`<${Notice} tone="warn">The link is shown only now, and no mail is sent: <code>${link}</code> <${Copy} text=${link} label="Copy link" /><//>`}
      <form class="form" onSubmit=${form.submit}>
        <div class="row">
          <${TextField} label="Name" value=${name} onInput=${setName} error=${form.errorFor('name')} />
          <${TextField} label="E-mail (optional)" value=${email} onInput=${setEmail} error=${form.errorFor('email')} />
        </div>
        <${CheckField} label="Manages the account or team" checked=${manages} onChange=${setManages} />
        <${FormEnd} form=${form} verb="Invite" />
      </form>
    <//>`
}

/** Issued statements, for those who manage the whole account. */
export function Statements() {
  const answer = useAnswer<{ data: readonly Read<StatementEntry>[] }>('/me/api/statements')
  const form = (number: string, format: string) =>
    at(withQuery(`/me/api/statements/${encodeURIComponent(number)}`, { format }))
  return html`<${Answered} of=${answer}>
    ${({ data }: { data: readonly Read<StatementEntry>[] }) =>
      data.length === 0
        ? html`<${Empty} title="No statement is issued yet."><p class="muted">Months that the operator has issued stand here.</p><//>`
        : html`<${Panel} title="Statements">
            <table class="plain ruled stacked">
              <${Heads} names=${['Number', 'Month', 'State', 'Closing balance', 'Open']} end=${['Closing balance']} />
              <tbody>
                ${data.map(
                  ({ number, month, state, closing_usd: usd }) => html`<tr key=${number}>
                    <th scope="row" class="mono">${number}</th>
                    <td data-label="month">${month}</td>
                    <td data-label="state">${state}</td>
                    <td class="end"><${Money} usd=${usd} decimals=${wholeDecimals(data.map((one) => one.closing_usd))} /></td>
                    <td>${['html', 'csv', 'json'].map((format) => html`<a key=${format} class="button quiet" href=${form(number!, format)} target="_blank">${format === 'html' ? 'Open' : format.toUpperCase()}</a>`)}</td>
                  </tr>`,
                )}
              </tbody>
            </table>
          <//>`}
  <//>`
}
