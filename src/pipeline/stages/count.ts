import type { Deployment } from '../../models/catalog.ts'
import { NotFound, UpstreamFailure } from '../../errors/errors.ts'
import { unlessAborted } from '../../lifetime/scope.ts'
import { feedOf } from '../../stream/flow.ts'
import { failureOf, inputFor, requestOf } from '../ask.ts'
import { fitTo } from '../fallbacks.ts'
import type { Call, Stage } from '../pipeline.ts'

/**
 * Has a vendor count the tokens of the request: the first deployment whose provider can, and the next one where it fails.
 * Nothing is charged.
 * @throws NotFound for a model whose tokens no provider counts
 */
export const count: Stage = {
  name: 'count',
  async before(call) {
    const { target, runtime } = call
    const counting = target.model.deployments.filter(
      ({ provider }) => runtime.providers.get(provider)!.countTokens,
    )
    if (counting.length === 0) throw noCounter()
    fitTo(call, target.model, target)
    for (const [index, deployment] of counting.entries()) {
      try {
        call.source = feedOf([{ tokens: await tokensBy(call, deployment) }])
        return
      } catch (error) {
        const failure = failureOf(call, deployment.provider, error)
        const isLast = index === counting.length - 1
        if (isLast && UpstreamFailure.is(failure) && failure.failure === 'not_found')
          throw noCounter()
        if (isLast || !UpstreamFailure.is(failure) || !failure.failover) throw failure
      }
    }
  },
}

function noCounter(): NotFound {
  return new NotFound('model_not_found', 'No token counter for this model')
}

async function tokensBy(call: Call, deployment: Deployment): Promise<number> {
  call.answer.deployment = deployment.id
  const provider = call.runtime.providers.get(deployment.provider)!
  const scope = call.abortScope()
  scope.limits = deployment.limits
  try {
    const { signal } = scope
    const input: unknown = await inputFor(call, deployment.provider, signal)
    const request = requestOf(call, deployment, signal, input)
    return await unlessAborted(signal, provider.countTokens!(request))
  } finally {
    call.release(scope)
  }
}
