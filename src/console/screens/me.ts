/** The page of the holder of one key: its limits, its use, and what it may use. */
import { signal } from '@preact/signals'
import { useState } from 'preact/hooks'
import { call, toApiError, useAnswer, type ApiError } from '../api.ts'
import { count, money, shortId } from '../format.ts'
import { Mark } from '../frame.ts'
import { html } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Money, Tile, Time } from '../parts/facts.ts'
import { CheckField, TextField, useSubmission } from '../parts/form.ts'
import { lazy } from '../parts/lazy.ts'
import { CapBar, Limits } from '../parts/limits.ts'
import { Answered, Failure, Notice } from '../parts/states.ts'
import { Tabs } from '../parts/tabs.ts'
import { session, type ScreenProps } from '../state.ts'
import { Lately } from './me-lately.ts'
import { Connect, HolderModels, HolderRequests, HolderUsage } from './me-parts.ts'
import type { HolderKey } from '../../server/admin/resources/key.ts'
import type { Read } from '../amounts.ts'

/** Where the key is kept if its holder asks for that: in this tab, until it is closed. */
const KEPT = 'sluicegate.key'

// The key itself is only in this variable and, if its holder asks for that, in the tab. The signal says only that
// there is one.
let held: string | undefined
const holding = signal(false)

const HolderPlay = lazy(async () => (await import('./me-play.ts')).HolderPlay)
const TABS = [
  { key: 'overview', label: 'Overview', href: '/me' },
  { key: 'usage', label: 'Usage', href: '/me/usage' },
  { key: 'requests', label: 'Requests', href: '/me/requests' },
  { key: 'models', label: 'Models', href: '/me/models' },
  { key: 'play', label: 'Playground', href: '/me/play' },
  { key: 'connect', label: 'Connect', href: '/me/connect' },
]

export function Me({ params }: ScreenProps) {
  if (!holding.value && !restore()) return html`<${KeySignIn} />`
  return html`<${Holder} secret=${held!} tab=${params.tab ?? 'overview'} />`
}

function Holder({ secret, tab }: { readonly secret: string; readonly tab: string }) {
  const answer = useAnswer<{ data: Read<HolderKey> }>('/v1/key', { key: secret })
  const title = answer.data
    ? `${answer.data.data.account_id} / ${shortId(answer.data.data.key_id, 20)}`
    : ''
  return html`<header class="top holder">
      <a class="brand" href="/me"><${Mark} />Sluicegate</a>
      <span class="mono muted">${secret.slice(0, 14)}…</span>
      <div class="top-end"><${Button} onClick=${signOut}>Sign out<//></div>
    </header>
    <main class="holder-main" id="main">
      <div class="screen">
        ${answer.error?.status === 401 && html`<${Notice} tone="bad">This key does not work any more. ${answer.error.message}<//>`}
        <header class="screen-head"><h1><bdi>${title || 'Your key'}</bdi></h1></header>
        <${Tabs} label="Parts of the page" tabs=${TABS} current=${tab} />
        <${Answered} of=${answer} lines=${8}>
          ${({ data }: { data: Read<HolderKey> }) =>
            tab === 'usage'
              ? html`<${HolderUsage} secret=${secret} />`
              : tab === 'requests'
                ? html`<${HolderRequests} secret=${secret} />`
                : tab === 'models'
                  ? html`<${HolderModels} secret=${secret} />`
                  : tab === 'play'
                    ? html`<${HolderPlay} secret=${secret} account=${data.account_id} onEnded=${answer.reload} />`
                    : tab === 'connect'
                      ? html`<${Connect} secret=${secret} />`
                      : html`<${Overview} data=${data} secret=${secret} />`}
        <//>
      </div>
    </main>`
}

function Overview({ data, secret }: { readonly data: Read<HolderKey>; readonly secret: string }) {
  const { spend_cap_usd: cap, spend_cap_scope: scope, spend_remaining_usd: left } = data
  return html`${data.log_content && html`<${Notice} tone="warn">The content of your calls is kept by the operator of this gateway.<//>`}
    <div class="tiles">
      <${Tile} label="Spent in all"><${Money} usd=${data.spend_usd} /><//>
      <${Tile} label="Left" note=${cap === null ? 'this key has no cap' : `of ${money(cap)} a ${scope}, UTC`.replace('a lifetime', 'in all')}>
        ${left === null ? 'unlimited' : html`<${Money} usd=${left} balance />`}
      <//>
      <${Tile} label="Requests a minute">${count(data.rpm_limit)}<//>
      <${Tile} label="Calls at once">${count(data.concurrency_limit)}<//>
      <${Tile} label="Expires">${data.expires_at ? html`<${Time} at=${data.expires_at} />` : 'never'}<//>
    </div>
    <${Lately} secret=${secret} />
    ${
      data.limits &&
      html`<section class="panel"><header><h2>Limits</h2></header><div class="panel-body"><${Limits} limits=${data.limits} /></div></section>`
    }
    ${cap !== null && scope !== null && !data.limits && html`<p><${CapBar} spent=${data.spend_usd} cap=${{ usd: cap, scope }} /></p>`}
    <p class="muted prose">
      All calls of this key are billed to its account, ${data.account_id}. Days and months are UTC.
      ${data.free_tier ? ' The account is on the free tier: only models that cost nothing answer.' : ''}
    </p>`
}

function KeySignIn() {
  const [text, setText] = useState('')
  const [keep, setKeep] = useState(false)
  const [wrong, setWrong] = useState<string>()
  const [error, setError] = useState<ApiError>()
  const form = useSubmission(async () => {
    const secret = text.trim()
    setError(undefined)
    if (secret === '') return setWrong('Enter an API key, such as sk-sluice-…')
    setWrong(undefined)
    try {
      await call('GET', '/v1/key', { key: secret })
    } catch (thrown) {
      return setError(toApiError(thrown))
    }
    setText('')
    hold(secret, keep)
  })
  return html`<main class="lone" id="main">
    <h1 class="brand"><${Mark} />Your key</h1>
    <form class="form" onSubmit=${form.submit}>
      <${TextField} label="API key" type="password" mono value=${text} onInput=${setText} autofocus error=${wrong} help="It stays in this page, and goes to this gateway only." />
      <${CheckField} label="Keep it in this tab" checked=${keep} onChange=${setKeep} help="Until the tab is closed. Otherwise a reload asks again." />
      ${error && html`<${Failure} error=${error} />`}
      <div class="actions"><${Button} kind="primary" type="submit" busy=${form.busy}>Show my key<//></div>
    </form>
    ${session.value && html`<p class="help"><a href="/console">Console</a></p>`}
  </main>`
}

function hold(secret: string, keep: boolean): void {
  held = secret
  if (keep) sessionStorage.setItem(KEPT, secret)
  holding.value = true
}

function restore(): boolean {
  held ??= sessionStorage.getItem(KEPT) ?? undefined
  if (held !== undefined) holding.value = true
  return held !== undefined
}

function signOut(): void {
  held = undefined
  sessionStorage.removeItem(KEPT)
  holding.value = false
}
