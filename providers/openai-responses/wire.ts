/** Which of OpenAI's two APIs a deployment is asked with. */
import * as v from 'valibot'
import type { Host, Provider, OptionField } from '../../src/plugin.ts'
import { createChat, type ChatTarget } from '../openai-compatible/chat.ts'
import { httpFailure } from '../openai-compatible/errors.ts'
import type { DeploymentOptions } from '../openai-compatible/options.ts'
import type { HttpFailure } from '../shared/http.ts'
import { withRemedies } from '../shared/remedies.ts'
import { createResponses, type ResponsesTarget } from './chat.ts'
import { needsResponses } from '../openai-compatible/rows.ts'

/** The option `api` of a deployment: one API, or the one that the model needs. */
export const apiOption = v.optional(v.picklist(['auto', 'responses', 'chat']), 'auto')

/** The same, as a field. */
export const API_FIELD: OptionField = {
  name: 'api',
  label: 'API',
  kind: 'choice',
  choices: ['auto', 'responses', 'chat'],
}

/** Options of a deployment that has the choice. */
export interface ApiOptions extends DeploymentOptions {
  readonly api: v.InferOutput<typeof apiOption>
}

type Chat = NonNullable<Provider['chat']>

/**
 * A chat method that asks each deployment with one API, whatever a request needs: caches and encrypted reasoning of one
 * are of no use to the other.
 * @param chatTarget the target of chat completions, as `responsesTarget` is that of the other API; called for every request
 * @param automatic whether `auto` lets the name of the model decide, and believes a vendor that refers to the Responses API;
 *   otherwise `auto` means chat completions
 */
export function createEitherChat<Options extends ApiOptions>(
  host: Host,
  chatTarget: (model: string, options: Options) => ChatTarget,
  responsesTarget: (model: string, options: Options) => ResponsesTarget,
  automatic: boolean,
): Chat {
  const responses = createResponses<Options>(host, responsesTarget)
  /** Models that the vendor serves with the Responses API only, as it has said. */
  const learned = new Set<string>()
  const referrals = new WeakSet<Error>()
  const noticing: HttpFailure = (fail, response, body) => {
    const error = httpFailure(fail, response, body)
    if (refersToResponses(response.status, body)) referrals.add(error)
    return error
  }
  const chat = createChat<Options>(host, (model, options) => {
    const target = chatTarget(model, options)
    return automatic ? { ...target, httpFailure: noticing } : target
  })

  return withRemedies(host, (request) => {
    const { model, options } = request
    const { api } = options as Options
    if (api === 'responses') return responses(request)
    if (api === 'chat' || !automatic) return chat(request)
    if (learned.has(model) || needsResponses(model)) return responses(request)
    return chat(request).catch((error: unknown) => {
      if (!(error instanceof Error && referrals.has(error))) throw error
      learned.add(model)
      return responses(request)
    })
  })
}

/** Whether a refusal names the API that the model needs: for requests with tools, or for all. */
function refersToResponses(status: number, body: string): boolean {
  return (status === 400 || status === 404) && /\bv1\\?\/responses\b/.test(body)
}
