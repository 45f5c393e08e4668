/** The Playground of a key's holder: calls with a token that stands for the key for a while. */
import { useRef } from 'preact/hooks'
import { call, useAnswer } from '../api.ts'
import { html } from '../html.ts'
import { Answered } from '../parts/states.ts'
import { Bench } from './play-bench.ts'
import type { Exchange } from './play-exchange.ts'
import type { PlayModel } from './play-request.ts'
import type { PlayToken } from '../../server/admin/resources/session.ts'

/** A token that ends within this time is renewed before a call. */
const MARGIN_MS = 60_000

/** @param path the path of the key. @param account the account that pays. @param onEnded called when a call has ended */
export function HolderPlay({
  path,
  account,
  onEnded = () => {},
}: {
  readonly path: string
  readonly account: string
  readonly onEnded?: () => void
}) {
  const answer = useAnswer<{ data: readonly PlayModel[] }>('/me/api/models')
  return html`<${Answered} of=${answer} lines=${8}>
    ${({ data }: { data: readonly PlayModel[] }) =>
      html`<${Bench}
        models=${data.map(withCapabilities)}
        credential=${useToken(path)}
        charged=${`charged to ${account}`}
        after=${left}
        onEnded=${onEnded}
      />`}
  <//>`
}

/** Asks for a token when a call is made and there is none that lasts. */
function useToken(path: string): () => Promise<string> {
  const kept = useRef<PlayToken>(undefined)
  return async () => {
    const { current } = kept
    if (current && Date.parse(current.expires_at) - Date.now() > MARGIN_MS) return current.token
    kept.current = (await call<{ data: PlayToken }>('POST', `${path}/play`, { body: {} })).data
    return kept.current.token
  }
}

function left({ headers }: Exchange) {
  const requests = new Map(headers).get('x-ratelimit-remaining-requests')
  return requests ? html`<p>${requests} requests left in this minute</p>` : null
}

/** Removes an empty list of capabilities, which says nothing about the model. */
function withCapabilities(model: PlayModel): PlayModel {
  return { ...model, capabilities: model.capabilities?.length ? model.capabilities : null }
}
