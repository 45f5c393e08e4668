/** Tokens of the admin API, who is signed in, and members of accounts: lists and plain forms. */
import { useState } from 'preact/hooks'
import type { SessionAnswer, TokenAnswer } from '../../server/admin/resources/session.ts'
import type { memberView } from '../../server/admin/resources/member.ts'
import { call, toApiError, useAnswer, type ApiError } from '../api.ts'
import { html, type Content } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Confirm } from '../parts/confirm.ts'
import { Time } from '../parts/facts.ts'
import { CheckField, SelectField, TextField, useSubmission } from '../parts/form.ts'
import { Heads } from '../parts/heads.ts'
import { Panel } from '../parts/panel.ts'
import { Answered, Failure, Notice } from '../parts/states.ts'
import { allows } from '../state.ts'

type MemberAnswer = ReturnType<typeof memberView>

const ROLES = ['viewer', 'billing', 'operator', 'admin']

export function People() {
  return html`<div class="stack">
    ${allows('people') && html`<${Tokens} />`}
    <${Sessions} />
    <${Members} />
  </div>`
}

/** A secret that an answer has once. */
function Shown({ children }: { readonly children: Content }) {
  return html`<${Notice} tone="warn">It is shown only now: <code>${children}</code><//>`
}

function Tokens() {
  const tokens = useAnswer<{ data: readonly TokenAnswer[] }>('/admin/tokens')
  const [name, setName] = useState('')
  const [role, setRole] = useState('viewer')
  const [secret, setSecret] = useState<string>()
  const [ending, setEnding] = useState<TokenAnswer>()
  const form = useSubmission(async () => {
    const made = await call<{ token: string }>('POST', '/admin/tokens', { body: { name, role } })
    setSecret(made.token)
    setName('')
    tokens.reload()
  })
  return html`<${Panel} title="Tokens of the admin API">
    <${Answered} of=${tokens}>
      ${({ data }: { data: readonly TokenAnswer[] }) =>
        html`<table class="plain stacked">
          <${Heads} names=${['Name', 'Role', 'From', 'Expires', 'Last used', '']} />
          <tbody>
            ${data.map(
              (one) =>
                html`<tr key=${one.id}>
                  <th scope="row">
                    <bdi>${one.name}</bdi>
                    ${one.warnings.map(({ code, message }) => html`<div key=${code} class="warn">${message}</div>`)}
                  </th>
                  <td data-label="role">${one.role}</td>
                  <td data-label="from">${one.source}</td>
                  <td data-label="expires">${one.expires_at ? html`<${Time} at=${one.expires_at} />` : 'never'}</td>
                  <td data-label="last used">${one.used_at ? html`<${Time} at=${one.used_at} />` : '–'}</td>
                  <td class="end">
                    ${one.source === 'stored' && html`<${Button} right="people" onClick=${() => setEnding(one)}>End<//>`}
                  </td>
                </tr>`,
            )}
          </tbody>
        </table>`}
    <//>
    ${secret && html`<${Shown}>${secret}<//>`}
    ${form.error && html`<${Failure} error=${form.error} />`}
    <form class="form" onSubmit=${form.submit}>
      <${TextField} label="Name" value=${name} onInput=${setName} />
      <${SelectField} label="Role" value=${role} onChange=${setRole} options=${ROLES.map((value) => ({ value, label: value }))} />
      <div class="actions"><${Button} right="people" kind="primary" type="submit" busy=${form.busy}>Make token<//></div>
    </form>
    ${
      ending &&
      html`<${Confirm}
        title=${`End the token ${ending.name}?`}
        verb="End token"
        act=${async () => {
          await call('DELETE', `/admin/tokens/${encodeURIComponent(ending.id)}`, { body: {} })
          setEnding(undefined)
          tokens.reload()
        }}
        onClose=${() => setEnding(undefined)}
      >
        <p>It and its sessions are refused from now on.</p>
      <//>`
    }
  <//>`
}

function Sessions() {
  const sessions = useAnswer<{ data: readonly SessionAnswer[] }>('/admin/sessions')
  const [error, setError] = useState<ApiError>()
  const end = (id: string) =>
    call('DELETE', `/admin/sessions/${encodeURIComponent(id)}`, { body: {} }).then(
      () => sessions.reload(),
      (thrown: unknown) => setError(toApiError(thrown)),
    )
  return html`<${Panel} title="Signed in">
    ${error && html`<${Failure} error=${error} />`}
    <${Answered} of=${sessions}>
      ${({ data }: { data: readonly SessionAnswer[] }) =>
        html`<table class="plain stacked">
          <${Heads} names=${['Who', 'By', 'Last used', 'Browser', '']} />
          <tbody>
            ${data.map(
              ({ id, name, subject, how, seen_at, agent, current }) =>
                html`<tr key=${id}>
                  <th scope="row"><bdi>${name ?? subject}</bdi>${current ? ', this one' : ''}</th>
                  <td data-label="by">${how}</td>
                  <td data-label="last used"><${Time} at=${seen_at} /></td>
                  <td data-label="browser">${agent}</td>
                  <td class="end">${!current && html`<${Button} onClick=${() => end(id)}>End<//>`}</td>
                </tr>`,
            )}
          </tbody>
        </table>`}
    <//>
  <//>`
}

function Members() {
  const members = useAnswer<{ data: readonly MemberAnswer[] }>('/admin/members')
  const [wanted, setWanted] = useState({ account: '', name: '', email: '' })
  const [manages, setManages] = useState(false)
  const [link, setLink] = useState<string>()
  const [error, setError] = useState<ApiError>()
  const set = (member: string) => (value: string) => setWanted({ ...wanted, [member]: value })
  const act = (method: string, path: string, body: object) =>
    call<{ link?: string }>(method, `/admin/members${path}`, { body }).then(
      (answer) => {
        setError(undefined)
        if (answer.link !== undefined) setLink(new URL(answer.link, location.origin).href)
        members.reload()
      },
      (thrown: unknown) => setError(toApiError(thrown)),
    )
  const form = useSubmission(() => {
    const { account, name, email } = wanted
    return act('POST', '', { account, name, email: email || null, manages: manages || null })
  })
  return html`<${Panel} title="Members of accounts">
    ${error && html`<${Failure} error=${error} />`}
    <${Answered} of=${members}>
      ${({ data }: { data: readonly MemberAnswer[] }) =>
        html`<table class="plain stacked">
          <${Heads} names=${['Name', 'Account', 'Team', 'Manages', '']} />
          <tbody>
            ${data.map(
              ({ id, name, account_id, team_id, manages: isManaging, disabled }) =>
                html`<tr key=${id}>
                  <th scope="row"><bdi>${name}</bdi>${disabled ? ', disabled' : ''}</th>
                  <td data-label="account">${account_id}</td>
                  <td data-label="team">${team_id ?? '–'}</td>
                  <td data-label="manages">${isManaging ? 'yes' : 'no'}</td>
                  <td class="end">
                    <${Button} right="keys" onClick=${() => act('POST', `/${id}/link`, {})}>New link<//>${' '}
                    <${Button} right="keys" onClick=${() => act('PATCH', `/${id}`, { disabled: !disabled })}>${disabled ? 'Enable' : 'Disable'}<//>
                  </td>
                </tr>`,
            )}
          </tbody>
        </table>`}
    <//>
    ${link && html`<${Shown}>${link}<//>`}
    <form class="form" onSubmit=${form.submit}>
      <${TextField} label="Account" value=${wanted.account} onInput=${set('account')} />
      <${TextField} label="Member's name" value=${wanted.name} onInput=${set('name')} />
      <${TextField} label="E-mail" value=${wanted.email} onInput=${set('email')} />
      <${CheckField} label="Manages the account" checked=${manages} onChange=${setManages} />
      <div class="actions"><${Button} right="keys" kind="primary" type="submit" busy=${form.busy}>Invite<//></div>
    </form>
  <//>`
}
