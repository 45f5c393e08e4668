/** Messages above every screen: never a toast, because they stay true until they are repaired. */
import { useRef } from 'preact/hooks'
import { html } from './html.ts'
import { Notice } from './parts/states.ts'
import { place, session } from './state.ts'
import type { Status } from '../server/admin/resources/gateway.ts'

const OF_FIGURES = {
  'ledger.differs': {
    tone: 'bad',
    text: 'Usage differs from the ledger. The ledger is right; the accounts are read again.',
  },
  'log.dropped': {
    tone: 'warn',
    text: 'The request log has lost calls. Costs and usage are complete.',
  },
} as const
/** Places where a reader could change something. */
const CHANGING = /^\/console\/(?:accounts|keys|models|play|settings)/

export function Banners({ status }: { readonly status: Status | undefined }) {
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
    ${Object.entries(OF_FIGURES).map(
      ([kind, { tone, text }]) =>
        status?.alerts.some((alert) => alert.kind === kind) &&
        html`<${Notice} key=${kind} tone=${tone}>
          ${text} <a href="/console/settings/gateways">Gateways</a>
        <//>`,
    )}
    ${
      session.value?.role === 'viewer' &&
      CHANGING.test(place.value.path) &&
      html`<${Notice}>You are signed in to read: what changes something needs another role.<//>`
    }
    ${
      status?.state === 'memory' &&
      html`<${Notice} tone="warn">
        State is in memory: accounts, keys and balances are gone when the gateway ends.
      <//>`
    }
  </div>`
}
