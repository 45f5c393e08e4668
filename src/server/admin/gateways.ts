/** Gateways and deployments in the admin API: running gateways, and deployments that operators disable. */
import type { Deployment } from '../../models/catalog.ts'
import { note } from './audit.ts'
import { checkParameters } from '../../errors/query.ts'
import { gatewayView, type SettingAnswer } from './resources/gateway.ts'
import { cooldown, deploymentView } from './resources/model.ts'
import {
  bodyOf,
  missing,
  type Answer,
  type AdminRequest,
  read,
  type Routes,
  needs,
} from './route.ts'
import { settingsOf } from '../../config/settings.ts'

export const gatewayRoutes: Routes = {
  '/config': { GET: needs('config', showConfig) },
  '/deployments/:id/cooldown': { POST: needs('keys', coolDown) },
  '/deployments/:id/resume': { POST: needs('keys', resume) },
  '/gateways': { GET: needs('read', listGateways) },
}

/** Lists all gateways that share the state, the answering one first. @throws Unavailable */
async function listGateways({ gateway, query }: AdminRequest): Promise<Answer> {
  checkParameters(query, new Set())
  const instances = await gateway.instances.list()
  const data = instances.map((one, i) => gatewayView(one, i === 0))
  return { body: { data, next: null } }
}

/** Disables a deployment for some seconds, on all gateways. @throws InvalidRequest, NotFound */
async function coolDown(request: AdminRequest): Promise<Answer> {
  const { gateway } = request
  const deployment = deploymentOf(request)
  const { seconds } = read(cooldown, await bodyOf(request))
  await noting(request, 'deployment.cooldown', deployment, () =>
    gateway.disabledDeployments.disable(deployment.id, seconds),
  )
  return { body: { data: shown(request, deployment) } }
}

/** Enables a deployment again, also one in a cooldown after failures. @throws NotFound */
async function resume(request: AdminRequest): Promise<Answer> {
  const { gateway } = request
  const deployment = deploymentOf(request)
  await noting(request, 'deployment.resume', deployment, () =>
    gateway.disabledDeployments.enable(deployment.id),
  )
  return { body: { data: shown(request, deployment) } }
}

/** Changes the state of a deployment, and records the change. */
async function noting(
  request: AdminRequest,
  action: string,
  deployment: Deployment,
  change: () => Promise<void>,
): Promise<void> {
  const state = () => {
    const { state, rests_until } = shown(request, deployment).health
    return { state, rests_until }
  }
  const before = state()
  await change()
  await note(request, { action, object: `deployment:${deployment.id}`, before, after: state() })
}

function shown({ runtime: { routing } }: AdminRequest, deployment: Deployment) {
  return deploymentView(deployment, routing.healthOf(deployment).report())
}

function deploymentOf({ runtime: { catalog }, id }: AdminRequest): Deployment {
  const deployments = catalog.all().flatMap((model) => model.deployments)
  return deployments.find((one) => one.id === id) ?? missing('deployment', id)
}

// The configuration in the admin API: effective values and their origins.

/** Shows the settings. A secret is `set` or `not set`. */
function showConfig({ gateway, query }: AdminRequest): Answer {
  checkParameters(query, new Set())
  const data = settingsOf(gateway.loaded).map<SettingAnswer>(
    ({ path, value, isSecret, origin }) => ({
      path: path.join('.'),
      value,
      secret: isSecret,
      origin,
    }),
  )
  return { body: { data, next: null } }
}
