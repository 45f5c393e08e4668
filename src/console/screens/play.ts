/** Playground: a call as one of the keys, with the key's limits, policy and charge. */
import { useEffect, useMemo, useRef } from 'preact/hooks'
import { call, useAnswer, withQuery } from '../api.ts'
import type { AccountRow, KeyRow, ShownDetails } from '../answers.ts'
import { exactMoney } from '../format.ts'
import { html } from '../html.ts'
import { Money } from '../parts/facts.ts'
import { SelectField } from '../parts/form.ts'
import { Answered, Empty, Notice } from '../parts/states.ts'
import { allows, place, setQuery } from '../state.ts'
import { Bench } from './play-bench.ts'
import type { Exchange } from './play-exchange.ts'
import type { PlayModel } from './play-request.ts'
import type { PlayToken } from '../../server/admin/resources/session.ts'

/** A token that ends within this time is renewed before a call. */
const MARGIN_MS = 60_000
/** The most keys to choose from; another one is named in the address. */
const MOST_KEYS = 200

export function Playground() {
  const keys = useAnswer<{ data: readonly KeyRow[] }>(
    withQuery('/admin/keys', { limit: MOST_KEYS }),
  )
  const models = useAnswer<{ data: readonly PlayModel[] }>('/admin/models')
  return html`<div class="screen">
    <header class="screen-head"><h1>Playground</h1></header>
    ${
      !allows('keys') &&
      html`<${Notice}>Calls are made with a key and charged to its account: this needs the role operator or admin.<//>`
    }
    <${Answered} of=${keys}>
      ${({ data }: { data: readonly KeyRow[] }) =>
        html`<${Answered} of=${models}>
          ${(answer: { data: readonly PlayModel[] }) =>
            html`<${AsKey} keys=${data.filter((key) => !key.archived_at)} models=${answer.data} />`}
        <//>`}
    <//>
  </div>`
}

function AsKey({
  keys,
  models,
}: {
  readonly keys: readonly KeyRow[]
  readonly models: readonly PlayModel[]
}) {
  const id = place.value.query.get('key') ?? keys[0]?.id
  const key = keys.find((one) => one.id === id)
  const account = useAnswer<{ data: AccountRow }>(
    key ? `/admin/accounts/${encodeURIComponent(key.account_id)}` : null,
  )
  const credential = useCredential(id)
  const options = useMemo(() => optionsOf(keys, id), [keys, id])
  if (id === undefined) {
    return html`<${Empty} title="There are no keys.">
      <p class="muted">A call is made with a key: it says what is allowed, and which account pays.</p>
      <a href="/console/keys">New key</a>
    <//>`
  }
  const balance = account.data?.data.balance_usd
  return html`<div class="stack">
    <div class="play-key">
      <${SelectField}
        label="As key"
        value=${id}
        options=${options}
        onChange=${(value: string) => setQuery({ key: value }, { replace: true })}
      />
      ${key?.policy && html`<p class="caption">This key has a policy. <a href=${`/console/keys/${id}/policy`}>Policy</a></p>`}
    </div>
    <${Bench}
      models=${models}
      credential=${credential}
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
function useCredential(id: string | undefined): () => Promise<string> {
  const kept = useRef<PlayToken | null>(null)
  useEffect(() => {
    kept.current = null
  }, [id])
  return async () => {
    const token = kept.current
    if (token && Date.parse(token.expires_at) - Date.now() > MARGIN_MS) return token.token
    const path = `/admin/keys/${encodeURIComponent(id!)}/play`
    const made = await call<PlayToken & { readonly data?: PlayToken }>('POST', path, { body: {} })
    kept.current = made.data ?? made
    return kept.current.token
  }
}

function optionsOf(keys: readonly KeyRow[], id: string | undefined) {
  const options = keys.map((key) => ({ value: key.id, label: `${key.account_id} / ${key.name}` }))
  const isKnown = id === undefined || keys.some((key) => key.id === id)
  return isKnown ? options : [{ value: id, label: id }, ...options]
}
