/** What every screen has to say before its own matter: never a toast, because it stays true until it is repaired. */
import { useRef } from 'preact/hooks'
import { useAnswer } from './api.ts'
import { html } from './html.ts'
import { Notice } from './parts/states.ts'
import { session } from './state.ts'

const EVERY_MS = 30_000

/** The part of `GET /admin/status` that banners are made of. */
interface Status {
  readonly state: string
  readonly ledger: { readonly ok: boolean; readonly outbox: number }
}

/** The banners that apply. */
export function Banners() {
  const status = useAnswer<{ data: Status }>('/admin/status', { every: EVERY_MS }).data?.data
  const loaded = useRef(session.value?.version)
  const isOutdated =
    loaded.current !== undefined &&
    session.value?.version !== undefined &&
    loaded.current !== session.value.version
  return html`<div class="banners">
    ${
      session.value?.demo_filling &&
      html`<${Notice}>
        The invented calls of 30 days are being written, the oldest first. Figures still grow.
      <//>`
    }
    ${
      isOutdated &&
      html`<${Notice} tone="warn">
        The gateway serves a newer console. <a href=${location.pathname} target="_self">Reload</a>
      <//>`
    }
    ${
      status &&
      !status.ledger.ok &&
      html`<${Notice} tone="bad">
        <strong>The ledger cannot book.</strong> New calls are refused; ${status.ledger.outbox}
        charges wait to be written.
      <//>`
    }
    ${
      status?.state === 'memory' &&
      html`<${Notice} tone="warn">
        State is in memory: accounts, keys and balances are gone when the gateway ends.
      <//>`
    }
  </div>`
}
