import type { Catalog } from '../models/catalog.ts'
import type { Config } from '../config/config.ts'
import { chat } from '../endpoints/chat/endpoint.ts'
import type { AnswerChunk } from '../endpoints/chat/billing.ts'
import { collect } from '../endpoints/chat/chunks.ts'
import { chatCompletions } from '../endpoints/chat/dialects/chat/write.ts'
import type { ChatRequest } from '../endpoints/chat/request.ts'
import { type GuardModelRequest, guardHost, FairSemaphore } from '../guard/host.ts'
import { GuardRegistry, type GuardInstance } from '../guard/plan.ts'
import { loadEach, loadGuard, type PluginSource } from './loader.ts'
import { fail } from './plugin-code.ts'
import { Call, type Admission, type CallerContext } from '../pipeline/pipeline.ts'
import type { Incoming } from '../pipeline/http.ts'
import type { ChatCompletion } from '../plugin.ts'
import { NO_POLICY } from '../policy/policy.ts'
import { route } from '../pipeline/stages/route.ts'

/** Most models that guards ask at the same time. */
const MOST_QUESTIONS = 64

/** Loads the guards of a configuration. @param origin with the hosts of ordinary plugins. @throws ConfigError with all problems */
export async function setUpGuards(
  config: Config,
  catalog: Catalog,
  origin: PluginSource,
): Promise<GuardRegistry> {
  const made: GuardInstance[] = []
  const places = new FairSemaphore(MOST_QUESTIONS)
  const createHost = (name: string) => guardHost(origin.createHost(name), places)
  await loadEach(config.guards.use.entries(), async ([index, settings]) => {
    const { applies, mode, billing } = settings
    const { guard, plugin, load } = await loadGuard(index, settings, { ...origin, createHost })
    const name = settings.name ?? plugin.name
    const isTaken = made.some((one) => one.name === name)
    made.push({ name, plugin: plugin.name, guard, load, applies, mode, billing })
    if (isTaken)
      fail(`guards.use.${index}.name`, `there is a guard ${JSON.stringify(name)} already`)
  })
  return new GuardRegistry(made, (id) => catalog.get(id)?.modality === 'chat')
}

/**
 * Asks a model for a guard, by the same routing as calls: without policy, guards, limits of the key, or a row in the ledger.
 * @param track adds a call to the running ones
 */
export function internalChat(track: (call: Call) => void) {
  return async function ask(
    beside: CallerContext,
    { model: id, request, signal, book }: GuardModelRequest,
  ): Promise<ChatCompletion> {
    const { id: requestId, path, runtime, catalog, account } = beside
    const incoming = withoutBody(beside.incoming)
    const model = catalog.get(id)
    if (model?.modality !== 'chat') throw new Error(`there is no chat model ${JSON.stringify(id)}`)
    const init = { id: requestId, path, endpoint: chat, format: chatCompletions, incoming, runtime }
    const call = new Call(init)
    const input = { ...request, model: id, stream: false } as ChatRequest
    // A question has no key of its own, and `route` needs none.
    call.made.admission = { account, played: false } as Admission
    call.made.target = {
      model,
      online: false,
      policy: NO_POLICY,
      outbound: chat.toUpstream(input, model),
      requiresNormalForm: false,
      native: false,
    }
    call.made.request = {
      input,
      model: id,
      stream: false,
      policy: undefined,
      session: undefined,
      affinityToken: undefined,
    }
    track(call)
    const giveUp = () => call.abort(signal.reason)
    signal.addEventListener('abort', giveUp, { once: true })
    try {
      signal.throwIfAborted()
      void call.enter(route)
      return await new Promise<ChatCompletion>((resolve, reject) => {
        const chunks: AnswerChunk[] = []
        call
          .chainTo({
            push: (chunk: AnswerChunk) => void chunks.push(chunk),
            batchEnd: () => true,
            end: () => resolve(collect(chunks)),
            fail: (error) => reject(error as Error),
          })
          .start(call.source!)
      })
    } finally {
      signal.removeEventListener('abort', giveUp)
      await call.end('completed')
      const { flags, reported, meter } = call.answer
      if (flags.has('suspicious')) beside.answer?.flags.add('suspicious')
      if (reported && beside.answer) {
        beside.answer.reported = { ...beside.answer.reported, ...reported }
      }
      for (const line of meter) book({ ...line, source: 'guard' })
    }
  }
}

/** The same request without the body, which belongs to the call that reads it. */
function withoutBody(incoming: Incoming): Incoming {
  return {
    method: incoming.method,
    url: incoming.url,
    header: (name) => incoming.header(name),
    json: unreachable,
    pieces: unreachable,
    release: () => {},
    throwIfGone: () => incoming.throwIfGone(),
  }
}

function unreachable(): never {
  throw new Error('a call for a guard has no body, and route is its last stage')
}
