import { hash } from 'node:crypto'
import { checkLists, tierRefusal, unknownModel } from '../../models/allowlist.ts'
import type { Model } from '../../models/catalog.ts'
import { InvalidRequest } from '../../errors/errors.ts'
import { ONLINE, withoutOnline } from '../../models/names.ts'
import { reasonOf } from '../../models/unserved.ts'
import { tellUnserved } from '../unserved.ts'
import { NO_POLICY, tighten, instructionsOf } from '../../policy/policy.ts'
import type { Recall } from '../../answers/items.ts'
import { ownerOf } from '../caller.ts'
import { keepContents } from '../contents.ts'
import type { Call, Stage } from '../pipeline.ts'
import type { CallLabels } from '../../observe/record.ts'

/** How end users are kept: as the client names them, as a hash, or not at all. */
type UserForm = 'plain' | 'hash' | 'none'

/** Header in which a client labels a call. It is not sent to vendors. */
const TAG_HEADER = 'x-service-tag'

const TAG = /^[A-Za-z0-9_.:-]{1,64}$/

/** Printable ASCII without a blank at either end. */
const PLAIN_LABEL = /^[\x21-\x7e](?:[\x20-\x7e]{0,62}[\x21-\x7e])?$/

const NO_LABELS: CallLabels = {}

interface Labelled {
  readonly metadata?: unknown
  readonly safety_identifier?: unknown
  readonly user?: unknown
}

/**
 * The labels of a request.
 * @param fixed the tag of the key, which overrides every other
 * @throws InvalidRequest for a header that is not a valid tag
 */
export function labelsOf(
  input: Labelled,
  header: string | undefined,
  fixed: string | undefined,
  users: UserForm,
): CallLabels {
  const { metadata, safety_identifier: identifier, user } = input
  const members = isObject(metadata) ? metadata : {}
  const tag = fixed ?? tagOf(header, members.tag)
  const name = [identifier, user, members.user_id].find((one) => typeof one === 'string' && one)
  const endUser = users === 'none' ? undefined : (name as string | undefined)
  if (tag === undefined && endUser === undefined) return NO_LABELS
  return {
    ...(tag !== undefined && { tag }),
    ...(endUser !== undefined && { user: userOf(endUser, users) }),
  }
}

function tagOf(header: string | undefined, member: unknown): string | undefined {
  if (header !== undefined) {
    if (TAG.test(header)) return header
    const message = 'Invalid X-Service-Tag: expected 1 to 64 letters, digits, "_", ".", ":" or "-".'
    throw new InvalidRequest('invalid_value', message)
  }
  return typeof member === 'string' && TAG.test(member) ? member : undefined
}

function userOf(name: string, users: UserForm): string {
  // A name that looks like a hash is hashed too, so that it cannot be taken for another's.
  if (users === 'plain' && PLAIN_LABEL.test(name) && !name.startsWith('h:')) return name
  return `h:${hash('sha256', name).slice(0, 16)}`
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}

/** Reads and validates the request; has its contents kept where that is wanted. @throws InvalidRequest */
export const read: Stage = {
  name: 'read',
  before(call) {
    const { format, incoming, runtime, admission } = call
    const { server, log } = runtime.config
    const recall: Recall = (ids) => runtime.items.recall(ownerOf(call), ids)
    return format.read(incoming, server.limits, recall).then((request) => {
      const header = incoming.header(TAG_HEADER)
      call.made.request = request
      const labels = labelsOf(request.input as Labelled, header, admission.key.tag, log.users)
      call.made.request = { ...request, labels }
      // The stage `guard` keeps masked requests, as a vendor gets them.
      const isMasked = runtime.guards.maskingFor(admission.key.mask === true).length > 0
      const keeping = isMasked ? undefined : keepContents(call)
      if (keeping) call.through(keeping)
    })
  },
  end: (call) => call.contents?.(),
}

/**
 * Finds the model and checks that the key may use it, that it belongs to this endpoint, and that it can do what the input
 * needs. Tightens the policy of the key by that of the request.
 * @throws NotFound, Forbidden, InvalidRequest
 */
export const resolve: Stage = {
  name: 'resolve',
  before(call) {
    const { endpoint, request, catalog } = call
    const id = withoutOnline(request.model)
    const resolved = catalog.resolve(id)
    if (!resolved) {
      const reason = reasonOf(id, catalog.candidates(id), call.runtime.config)
      tellUnserved(call, id, reason, catalog.suggest(id))
      throw unknownModel(catalog, id)
    }
    const { model } = resolved
    const { policy } = call.admission.key
    call.made.target = {
      model,
      online: model.modality === 'chat' && request.model.endsWith(ONLINE),
      policy: policy || request.policy ? tighten(policy, request.policy) : NO_POLICY,
      outbound: undefined,
      thinks: resolved.thinks,
      requiresNormalForm: resolved.thinks,
      native: false,
    }
    allow(call, model)
    if (model.modality !== endpoint.modality) {
      throw new InvalidRequest(
        'wrong_endpoint',
        `The model ${model.id} is served by POST ${ROUTES[model.modality]}, not here.`,
        { param: 'model' },
      )
    }
    endpoint.check(request.input, model, catalog)
  },
}

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
  const { admission, catalog } = call
  checkLists(admission, model, catalog)
  const { entered } = admission
  if (!entered!.paid && !model.freeTier) throw tierRefusal(call.runtime.catalog, model)
}

/**
 * Applies the policy: system text and token ceiling go into the outbound request. Members of the request's policy that would
 * loosen the key's are ignored and named in a header.
 */
export const constrain: Stage = {
  name: 'constrain',
  before(call) {
    const { endpoint, request, target } = call
    const { policy } = target
    target.outbound = endpoint.toUpstream(request.input)
    if (policy === NO_POLICY) return
    if (policy.ignored.length > 0) {
      call.headers['x-service-policy-ignored'] = policy.ignored.join(', ')
    }
    const to = instructionsOf(policy)
    const { instructions } = endpoint
    if (!to || !instructions) return
    target.outbound = instructions.apply(target.outbound, to)
    if (to.maxOutputTokens !== undefined) {
      call.through(instructions.limit(to.maxOutputTokens, request.input))
    }
  },
}
