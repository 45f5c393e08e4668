/** The Playground of a key's holder: calls with the own key, which never leaves the page's variable. */
import { useAnswer } from '../api.ts'
import { html } from '../html.ts'
import { Answered } from '../parts/states.ts'
import { Bench } from './play-bench.ts'
import type { Exchange } from './play-exchange.ts'
import type { PlayModel } from './play-request.ts'

/** @param account the account that pays. @param onEnded called when a call has ended */
export function HolderPlay({
  secret,
  account,
  onEnded,
}: {
  readonly secret: string
  readonly account: string
  readonly onEnded: () => void
}) {
  const answer = useAnswer<{ data: readonly PlayModel[] }>('/v1/models/user', { key: secret })
  return html`<${Answered} of=${answer} lines=${8}>
    ${({ data }: { data: readonly PlayModel[] }) =>
      html`<${Bench}
        models=${data.map(withCapabilities)}
        credential=${() => Promise.resolve(secret)}
        charged=${`charged to ${account}`}
        after=${left}
        onEnded=${onEnded}
      />`}
  <//>`
}

function left({ headers }: Exchange) {
  const requests = new Map(headers).get('x-ratelimit-remaining-requests')
  return requests ? html`<p>${requests} requests left in this minute</p>` : null
}

/** Removes an empty list of capabilities, which says nothing about the model. */
function withCapabilities(model: PlayModel): PlayModel {
  return { ...model, capabilities: model.capabilities?.length ? model.capabilities : null }
}
