/** One call on the socket: from the first byte of its request to the last byte of its answer. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { toGatewayError } from '../errors/errors.ts'
import type { BodyOwner } from '../gateway/body-budget.ts'
import type { Gateway } from '../gateway/gateway.ts'
import type { Route } from '../gateway/routes.ts'
import { Call, ClientDisconnected } from '../pipeline/pipeline.ts'
import { requestId } from '../state/ids.ts'
import { letContinue } from './front.ts'
import { NodeIncoming, NodeOutgoing } from './node-http.ts'
import { errorHeaders, finish } from './refusals.ts'

/** Runs one call from its first byte to its last. Every path ends the call. */
export async function serve(
  gateway: Gateway,
  route: Route,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { runtime } = gateway
  const { bodyTimeout, limits } = runtime.config.server
  const incoming = new NodeIncoming(request, {
    limits,
    onStart: () => letContinue(request, response),
    startTimeout: (onTimeout) => call.timeout(bodyTimeout * 1000, onTimeout),
    share: () => gateway.bodies.share(ownerOf(call)),
  })
  const { path, endpoint, format } = route
  const call = new Call({ id: requestId(), path, endpoint, format, incoming, runtime })
  gateway.track(call)
  call.scope.defer(() => incoming.release())
  const out = new NodeOutgoing(response, call)
  response.on('close', () => {
    if (response.writableFinished) return
    // Abort first: a flow that waits for a read notices nothing else.
    call.abort(new ClientDisconnected())
    void call.end('cancelled')
  })
  try {
    await format.write(call, await route.run(call), out)
  } catch (thrown) {
    if (call.outcome === 'cancelled') return
    const error = toGatewayError(thrown)
    call.report(error)
    const { status, headers, body } = format.writeError(error, call, call.id)
    call.status = status
    call.error = error
    await call.end('failed')
    if (out.headSent) return out.destroy()
    const text = JSON.stringify(body)
    out.head(status, errorHeaders(request, headers, text))
    await finish(request, response, text)
  }
}

/** The key and the account whose share of memory the body of an admitted call uses. */
function ownerOf({ key, account, entered }: Call): BodyOwner {
  return { key: key.id, account: account.id, freeTier: !entered.paid }
}
