/** Tokens of the admin API, who is signed in, and members of accounts: lists and plain forms. */
import { MISSING } from '../format.ts'
import { useEffect, useRef, useState } from 'preact/hooks'
import { useOpened } from '../acts.ts'
import type { SessionAnswer, TokenAnswer } from '../../server/admin/resources/session.ts'
import type { memberView } from '../../server/admin/resources/member.ts'
import { call, toApiError, useAnswer, type ApiError } from '../api.ts'
import { html, type Content } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Choose } from '../parts/choose.ts'
import { Confirm } from '../parts/confirm.ts'
import { Time } from '../parts/facts.ts'
import { CheckField, FormEnd, SelectField, send, TextField, useSubmission } from '../parts/form.ts'
import { Heads } from '../parts/heads.ts'
import { Panel } from '../parts/panel.ts'
import { Answered, Failure, Notice } from '../parts/states.ts'
import { allows } from '../state.ts'

type MemberAnswer = ReturnType<typeof memberView>

const ROLES = [
  { value: 'viewer', label: 'viewer: only reads' },
  { value: 'billing', label: 'billing: books money' },
  { value: 'operator', label: 'operator: changes keys and accounts' },
  { value: 'admin', label: 'admin: everything' },
]

const SOURCES = { stored: 'made here', file: 'the configuration', own: 'the first start' }

export function People() {
  return html`<div class="stack">
    ${allows('people') && html`<${Tokens} />`}
    <${Members} />
    <${Sessions} />
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
  const [opened, setOpened] = useOpened()
  const fields = useRef<HTMLFormElement>(null)
  useEffect(() => {
    if (opened !== 'token') return
    fields.current?.querySelector('input')?.focus()
    setOpened(undefined)
  }, [opened])
  const request = { method: 'POST', path: '/admin/tokens', body: { name: name.trim(), role } }
  const entry = { admin: { tokens: [{ name: name.trim(), role, token: '${SLUICEGATE_TOKEN}' }] } }
  const form = useSubmission(async () => {
    const made = await send<{ token: string }>(request)
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
                  <td data-label="from">${SOURCES[one.source]}</td>
                  <td data-label="expires">${one.expires_at ? html`<${Time} at=${one.expires_at} />` : 'never'}</td>
                  <td data-label="last used">${one.used_at ? html`<${Time} at=${one.used_at} />` : one.source === 'stored' ? 'never' : MISSING}</td>
                  <td class="end">
                    ${one.source === 'stored' && html`<${Button} right="people" onClick=${() => setEnding(one)}>End<//>`}
                  </td>
                </tr>`,
            )}
          </tbody>
        </table>`}
    <//>
    ${secret && html`<${Shown}>${secret}<//>`}
    <form class="form" ref=${fields} onSubmit=${form.submit}>
      <div class="row">
        <${TextField} label="Name" value=${name} onInput=${setName} error=${form.errorFor('name')} help="Who or what uses it: changes are recorded under it." />
        <${SelectField} label="Role" value=${role} onChange=${setRole} options=${ROLES} />
      </div>
      <${FormEnd} form=${form} verb="Make token" right="people" request=${request} entry=${entry} />
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

/** What browsers call themselves, the first that is found: some add the names of others. */
const BROWSERS = [
  ['Edg', 'Edge'],
  ['OPR', 'Opera'],
  ['Firefox', 'Firefox'],
  ['Chrome', 'Chrome'],
  ['Version', 'Safari'],
] as const

/** Name, version and system of a browser; all that it says of itself where they are not in it. */
function browserOf(agent: string | null): string {
  if (agent === null) return 'not told'
  const [system] = /Windows|Android|iPhone|iPad|Mac OS X|CrOS|Linux/.exec(agent) ?? []
  for (const [mark, name] of BROWSERS) {
    const [, version] = new RegExp(`${mark}/(\\d+)`).exec(agent) ?? []
    if (version !== undefined) return `${name} ${version}${system ? ` on ${system}` : ''}`
  }
  return agent
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
                  <td class="whole" data-label="by">${how}</td>
                  <td class="whole" data-label="last used"><${Time} at=${seen_at} /></td>
                  <td data-label="browser" title=${agent ?? undefined}>${browserOf(agent)}</td>
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
  const ask = async (method: string, path: string, body: object) => {
    const answer = await send<{ link?: string }>({ method, path: `/admin/members${path}`, body })
    setError(undefined)
    if (answer.link !== undefined) setLink(new URL(answer.link, location.origin).href)
    members.reload()
  }
  const act = (method: string, path: string, body: object) =>
    ask(method, path, body).catch((thrown: unknown) => setError(toApiError(thrown)))
  const { account, name, email } = wanted
  const body = { account, name: name.trim(), email: email.trim() || null, manages: manages || null }
  const form = useSubmission(async () => {
    await ask('POST', '', body)
    setWanted({ account, name: '', email: '' })
  })
  return html`<${Panel} title="Members of accounts">
    ${error && html`<${Failure} error=${error} />`}
    <${Answered} of=${members}>
      ${({ data }: { data: readonly MemberAnswer[] }) =>
        data.length === 0
          ? html`<p class="muted">There are no members yet. To invite one, choose the account, write a name, and send the link that is shown then: it opens the page of that account.</p>`
          : html`<table class="plain stacked">
          <${Heads} names=${['Name', 'Account', 'Team', 'Manages', '']} />
          <tbody>
            ${data.map(
              ({ id, name, account_id, team_id, manages: isManaging, disabled }) =>
                html`<tr key=${id}>
                  <th scope="row"><bdi>${name}</bdi>${disabled ? ', disabled' : ''}</th>
                  <td data-label="account">${account_id}</td>
                  <td data-label="team">${team_id ?? 'none'}</td>
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
      <div class="row">
        <${Choose} kind="account" label="Account" value=${account} onChoose=${set('account')} error=${form.errorFor('account')} />
        <${TextField} label="Member's name" value=${name} onInput=${set('name')} error=${form.errorFor('name')} />
        <${TextField} label="E-mail (optional)" value=${email} onInput=${set('email')} error=${form.errorFor('email')} help="Sign-in by a provider finds the member by it. No mail is sent." />
      </div>
      <${CheckField} label="Manages the account" checked=${manages} onChange=${setManages} help="Sees all its keys, invites others, and opens its statements." />
      <${FormEnd} form=${form} verb="Invite" right="keys" request=${{ method: 'POST', path: '/admin/members', body }} />
    </form>
  <//>`
}
