/**
 * The admin API: accounts, keys, credits, ledger rows, models, the state of the gateway. Needs a token of the configuration;
 * without one there is no admin API. Members have snake_case names, amounts are JSON numbers in USD, answers are wrapped in
 * `data`, and `next` of a list is the cursor of the next page.
 */
import { H3, type H3Event } from 'h3'
import { InvalidRequest, NotFound } from '../../errors/errors.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import { requireRight } from '../../access/actors.ts'
import type { AdminAuth } from './auth.ts'
import { addSessionRoutes } from './session.ts'
import { accountRoutes } from './accounts.ts'
import { bookingRoutes } from './bookings.ts'
import { auditRoutes } from './audit.ts'
import { keyRoutes } from './keys.ts'
import { limitRoutes } from './limits.ts'
import { statementRoutes } from './statements.ts'
import { teamRoutes } from './teams.ts'
import { journalRoutes } from './journal.ts'
import { ledgerRoutes } from './ledger.ts'
import { listRoutes } from './lists.ts'
import { gatewayRoutes } from './gateways.ts'
import { guardRoutes } from './guard.ts'
import { modelImportRoutes } from './model-import.ts'
import { modelRoutes } from './models.ts'
import { managedRoutes } from './managed.ts'
import { memberRoutes } from './members.ts'
import { peopleRoutes } from './people.ts'
import { policyRoutes } from './policies.ts'
import { eventRoutes } from './events.ts'
import { paymentRoutes } from './payments.ts'
import { overviewRoutes } from './overview.ts'
import { requestRoutes } from './requests.ts'
import { type Routes, needs } from './route.ts'
import { vendorTestRoutes } from './vendor-tests.ts'
import { usageRoutes } from './usage.ts'
import { conditionView } from './views.ts'
import type { Status } from './resources/gateway.ts'
import { moment } from './resources/settings.ts'

/** Most running calls in the status. */
const SHOWN_CALLS = 100

function statusView(gateway: Gateway): Status {
  const { startedAt, version, running } = gateway
  const now = Date.now()
  return {
    version,
    node: process.versions.node,
    started_at: moment(startedAt),
    uptime_seconds: Math.floor((now - startedAt) / 1000),
    ...conditionView(gateway),
    memory_bytes: process.memoryUsage.rss(),
    running: running.size,
    calls: [...running].slice(0, SHOWN_CALLS).map(({ id, path, made, elapsedMs }) => ({
      request_id: id,
      path,
      account_id: made.admission?.account.id ?? null,
      // A question of a guard, or a test of a model, has no key.
      key_id: (made.admission?.key as { id: string } | undefined)?.id ?? null,
      model: made.target?.model.id ?? null,
      seconds: elapsedMs / 1000,
    })),
  }
}

/**
 * The app that is mounted at `/admin`. It throws GatewayErrors, which the app around it turns into bodies.
 * @param begin called for every request, before its token is checked. @param version the version of the console served now
 */
export function adminApp(
  gateway: Gateway,
  auth: AdminAuth,
  begin: (event: H3Event) => void,
  version: () => Promise<string | undefined>,
): H3 {
  const app = new H3()
  app.use((event) => {
    begin(event)
    event.res.headers.set('cache-control', 'no-store')
    event.res.headers.set('x-content-type-options', 'nosniff')
  })
  addSessionRoutes(app, gateway, auth, version)
  for (const [path, methods] of Object.entries(ADMIN_ROUTES)) {
    const routes = methods.GET ? { ...methods, HEAD: methods.GET } : methods
    app.all(path, async (event) => {
      event.runtime?.node?.res?.once('finish', () => {
        gateway.runtime.metrics.adminAnswered(path, event.runtime!.node!.res!.statusCode)
      })
      const actor = await auth.actorOf(event)
      const route = routes[event.req.method]
      if (!route) throw wrongMethod(event.req.method, Object.keys(routes).join(', '))
      requireRight(actor, ...route.rights)
      const { searchParams: query } = event.url
      const { params } = event.context
      const id = decoded(params?.id ?? '')
      const name = decoded(params?.name ?? '')
      const { runtime } = gateway
      const answer = await route.answer({ gateway, runtime, event, query, id, name, actor, auth })
      if (answer instanceof Response) return answer
      event.res.status = answer.status ?? 200
      for (const [name, value] of Object.entries(answer.headers ?? {})) {
        event.res.headers.set(name, value)
      }
      return answer.body
    })
  }
  app.all('/**', async (event) => {
    await auth.actorOf(event)
    throw new NotFound('unknown_url', 'The admin API has no such route.')
  })
  return app
}

/** Decodes an id: ids of deployments have slashes, which a path has escaped. Text that cannot be decoded is no id. */
function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

function wrongMethod(method: string, allow: string): InvalidRequest {
  const message = `This route does not take ${method}. Allowed: ${allow}.`
  return new InvalidRequest('method_not_allowed', message, { headers: { allow } })
}

// Every route of the admin API, with the right that it needs.

/** Routes by path below `/admin`, then by method; HEAD is answered like GET. */
export const ADMIN_ROUTES: Routes = {
  ...accountRoutes,
  ...bookingRoutes,
  ...usageRoutes,
  ...ledgerRoutes,
  ...journalRoutes,
  ...keyRoutes,
  ...teamRoutes,
  ...statementRoutes,
  ...limitRoutes,
  ...overviewRoutes,
  ...auditRoutes,
  ...gatewayRoutes,
  ...eventRoutes,
  ...guardRoutes,
  ...listRoutes,
  ...modelRoutes,
  ...modelImportRoutes,
  ...managedRoutes,
  ...memberRoutes,
  ...paymentRoutes,
  ...peopleRoutes,
  ...policyRoutes,
  ...requestRoutes,
  ...vendorTestRoutes,
  '/status': { GET: needs('read', ({ gateway }) => ({ body: { data: statusView(gateway) } })) },
}
