/** The page: who is signed in, which screen the address names, and its frame. */
import { render, type ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ApiError, call, toApiError, whenSignedOut } from './api.ts'
import { takeFragment } from './fragment.ts'
import { Frame, Mark } from './frame.ts'
import { html } from './html.ts'
import { listenToKeys } from './keys.ts'
import { applyTheme, followAddress, manual, place, session, type ScreenProps } from './state.ts'
import { Empty, Failure, Skeleton } from './parts/states.ts'
import { copyExactly } from './parts/copy.ts'
import { LazyHelp } from './parts/lazy.ts'
import { Toasts } from './parts/toast.ts'
import type { Session, SignInWays } from '../server/admin/resources/session.ts'
import { Button } from './parts/button.ts'
import { TextField, useSubmission } from './parts/form.ts'
import { Dialog } from './parts/sheet.ts'

// The screens by address. They are loaded when they are opened.

interface Route {
  /** The path, in which parts that begin with a colon are parameters. */
  readonly path: string
  readonly title: string
  readonly load: () => Promise<ComponentType<ScreenProps>>
}

const ROUTES: readonly Route[] = [
  {
    path: '/console',
    title: 'Overview',
    load: async () => (await import('./screens/overview.ts')).Overview,
  },
  {
    path: '/console/start',
    title: 'Start',
    load: async () => (await import('./screens/start.ts')).Start,
  },
  {
    path: '/console/usage',
    title: 'Usage',
    load: async () => (await import('./screens/usage.ts')).Usage,
  },
  {
    path: '/console/requests',
    title: 'Requests',
    load: async () => (await import('./screens/requests.ts')).Requests,
  },
  {
    path: '/console/keys',
    title: 'Keys',
    load: async () => (await import('./screens/keys.ts')).Keys,
  },
  ...['/console/keys/:id', '/console/keys/:id/:tab'].map((path) => ({
    path,
    title: 'Key',
    load: async () => (await import('./screens/key.ts')).Key,
  })),
  {
    path: '/console/accounts',
    title: 'Accounts',
    load: async () => (await import('./screens/accounts.ts')).Accounts,
  },
  ...['/console/accounts/:id', '/console/accounts/:id/:tab'].map((path) => ({
    path,
    title: 'Account',
    load: async () => (await import('./screens/account.ts')).Account,
  })),
  {
    path: '/console/payments',
    title: 'Payments',
    load: async () => (await import('./screens/payments.ts')).Payments,
  },
  ...['/console/models', '/console/models/:tab'].map((path) => ({
    path,
    title: 'Models',
    load: async () => (await import('./screens/models.ts')).Models,
  })),
  {
    path: '/console/guard',
    title: 'Guard',
    load: async () => (await import('./screens/guard.ts')).Guard,
  },
  ...['/console/settings', '/console/settings/:tab'].map((path) => ({
    path,
    title: 'Settings',
    load: async () => (await import('./screens/settings.ts')).Settings,
  })),
  {
    path: '/console/play',
    title: 'Playground',
    load: async () => (await import('./screens/play.ts')).Playground,
  },
  ...['/me', '/me/:tab'].map((path) => ({
    path,
    title: 'Your key',
    load: async () => (await import('./screens/me.ts')).Me,
  })),
]

/** Time between two questions whether the gateway answers again. */
const AGAIN_MS = 3000

applyTheme()
document.addEventListener('copy', copyExactly)
followAddress()
listenToKeys()
whenSignedOut(() => {
  if (session.value) session.value = null
})
render(html`<${App} />`, document.getElementById('app')!)

function App() {
  const isHolder = /^\/me(\/|$)/.test(place.value.path)
  return html`${isHolder ? html`<${Screen} />` : html`<${Console} />`}${manual.value !== undefined && html`<${LazyHelp} />`}<${Toasts} />`
}

interface OwnSession {
  readonly data: Session | null
  /** Where there is no session. */
  readonly sign_in?: SignInWays
}

/** The operators' side: it asks nothing before the operator is signed in. */
function Console() {
  const [error, setError] = useState<ApiError>()
  const [ways, setWays] = useState<SignInWays>()
  // A session that ends keeps the screen, with what was typed, below the sign-in.
  const [wasSignedIn, setWasSignedIn] = useState(false)
  const start = () => {
    setError(undefined)
    const { token, failure } = takeFragment()
    const request = token
      ? call<OwnSession>('POST', '/admin/session', { body: { token } })
      : call<OwnSession>('GET', '/admin/session')
    request.then(
      ({ data, sign_in }) => {
        session.value = data
        setWays(sign_in)
        if (!data && failure) setError(failure)
      },
      (thrown: unknown) => {
        const failure = toApiError(thrown)
        session.value = null
        if (token !== undefined || ![401, 404].includes(failure.status)) setError(failure)
      },
    )
  }
  useEffect(start, [])
  useEffect(() => {
    if (session.value) setWasSignedIn(true)
  }, [session.value])
  if (session.value === undefined) return html`<main class="lone"><${Skeleton} /></main>`
  if (session.value === null && !wasSignedIn)
    return html`<${SignIn} failure=${error} ways=${ways} />`
  return html`<${Frame}><${Screen} /><//> ${session.value === null && html`<${SignIn} over ways=${ways} />`}`
}

