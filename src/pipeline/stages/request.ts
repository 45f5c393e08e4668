import { isAllowed, modelNames, tierRefusal } from '../../models/allowlist.ts'
import type { Model } from '../../models/catalog.ts'
import { Forbidden, InvalidRequest, NotFound } from '../../errors/errors.ts'
import { NO_POLICY, tighten } from '../../policy/policy.ts'
import type { Call, Stage } from '../pipeline.ts'

const ONLINE = ':online'
/** Models that a message names of those with the same name. */
const MAX_CANDIDATES = 10

/** Reads and validates the request. @throws InvalidRequest */
export const read: Stage = async function read(call, next) {
  const { format, incoming, runtime } = call
  call.request = await format.read(incoming, runtime.config.server.limits)
  return next()
}

/**
 * Finds the model and checks that the key may use it, that it belongs to this endpoint, and that it can do what the input
 * needs. Tightens the policy of the key by that of the request.
 * @throws NotFound, Forbidden, InvalidRequest
 */
export const resolve: Stage = async function resolve(call, next) {
  const { endpoint, request } = call
  const online = request.model.endsWith(ONLINE)
  const id = online ? request.model.slice(0, -ONLINE.length) : request.model
  const model = call.runtime.catalog.find(id)
  if (!model) throw unknownModel(call, id)
  call.model = model
  call.online = online && model.modality === 'chat'
  allow(call, model)
  if (model.modality !== endpoint.modality) {
    throw new InvalidRequest(
      'wrong_endpoint',
      `The model ${model.id} is served by POST ${ROUTES[model.modality]}, not here.`,
      { param: 'model' },
    )
  }
  endpoint.check(request.input, model, call.runtime.catalog)
  const { policy } = call.key
  call.policy = policy || request.policy ? tighten(policy, request.policy) : NO_POLICY
  return next()
}

/** The path of each kind of model. */
const ROUTES: Readonly<Record<Model['modality'], string>> = {
  chat: '/v1/chat/completions',
  image: '/v1/images/generations',
  ocr: '/v1/ocr',
  speech: '/v1/audio/speech',
  transcription: '/v1/audio/transcriptions',
}

function unknownModel(call: Call, id: string): NotFound {
  const shown = JSON.stringify(id.length > 100 ? `${id.slice(0, 100)}…` : id)
  const { catalog } = call.runtime
  const several = catalog.candidates(id).slice(0, MAX_CANDIDATES)
  if (several.length > 0) {
    const message = `Several models are called ${shown}. Ask for one of ${several.join(', ')}.`
    return new NotFound('model_not_found', message)
  }
  const suggestion = catalog.suggest(id)
  const hint = suggestion
    ? `Did you mean ${JSON.stringify(suggestion)}?`
    : 'GET /v1/models lists them.'
  return new NotFound('model_not_found', `There is no model ${shown}. ${hint}`)
}

function allow(call: Call, model: Model): void {
  const { models } = call.key
  if (models && !isAllowed(models, model.id)) {
    const usable = call.runtime.catalog.all().filter((one) => isAllowed(models, one.id))
    throw new Forbidden(
      'model_not_allowed',
      `This key may not use ${model.id}. Models it may use: ${modelNames(usable)}.`,
    )
  }
  if (!call.entered.paid && !model.freeTier) throw tierRefusal(call.runtime.catalog, model)
}
