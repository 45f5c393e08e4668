/** The page of a member of an account: its own keys, made, disabled and given another secret. */
import { useState } from 'preact/hooks'
import { call, toApiError, useAnswer, type ApiError } from '../api.ts'
import { Mark } from '../frame.ts'
import { html } from '../html.ts'
import { Button } from '../parts/button.ts'
import { TextField, useSubmission } from '../parts/form.ts'
import { Panel } from '../parts/panel.ts'
import { Answered, Failure, Notice } from '../parts/states.ts'

interface Place {
  readonly member_id: string
  readonly account_id: string
  readonly current: boolean
}

export interface MemberSession {
  readonly account_id: string
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

interface OwnKey {
  readonly id: string
  readonly name: string
  readonly start: string
  readonly disabled: boolean
}

export async function acceptInvitation(ticket: string): Promise<void> {
  await call('POST', '/me/api/session', { body: { ticket } })
}

export function MemberPage({
  member,
  onLeft,
}: {
  readonly member: MemberSession
  readonly onLeft: () => void
}) {
  const keys = useAnswer<{ data: readonly OwnKey[] }>('/me/api/keys')
  const [name, setName] = useState('')
  const [secret, setSecret] = useState<string>()
  const [error, setError] = useState<ApiError>()
  const act = (method: string, path: string, body: object) =>
    call<{ key?: string }>(method, `/me/api${path}`, { body }).then(
      ({ key }) => {
        setError(undefined)
        if (key !== undefined) setSecret(key)
        keys.reload()
      },
      (thrown: unknown) => setError(toApiError(thrown)),
    )
  const form = useSubmission(async () => {
    await act('POST', '/keys', { name })
    setName('')
  })
  const change = (id: string) =>
    call('POST', '/me/api/session', { body: { member: id } }).then(
      () => location.reload(),
      (thrown: unknown) => setError(toApiError(thrown)),
    )
  const others = member.places.filter(({ current }) => !current)
  const leave = () => call('DELETE', '/me/api/session', { body: {} }).finally(onLeft)
  return html`<header class="top holder">
      <a class="brand" href="/me"><${Mark} />Sluicegate</a>
      <span class="muted">${member.name}, ${member.account_id}</span>
      <div class="top-end">
        ${others.map(
          ({ member_id, account_id }) =>
            html`<${Button} key=${member_id} onClick=${() => change(member_id)}>Go to ${account_id}<//>`,
        )}
        <${Button} onClick=${leave}>Sign out<//>
      </div>
    </header>
    <main class="holder-main" id="main">
      <div class="screen">
        <header class="screen-head"><h1>Your keys</h1></header>
        ${error && html`<${Failure} error=${error} />`}
        ${secret && html`<${Notice} tone="warn">The secret is shown only now: <code>${secret}</code><//>`}
        <${Answered} of=${keys}>
          ${({ data }: { data: readonly OwnKey[] }) =>
            html`<ul>
              ${data.map(
                ({ id, name: called, start, disabled }) =>
                  html`<li key=${id}>
                    <bdi>${called}</bdi> <code>${start}…</code>${' '}
                    <${Button} onClick=${() => act('PATCH', `/keys/${id}`, { disabled: !disabled })}>${disabled ? 'Enable' : 'Disable'}<//>${' '}
                    <${Button} onClick=${() => act('POST', `/keys/${id}/rotate`, {})}>Rotate<//>
                  </li>`,
              )}
            </ul>`}
        <//>
        <${Panel} title="New key">
          <form class="form" onSubmit=${form.submit}>
            <${TextField} label="Name" value=${name} onInput=${setName} />
            <div class="actions"><${Button} kind="primary" type="submit" busy=${form.busy}>Make key<//></div>
          </form>
        <//>
      </div>
    </main>`
}