function Screen() {
  const { path } = place.value
  const found = routeOf(path)
  const [loaded, setLoaded] = useState<{
    readonly route: unknown
    readonly screen: ComponentType<ScreenProps>
  }>()
  const [error, setError] = useState<ApiError>()
  const route = found?.route
  useEffect(() => {
    setError(undefined)
    route?.load().then(
      (screen) => setLoaded({ route, screen }),
      // The words of the browser name a file, which says nothing to a reader.
      () => setError(new ApiError(0, undefined, null)),
    )
  }, [route])
  // A file of the page that did not come is asked for again with the page, when the gateway answers. Nothing is typed here yet.
  useEffect(() => {
    if (!error) return undefined
    const again = () =>
      void fetch(location.href).then(
        () => location.reload(),
        () => {},
      )
    const timer = setInterval(again, AGAIN_MS)
    return () => clearInterval(timer)
  }, [error])
  useEffect(() => {
    document.title = route ? `${route.title} · Sluicegate` : 'Sluicegate'
  }, [route])
  if (!found) {
    return html`<h1 class="hidden">Not found</h1><${Empty} title="There is no such page."><a href="/console">Overview</a><//>`
  }
  if (error) return html`<${Failure} error=${error} onRetry=${() => location.reload()} />`
  if (loaded?.route !== route) return html`<${Skeleton} lines=${10} />`
  return html`<${loaded!.screen} key=${found.params.id ?? ''} params=${found.params} />`
}

function routeOf(path: string) {
  const parts = path.replace(/\/$/, '').split('/')
  for (const route of ROUTES) {
    const pattern = route.path.split('/')
    if (pattern.length !== parts.length) continue
    if (!pattern.every((part, index) => part.startsWith(':') || part === parts[index])) continue
    const named = pattern.flatMap((part, index) =>
      part.startsWith(':') ? [[part.slice(1), decodeURIComponent(parts[index]!)] as const] : [],
    )
    return { route, params: Object.fromEntries(named) }
  }
  return undefined
}

// Signing in as an operator. Over a screen whose session has ended, it keeps what was typed there.

/** @param failure the error of a sign-in link that did not work */
function SignIn({
  over = false,
  failure,
  ways,
}: {
  readonly over?: boolean
  readonly ways?: SignInWays | undefined
  readonly failure?: ApiError
}) {
  if (over) {
    return html`<${Dialog} title="Your session has ended" onClose=${() => {}}>
      <${TokenForm} /><${Providers} ways=${ways} />
    <//>`
  }
  return html`<main class="lone">
    <h1 class="brand"><${Mark} />Sluicegate</h1>
    ${failure && html`<${Failure} error=${failure} />`}
    <${TokenForm} />
    <${Providers} ways=${ways} />
    <p class="help">
      On the gateway's machine, <code>sluicegate console</code> prints a link that signs you in. The
      holder of an API key goes to <a href="/me">their own page</a>.
    </p>
  </main>`
}

/** Links to the providers through which operators sign in; afterwards the same page is shown. */
function Providers({ ways }: { readonly ways: SignInWays | undefined }) {
  if (!ways || ways.providers.length === 0) return null
  const to = encodeURIComponent(location.pathname + location.search)
  return html`<div class="actions">
    ${ways.providers.map(
      ({ name, label }) =>
        html`<a key=${name} class="button" href=${`/login/${name}?to=${to}`}>Sign in with ${label}</a>`,
    )}
  </div>`
}

function TokenForm() {
  const [token, setToken] = useState('')
  const [missing, setMissing] = useState(false)
  const form = useSubmission(async () => {
    if (token.trim() === '') return setMissing(true)
    const { data } = await call<{ data: Session }>('POST', '/admin/session', {
      body: { token: token.trim() },
    })
    setToken('')
    session.value = data
  })
  return html`<form class="form" onSubmit=${form.submit}>
    <${TextField}
      label="Admin token"
      type="password"
      value=${token}
      onInput=${setToken}
      autofocus
      autocomplete="current-password"
      error=${form.error?.message ?? (missing && token === '' ? 'Enter a token of the configuration.' : undefined)}
      help="One of admin.token and admin.tokens of the configuration. Where it has none, the first start wrote one to the file admin-token of the data folder."
    />
    <div class="actions"><${Button} kind="primary" type="submit" busy=${form.busy}>Sign in<//></div>
  </form>`
}
