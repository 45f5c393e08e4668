/** The frame of every screen of an operator: places, search, alerts, preferences, and who is signed in. */
import { signOut } from './acts.ts'
import { useEffect, useRef, useState } from 'preact/hooks'
import { acted, call } from './api.ts'
import type { Condition } from '../server/admin/resources/gateway.ts'
import type { Session } from '../server/admin/resources/session.ts'
import { count } from './format.ts'
import { html, type Content } from './html.ts'
import { SHORTCUTS, useKeys } from './keys.ts'
import { Button } from './parts/button.ts'
import { CheckField } from './parts/form.ts'
import { Dialog } from './parts/sheet.ts'
import { Search } from './search.ts'
import { go, manual, place, prefer, preferences, session } from './state.ts'
import { Notice } from './parts/states.ts'

const PLACES = [
  {
    path: '/console',
    label: 'Overview',
    letter: 'o',
    icon: 'M2 2h5v5H2zM9 2h5v5H9zM2 9h5v5H2zM9 9h5v5H9z',
  },
  {
    path: '/console/usage',
    label: 'Usage',
    letter: 'u',
    icon: 'M2 14V8h3v6zM6.5 14V4h3v10zM11 14V2h3v12z',
  },
  {
    path: '/console/requests',
    label: 'Requests',
    letter: 'r',
    icon: 'M2 3h12v2H2zM2 7h12v2H2zM2 11h8v2H2z',
  },
  {
    path: '/console/accounts',
    label: 'Accounts',
    letter: 'a',
    icon: 'M8 2a3 3 0 110 6 3 3 0 010-6zM2 14c0-3 3-5 6-5s6 2 6 5z',
  },
  {
    path: '/console/keys',
    label: 'Keys',
    letter: 'k',
    icon: 'M5 5a3 3 0 110 6 3 3 0 010-6zm3 2.2h6v1.6h-1V11h-1.6V8.800H8z',
  },
  {
    path: '/console/models',
    label: 'Models',
    letter: 'm',
    icon: 'M8 1l6 3.500v7L8 15l-6-3.500v-7zm0 2L4 5.3 8 7.600l4-2.300z',
  },
  {
    path: '/console/guard',
    label: 'Guard',
    letter: 'g',
    icon: 'M8 1l6 2v5c0 3.5-2.5 6-6 7-3.5-1-6-3.5-6-7V3z',
  },
  { path: '/console/play', label: 'Playground', letter: 'p', icon: 'M4 2l9 6-9 6z' },
  {
    path: '/console/settings',
    label: 'Settings',
    letter: 's',
    icon: 'M2 4h7v2H2zM11 3h3v4h-3zM2 10h3v2H2zM7 9h3v4H7zM12 10h2v2h-2z',
  },
] as const

/** Pages of the manual by the beginning of an address; the first one that fits. */
const MANUAL: readonly (readonly [RegExp, string])[] = [
  [/^\/console\/start/, 'tasks/first-vendor'],
  [/^\/console\/keys\/[^/]+\/policy/, 'policies'],
  [/^\/console\/keys/, 'operate/keys'],
  [/^\/console\/accounts/, 'keys-and-money'],
  [/^\/console\/usage/, 'console#who-spent-what'],
  [/^\/console\/requests/, 'console#why-a-call-failed'],
  [/^\/console\/models\/vendors/, 'operate/set-up'],
  [/^\/console\/models/, 'models-and-prices'],
  [/^\/console\/guard/, 'console#policies'],
  [/^\/console\/play/, 'console#models-and-the-playground'],
  [/^\/console\/settings\/connections/, 'operate/sinks'],
  [/^\/console\/settings\/people/, 'operate/sign-in'],
  [/^\/console\/settings\/alerts/, 'operate/alerts'],
  [/^\/console\/settings\/audit/, 'operate/logs'],
  [/^\/console\/settings\/gateways/, 'operations'],
  [/^\/console\/settings/, 'configuration'],
  [/^/, 'console'],
]

const manualOf = (path: string) => MANUAL.find(([begin]) => begin.test(path))![1]

const EVERY_MS = 30_000
const THEMES = { system: 'light', light: 'dark', dark: 'system' } as const

export function Frame({ children }: { readonly children?: Content }) {
  const [help, setHelp] = useState(false)
  const [menu, setMenu] = useState(false)
  const { path } = place.value
  useEffect(() => setMenu(false), [path])
  const openManual = () => (manual.value = manualOf(path))
  useKeys({
    h: openManual,
    '?': () => setHelp(true),
    ...Object.fromEntries(PLACES.map((one) => [`g ${one.letter}`, () => go(carried(one.path))])),
  })
  useRenewal()
  const status = session.value?.status
  return html`<a class="skip" href="#main" onClick=${skipToMain}>Skip to the screen</a>
    <div class=${menu ? 'frame menu-open' : 'frame'}>
      <nav class="places" aria-label="Places">
        <a class="brand" href="/console"><${Mark} />Sluicegate</a>
        <ul id="places">
          ${PLACES.map((one) => html`<li key=${one.path}><${PlaceLink} place=${one} /></li>`)}
        </ul>
      </nav>
      <header class="top">
        <button
          type="button"
          class="button quiet menu-button"
          aria-expanded=${menu ? 'true' : 'false'}
          aria-controls="places"
          onClick=${() => setMenu(!menu)}
        >
          ☰<span class="hidden">Menu</span>
        </button>
        <${Search} />
        <div class="top-end">
          ${session.value?.demo && html`<span class="badge" title="These accounts and calls are made up">Demo<span> data</span></span>`}
          <${AlertCount} status=${status} /><${ZoneSwitch} /><${ThemeSwitch} />
          <${Button} kind="quiet" title="Keyboard (?)" onClick=${() => setHelp(true)}
            ><span aria-hidden="true">⌨</span><span class="hidden">Keyboard shortcuts</span><//
          >
          <${Button} kind="quiet" title="Manual of this screen (h)" onClick=${openManual}
            ><span aria-hidden="true">?</span><span class="hidden">Manual of this screen</span><//
          >
          <${Account} />
        </div>
      </header>
      <main id="main" tabindex="-1">
        <${Banners} status=${status} />
        ${children}
      </main>
    </div>
    ${help && html`<${Shortcuts} onClose=${() => setHelp(false)} />`}`
}

