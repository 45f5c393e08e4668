/** Playground: a call as one of the keys, with the key's limits, policy and charge. */
import { useRef } from 'preact/hooks'
import { call, useAnswer } from '../api.ts'
import type { AccountRow, KeyRow, RequestContent, ShownDetails } from '../answers.ts'
import { exactMoney } from '../format.ts'
import { html } from '../html.ts'
import { Money } from '../parts/facts.ts'
import { Choose } from '../parts/choose.ts'
import { Answered, Empty, Notice } from '../parts/states.ts'
import { allows, place, setQuery } from '../state.ts'
import { contentPath } from './content.ts'
import { Bench } from './play-bench.ts'
import type { Exchange } from './play-exchange.ts'
import type { PlayModel } from './play-request.ts'
import type { PlayToken } from '../../server/admin/resources/session.ts'

/** A token that ends within this time is renewed before a call. */
const MARGIN_MS = 60_000
export function Playground() {
  const wanted = place.value.query.get('key')
  // The key of the address, or else the first one.
  const keys = useAnswer<{ data: KeyRow | readonly KeyRow[] }>(
    wanted === null ? '/admin/keys?limit=1' : `/admin/keys/${encodeURIComponent(wanted)}`,
  )
  const models = useAnswer<{ data: readonly PlayModel[] }>('/admin/models')
  // A call that is sent again. Reading its content is noted in the audit log.
  const from = place.value.query.get('from')
  const kept = useAnswer<{ data: RequestContent }>(from === null ? null : contentPath(from))
  return html`<div class="screen">
    <header class="screen-head"><h1>Playground</h1></header>
    ${
      !allows('keys') &&
      html`<${Notice}>Calls are made with a key and charged to its account: this needs the role operator or admin.<//>`
    }
    <${Answered} of=${keys}>
      ${({ data }: { data: KeyRow | readonly KeyRow[] }) =>
        html`<${Answered} of=${models}>
          ${(answer: { data: readonly PlayModel[] }) =>
            from === null || kept.data
              ? html`<${AsKey} of=${[data].flat()[0]} models=${answer.data} resent=${kept.data?.data.input} />`
              : html`<${Answered} of=${kept}>${() => null}<//>`}
        <//>`}
    <//>
  </div>`
}

function AsKey({
  of: key,
  models,
  resent,
}: {
  readonly of: KeyRow | undefined
  readonly models: readonly PlayModel[]
  readonly resent: RequestContent['input'] | undefined
}) {
  const id = key?.id
  const account = useAnswer<{ data: AccountRow }>(
    key ? `/admin/accounts/${encodeURIComponent(key.account_id)}` : null,
  )
  const credential = useCredential(id)
  if (id === undefined) {
    return html`<${Empty} title="There are no keys.">
      <p class="muted">A call is made with a key: it says what is allowed, and which account pays.</p>
      <a href="/console/keys">New key</a>
    <//>`
  }
  const balance = account.data?.data.balance_usd
  return html`<div class="stack">
    <div class="play-key">
      <${Choose}
        kind="key"
        label="As key"
        value=${id}
        known=${key?.name}
        onChoose=${(value: string) => value !== '' && setQuery({ key: value }, { replace: true })}
      />
      ${key?.policy && html`<p class="caption">This key has a policy. <a href=${`/console/keys/${id}/policy`}>Policy</a></p>`}
    </div>
    <${Bench}
      models=${models}
      credential=${credential}
      resent=${resent}
      isOperator
      right="keys"
      charged=${html`charged to
      ${key?.account_id ?? 'the account of this key'}${
        balance === undefined ? '' : html`, balance <${Money} usd=${balance} balance />`
      }`}
      after=${(exchange: Exchange) => html`<${Afterwards} exchange=${exchange} balance=${balance} />`}
      onEnded=${account.reload}
    />
  </div>`
}

function Afterwards({
  exchange: { state, headers },
  balance,
}: {
  readonly exchange: Exchange
  readonly balance: string | undefined
}) {
  const values = new Map(headers)
  const id = values.get('x-request-id')
  const left = values.get('x-ratelimit-remaining-requests')
  const isStopped = state === 'stopped' && id !== undefined
  // A stopped call has no last event: what it cost is in the log a moment later.
  const logged = useAnswer<{ data: ShownDetails }>(isStopped ? `/admin/requests/${id}` : null, {
    ...(isStopped && { every: 1000 }),
  }).data?.data
  return html`<ul class="afterwards">
    ${
      isStopped &&
      html`<li>
        Charged for what was produced: ${logged?.cost_usd ? exactMoney(logged.cost_usd) : 'known in a moment'}
      </li>`
    }
    ${balance !== undefined && html`<li>Balance now <${Money} usd=${balance} exact balance /></li>`}
    ${left && html`<li>${left} requests left in this minute</li>`}
    ${id && html`<li><a href=${`/console/requests?open=${encodeURIComponent(id)}`}>This call under Requests</a></li>`}
  </ul>`
}

/** Asks for a token when a call is made and there is none that lasts. It is forgotten with the screen. */
function useCredential(id: string | undefined): (other?: string) => Promise<string> {
  const kept = useRef(new Map<string, PlayToken>())
  return async (key = id!) => {
    const token = kept.current.get(key)
    if (token && Date.parse(token.expires_at) - Date.now() > MARGIN_MS) return token.token
    const path = `/admin/keys/${encodeURIComponent(key)}/play`
    const { data } = await call<{ data: PlayToken }>('POST', path, { body: {} })
    kept.current.set(key, data)
    return data.token
  }
}
