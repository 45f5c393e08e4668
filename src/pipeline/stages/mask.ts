import { PolicyViolation, Unavailable } from '../../errors/errors.ts'
import type { GuardInstance } from '../../guard/plan.ts'
import { GuardFault, GuardRunner } from '../../guard/runner.ts'
import { type Locate, type Masking, locateBy } from '../../masking/masking.ts'
import type { GuardContext } from '../../plugin.ts'
import type { Call, Stage } from '../pipeline.ts'

const UNAVAILABLE =
  'Personal data is masked for this key, and a guard could not look for it. Try again later.'

/**
 * Replaces the personal data of a request by names before anything of it leaves the gateway, for keys that want that and
 * guards that find it. Kinds of work whose answers have no place for the values refuse it.
 * @throws Unavailable where a guard cannot look: what could not be masked does not leave
 */
export const mask: Stage = {
  name: 'mask',
  before(call) {
    const { runtime, admission } = call
    const guards = runtime.guards.maskingFor(admission.key.mask === true)
    return guards.length === 0 ? undefined : maskRequest(call, guards)
  },
  end({ made, runtime }) {
    const masking = made.target?.masked?.masking
    if (masking) runtime.metrics.guard.restored(masking.restoredCount, masking.alteredCount)
  },
}

async function maskRequest(call: Call, guards: readonly GuardInstance[]): Promise<void> {
  const { request, target, endpoint, admission, runtime } = call
  const [{ makeMasking, numberBy }, labelOf] = await Promise.all([
    import('../../masking/masking.ts'),
    runtime.labels.open(),
    ...guards.map((one) => one.load?.()),
  ])
  const scope = call.abortScope()
  try {
    const locate = locateBy(guards.map((one) => runnerOf(call, one, scope.signal)))
    if (!endpoint.mask) return await refuseFound(call, locate)
    const unreadable = endpoint.guard?.unreadable?.(request.input)
    if (unreadable) throw unreadable
    const texts = await endpoint.mask()
    const map = (change: Parameters<typeof texts.map>[1]) => texts.map(request.input, change)
    const { masking, input } = await makeMasking(
      map,
      locate,
      numberBy(labelOf, admission.account.id),
    )
    call.throwIfAborted()
    const { count } = masking
    const labels = request.labels && maskedLabels(masking, request.labels, admission.key.tag)
    call.made.request = { ...request, input, ...(labels && { labels }) }
    target.requiresNormalForm = true
    masking.unmasked = mediaOf(call)
    const restoring = count > 0 ? texts.restoring?.(call, masking, input) : undefined
    target.masked = { original: request.input, masking, restoring }
    runtime.metrics.guard.masked(masking.counts())
    // Until guards have decided, the header tells of masking alone.
    call.headers['x-service-guard'] = masking.header()
  } catch (error) {
    call.throwIfAborted()
    if (!(error instanceof GuardFault)) throw error
    runtime.faults.warn(`mask ${error.kind}`, `${call.id}: masking failed: ${error.message}`)
    throw new Unavailable('guard_unavailable', UNAVAILABLE, { cause: error })
  } finally {
    call.release(scope)
    scope.abort()
  }
}

/** Refuses personal data where no answer could have it again. @throws PolicyViolation */
async function refuseFound(call: Call, locate: Locate): Promise<void> {
  const items = call.endpoint.guard?.inputTexts(call.request.input, []).items ?? []
  const kinds = new Set<string>()
  for (const { text } of items) {
    if (text === '') continue
    for (const { label = 'data' } of await locate(text)) {
      kinds.add(label.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-'))
    }
  }
  if (kinds.size === 0) return
  throw new PolicyViolation(
    `This request holds personal data (${[...kinds].sort().join(',')}), which is masked for this key and cannot be put back here.`,
  )
}

/** Kinds of contents beside the texts, which are not masked. */
function mediaOf({ endpoint, request }: Call): readonly string[] {
  const items = endpoint.guard?.inputTexts(request.input, []).items ?? []
  const kinds = items.flatMap(({ media = [] }) => media.map(({ kind }) => kind))
  return [...new Set(kinds)].sort()
}

/** Labels that logs keep. A tag has no brackets. @param fixed the tag of the key, which is the operator's word */
function maskedLabels(
  masking: Masking,
  labels: NonNullable<Call['request']['labels']>,
  fixed: string | undefined,
): typeof labels {
  const { tag, user } = labels
  return {
    ...labels,
    ...(tag !== undefined && tag !== fixed && { tag: masking.mask(tag).replaceAll(/[[\]]/g, '') }),
    ...(user !== undefined && { user: masking.mask(user) }),
  }
}

function runnerOf(call: Call, instance: GuardInstance, signal: AbortSignal): GuardRunner {
  const { runtime, admission, target, endpoint, id } = call
  const { input, output } = runtime.config.guards.deadlines
  const { name, guard } = instance
  const rules = Object.freeze({ scopes: [], deny: [], bannedPatterns: [] })
  const contextOf = (own: AbortSignal, deadline: number): GuardContext =>
    Object.freeze({
      requestId: id,
      accountId: admission.account.id,
      keyId: admission.key.id,
      operation: endpoint.operation,
      model: target.model.id,
      origin: 'key',
      rules,
      conversation: Object.freeze({ userTurn: '' }),
      signal: own,
      deadline,
    })
  return new GuardRunner({
    name,
    guard,
    origin: 'key',
    ruleFilter: () => false,
    circuit: runtime.guards.circuits.get(`${name} key`)!,
    verdicts: runtime.guards.verdicts,
    metrics: runtime.metrics.guard,
    onQuestion: (question) => call.addQuestion({ to: 'guard', ...question }),
    late: runtime.metrics,
    limitsMs: { input: input * 1000, output: output * 1000 },
    signal,
    contextOf,
  })
}
