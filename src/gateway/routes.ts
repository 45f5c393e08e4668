import { credits, key } from '../endpoints/account/endpoints.ts'
import { model, models, usableModels, description } from '../endpoints/account/models.ts'
import { answerOf, formatOf, type GetRoute } from '../endpoints/account/route.ts'
import { keyCheckout, keyPayment, keyPayments } from '../endpoints/account/payments.ts'
import { keyRequest, keyRequests, keyUsage } from '../endpoints/account/usage.ts'
import { chatCompletions } from '../endpoints/chat/dialects/chat/write.ts'
import { textCompletions } from '../endpoints/chat/dialects/completions/write.ts'
import { messages, messageTokens } from '../endpoints/chat/dialects/messages/write.ts'
import { compaction } from '../endpoints/chat/dialects/responses/compact.ts'
import { responses, responseTokens } from '../endpoints/chat/dialects/responses/write.ts'
import { completions } from '../endpoints/chat/completions.ts'
import { countTokens } from '../endpoints/chat/count.ts'
import { chat } from '../endpoints/chat/endpoint.ts'
import { summarize } from '../endpoints/chat/summarize.ts'
import { embeddings } from '../endpoints/embeddings/endpoint.ts'
import { edits, generations } from '../endpoints/images/endpoint.ts'
import { moderations } from '../endpoints/moderations/endpoint.ts'
import { askGuards, asksRemote, resolveGuards } from '../endpoints/moderations/guards.ts'
import { isForGuards } from '../endpoints/moderations/normal-form.ts'
import { ocr } from '../endpoints/ocr/endpoint.ts'
import type { UnitRoute } from '../endpoints/shared/unit.ts'
import { rerank } from '../endpoints/rerank/endpoint.ts'
import { speech } from '../endpoints/speech/endpoint.ts'
import { transcription } from '../endpoints/transcription/endpoint.ts'
import { nearest } from '../errors/nearest.ts'
import type { Endpoint, Stage, WireFormat } from '../pipeline/pipeline.ts'
import { constrain, read, resolve } from '../pipeline/stages/request.ts'
import { claim } from '../pipeline/stages/claim.ts'
import { enter } from '../pipeline/stages/enter.ts'
import { ground } from '../pipeline/stages/ground.ts'
import { guard } from '../pipeline/stages/guard.ts'
import { mask } from '../pipeline/stages/mask.ts'
import { hold } from '../pipeline/stages/hold.ts'
import { count } from '../pipeline/stages/count.ts'
import { route } from '../pipeline/stages/route.ts'
import { reuseBefore } from '../pipeline/stages/reuse.ts'
import { settle } from '../pipeline/stages/settle.ts'
import { trace } from '../pipeline/stages/trace.ts'

const reuse = reuseBefore(route)

// Everything that happens to a request is in these lists.
const entered: readonly Stage[] = [trace, enter]
const served: readonly Stage[] = [
  ...entered,
  read,
  resolve,
  claim,
  hold,
  settle,
  mask,
  constrain,
  guard,
  reuse,
  ground,
  route,
]

/** Guards on this machine read the text as it is: nothing of it leaves. */
const maskForRemote: Stage = {
  ...mask,
  before: (call) => (asksRemote(call) ? mask.before!(call) : undefined),
}

/** The gateway's own guards answer in place of a model, where a request names them. */
const byGuards: readonly Stage[] = [resolveGuards, claim, hold, settle, maskForRemote, askGuards]
const byModel = served.slice(served.indexOf(resolve))
const moderate: Stage = {
  name: 'moderate',
  before(call) {
    call.rest = isForGuards(call.request.model) ? byGuards : byModel
  },
}
const moderated: readonly Stage[] = [...entered, read, moderate]

/** Counts a prompt: there is no answer and no charge. */
const counted: readonly Stage[] = [...entered, read, resolve, mask, constrain, guard, count]

export interface Route {
  readonly method: 'GET' | 'POST'
  /** Path; it ends in `{name}` where the rest of it is an argument. */
  readonly path: string
  /** It is absent where no model does any work. */
  readonly endpoint?: Endpoint
  readonly format: WireFormat
  readonly stages: readonly Stage[]
}

export const ROUTES: readonly Route[] = [
  get(description),
  get(models),
  get(usableModels),
  get(model),
  get(key),
  get(keyUsage),
  get(keyRequests),
  get(keyRequest),
  get(keyCheckout),
  get(keyPayments),
  get(keyPayment),
  get(credits),
  post(chat, chatCompletions),
  post(chat, messages),
  post(countTokens, messageTokens, counted),
  post(chat, responses),
  post(countTokens, responseTokens, counted),
  post(summarize, compaction),
  post(completions, textCompletions),
  unit(generations),
  unit(edits),
  unit(speech),
  unit(transcription),
  unit(ocr),
  unit(embeddings),
  unit(rerank),
  unit(moderations, moderated),
]

/** Writer of errors for a path, known or not: paths below a route have its form. */
export function errorWriterOf(path: string): WireFormat['writeError'] {
  const exact = ROUTES.find((one) => path === one.path)
  const route = exact ?? ROUTES.find((one) => path.startsWith(`${one.path}/`))
  return (route?.format ?? chatCompletions).writeError
}

const ALL = `GET ${description.path} lists all routes.`

/** Routes of vendors whose work is not served. */
const NOT_SERVED =
  /^(?:\/v1)?\/(?:assistants|audio\/translations|batches|containers|files|fine_tuning|images\/variations|messages\/batches|realtime|threads|uploads|vector_stores|videos)(?:\/|$)/

/** Hint for an unknown path: the nearest route, and the list of all routes. */
export function hintFor(method: string, path: string): string {
  if (NOT_SERVED.test(path)) {
    return `It is not served here; "sluicegate docs tasks/not-here" says what to use instead. ${ALL}`
  }
  if (path.startsWith(`${responses.path}/`)) {
    return `Responses are not stored here; only POST ${responses.path}, ${compaction.path} and ${responseTokens.path} exist.`
  }
  const misplaced = ROUTES.find(
    (route) => route.path.startsWith('/v1/') && path.endsWith(route.path.slice('/v1'.length)),
  )
  if (misplaced) return `Did you mean ${nameOf(misplaced)}? ${ALL}`
  const likely = ROUTES.toSorted(
    (one, other) => Number(other.method === method) - Number(one.method === method),
  )
  const near = nearest(
    path,
    likely.map((route) => route.path),
  )
  const route = likely.find((one) => one.path === near)
  return route ? `Did you mean ${nameOf(route)}? ${ALL}` : ALL
}

function nameOf({ method, path }: Route): string {
  return `${method} ${path}`
}

function post<In, Out, Part>(
  endpoint: Endpoint<In, Out, Part>,
  format: WireFormat<In, Part>,
  stages = served,
): Route {
  return {
    method: 'POST',
    path: format.path,
    endpoint: endpoint as Endpoint,
    format: format as WireFormat,
    stages,
  }
}

function unit<In, Out, Part>(
  { endpoint, format }: UnitRoute<In, Out, Part>,
  stages = served,
): Route {
  return post(endpoint, format, stages)
}

function get(route: GetRoute): Route {
  const stages = [...(route.authenticated ? entered : [trace]), answerOf(route)]
  const method = route.body ? 'POST' : 'GET'
  return { method, path: route.path, format: formatOf(route) as WireFormat, stages }
}
