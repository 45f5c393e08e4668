import { isAllowed, modelNames, tierRefusal, unknownModel } from '../../models/allowlist.ts'
import type { Model } from '../../models/catalog.ts'
import { Forbidden, InvalidRequest } from '../../errors/errors.ts'
import { ONLINE, withoutOnline } from '../../models/names.ts'
import { labelsOf, TAG_HEADER } from '../../observe/call-labels.ts'
import { NO_POLICY, tighten } from '../../policy/policy.ts'
import { keepContents } from '../kept-contents.ts'
import type { Call, Stage } from '../pipeline.ts'

/** Reads and validates the request; has its contents kept where that is wanted. @throws InvalidRequest */
export const read: Stage = async function read(call, next) {
  const { format, incoming, runtime, key } = call
  const { server, log } = runtime.config
  call.request = await format.read(incoming, server.limits)
  const header = incoming.header(TAG_HEADER)
  call.labels = labelsOf(call.request.input, header, key.tag, log.users)
  const keeping = keepContents(call)
  if (!keeping) return await next()
  const { parts } = await next()
  return { parts: parts.through(keeping) }
}

/**
 * Finds the model and checks that the key may use it, that it belongs to this endpoint, and that it can do what the input
 * needs. Tightens the policy of the key by that of the request.
 * @throws NotFound, Forbidden, InvalidRequest
 */
export const resolve: Stage = function resolve(call, next) {
  const { endpoint, request } = call
  const online = request.model.endsWith(ONLINE)
  const { catalog } = call
  const id = withoutOnline(request.model)
  const model = catalog.find(id)
  if (!model) throw unknownModel(catalog, id)
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
  endpoint.check(request.input, model, catalog)
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
  embedding: '/v1/embeddings',
  rerank: '/v1/rerank',
  moderation: '/v1/moderations',
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