/** The logo: a gate. */
export function Mark() {
  return html`<svg class="mark" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
    <path d="M2 2h2v12H2zM12 2h2v12h-2zM5 2h6v6H5z" />
    <path class="water" d="M5 11h6v1.500H5z" />
  </svg>`
}

function PlaceLink({
  place: { path, label, letter, icon },
}: {
  readonly place: (typeof PLACES)[number]
}) {
  const now = place.value.path
  const isHere =
    now === path ||
    (path !== '/console' && now.startsWith(`${path}/`)) ||
    (path === '/console/accounts' && now === '/console/payments')
  return html`<a
    href=${carried(path)}
    aria-current=${isHere ? 'page' : undefined}
    title=${`${label} (g ${letter})`}
  >
    <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path d=${icon} /></svg>
    ${label}
  </a>`
}

function AlertCount({ status }: { readonly status: Condition | undefined }) {
  const many = status?.alerts.length ?? 0
  if (many === 0) return null
  const title = many === 1 ? '1 active alert' : `${count(many)} active alerts`
  return html`<a class="button quiet alerts" href="/console/settings/alerts" title=${title}>
    <span class="warn" aria-hidden="true">! ${count(many)}</span
    ><span class="hidden">${title}</span>
  </a>`
}

export function ZoneSwitch() {
  const { zone } = preferences.value
  return html`<${Button}
    kind="quiet"
    title="Zone of moments; days are always UTC days"
    onClick=${() => prefer({ zone: zone === 'utc' ? 'local' : 'utc' })}
    >${zone === 'utc' ? 'UTC' : 'Local'}<//
  >`
}

export function ThemeSwitch() {
  const { theme } = preferences.value
  return html`<${Button}
    kind="quiet"
    title=${`Theme: ${theme}`}
    onClick=${() => prefer({ theme: THEMES[theme] })}
    ><span aria-hidden="true">${theme === 'system' ? '◐' : theme === 'light' ? '○' : '●'}</span
    ><span class="hidden">Theme: ${theme}</span><//
  >`
}

function Account() {
  const who = session.value
  if (!who) return null
  return html`<details class="menu">
    <summary class="button quiet who" title=${`${who.name}, ${who.role}`}>
      <span>${who.name}</span><span class="muted"> (${who.role})</span>
    </summary>
    <div class="menu-list end">
      <p class="help">
        Signing out ends this session. All sessions of a token end when the token is changed in the
        configuration.
      </p>
      <${Button} onClick=${signOut}>Sign out<//>
    </div>
  </details>`
}

function Shortcuts({ onClose }: { readonly onClose: () => void }) {
  return html`<${Dialog} title="Keyboard" onClose=${onClose}>
    <dl class="shortcuts">
      ${SHORTCUTS.map(
        ({ keys, does }) =>
          html`<div key=${keys}>
            <dt><kbd>${keys}</kbd></dt>
            <dd>${does}</dd>
          </div>`,
      )}
    </dl>
    <${CheckField}
      label="Single letters are shortcuts"
      checked=${preferences.value.letters}
      onChange=${(letters: boolean) => prefer({ letters })}
    />
  <//>`
}

/**
 * Renews the session, which use prolongs, and what the frame says of the gateway: also when the page is shown again, which finds
 * a newer page, and after an act.
 */
function useRenewal(): void {
  const everyMs = session.value?.demo_filling ? 1000 : EVERY_MS
  useEffect(() => {
    const renew = () => {
      if (document.hidden) return
      call<{ data: Session | null }>('GET', '/admin/session').then(
        ({ data }) => (session.value = data),
        () => {},
      )
    }
    if (acted.value > 0) renew()
    const timer = setInterval(renew, everyMs)
    document.addEventListener('visibilitychange', renew)
    return () => {
      clearInterval(timer)
      document.removeEventListener('visibilitychange', renew)
    }
  }, [everyMs, acted.value])
}

function skipToMain(event: Event): void {
  event.preventDefault()
  document.getElementById('main')?.focus()
}

// Messages above every screen: never a toast, because they stay true until they are repaired.

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

function Banners({ status }: { readonly status: Condition | undefined }) {
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
        The gateway serves a newer console. <a href=${place.value.path} target="_self">Reload</a>
      <//>`
    }
    ${
      status &&
      !status.ledger.ok &&
      html`<${Notice} tone="bad">
        <strong>The ledger cannot write.</strong> ${status.ledger.why && `${status.ledger.why}. `}New
        calls are refused; ${status.ledger.outbox} charges wait to be written.
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

/** Parameters that usage, requests and guard have in common, so that they stay when the reader goes from one to another. */
const CARRIED = ['from', 'to', 'account', 'team', 'key', 'model']

function carried(path: string): string {
  const kept = [...place.value.query].filter(([name]) => CARRIED.includes(name))
  const text = new URLSearchParams(kept).toString()
  return text === '' ? path : `${path}?${text}`
}
