/** The page: who is signed in, which screen the address names, and its frame. */
import { render, type ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { call, toApiError, whenSignedOut, type ApiError } from './api.ts'
import { Frame } from './frame.ts'
import { html } from './html.ts'
import { listenToKeys } from './keys.ts'
import { applyTheme, followAddress, place, session, type ScreenProps } from './state.ts'
import { Empty, Failure, Skeleton } from './parts/states.ts'
import { Toasts } from './parts/toast.ts'
import { ROUTES } from './routes.ts'
import { SignIn } from './screens/signin.ts'
import type { Session } from '../server/admin/resources/session.ts'

applyTheme()
followAddress()
listenToKeys()
whenSignedOut(() => {
  if (session.value) session.value = null
})
render(html`<${App} />`, document.getElementById('app')!)

/** The token of a sign-in link's address. It is read and removed before anything else happens. */
function takeToken(): string | undefined {
  const [, token] = /^#token=(.+)$/.exec(location.hash) ?? []
  if (token !== undefined) history.replaceState(null, '', location.pathname + location.search)
  return token
}

function App() {
  const isHolder = /^\/me(\/|$)/.test(place.value.path)
  return html`${isHolder ? html`<${Screen} />` : html`<${Console} />`}<${Toasts} />`
}

/** The operators' side: it asks nothing before the operator is signed in. */
function Console() {
  const [error, setError] = useState<ApiError>()
  // A session that ends keeps the screen, with what was typed, below the sign-in.
  const [wasSignedIn, setWasSignedIn] = useState(false)
  const start = () => {
    setError(undefined)
    const token = takeToken()
    const request = token
      ? call<{ data: Session | null }>('POST', '/admin/session', { body: { token } })
      : call<{ data: Session | null }>('GET', '/admin/session')
    request.then(
      ({ data }) => (session.value = data),
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
  if (session.value === null && !wasSignedIn) return html`<${SignIn} failure=${error} />`
  return html`<${Frame}><${Screen} /><//> ${session.value === null && html`<${SignIn} over />`}`
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
      (thrown: unknown) => setError(toApiError(thrown)),
    )
  }, [route])
  useEffect(() => {
    document.title = route ? `${route.title} · Sluicegate` : 'Sluicegate'
  }, [route])
  if (!found) {
    return html`<${Empty} title="There is no such page."><a href="/console">Overview</a><//>`
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
