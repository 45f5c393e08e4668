/** Chat for vendors with OpenAI's chat completions API. */
import type {
  ChatChunk,
  ChatCompletion,
  ChatInput,
  Flow,
  Host,
  Provider,
  ChatMessage,
  Reasoning,
} from '../../src/plugin.ts'
import { withClientTools } from '../shared/functions-only.ts'
import { withFetchedFiles } from '../shared/files.ts'
import {
  hasSucceeded,
  isEventStream,
  parseAnswer,
  refuse,
  type HttpFailure,
} from '../shared/http.ts'
import { readChunks, readCompletion } from './answer.ts'
import { TextMembers } from './as-given.ts'
import { httpFailure } from './errors.ts'
import type { DeploymentOptions } from './options.ts'
import type { Quirks, VendorProfile } from './quirks.ts'
import { hash } from 'node:crypto'
import {
  withBridges,
  withOrderedCalls,
  checkParts,
  textOnly,
  toMessages,
  type Outgoing,
  type ReplayTarget,
  reasoningBeside,
  toolMembers,
} from './content.ts'
import { known } from './known.ts'
import { isBefore } from '../shared/gemini.ts'
import { withFlatRoot } from '../shared/schemas.ts'
import { nearestEffort, type Effort } from './reasoning.ts'

// Builds the chat request for a vendor.

/** Options of a deployment that change its requests. */
interface RequestOptions {
  /** Whether reasoning of earlier turns is sent to the model. The default is what the vendor expects. */
  readonly replayReasoning?: boolean | undefined
  /** Members, in the vendor's names, that this model refuses. */
  readonly omit?: readonly string[] | undefined
  /** Levels of `reasoning_effort` that this model has. The default follows from its name. */
  readonly effort?: readonly Effort[] | undefined
  /** Whether this model obeys a `tool_choice` that forces a call. The default is that of the vendor's row. */
  readonly forcedTools?: boolean | undefined
  /** An answer is put between results of tools and the next message. */
  readonly bridgeTools?: boolean | undefined
}

/**
 * Builds the body of `POST /chat/completions`.
 * @param member the member in which this server gave the model's last reasoning
 * @throws the failure class `bad_request` for what this vendor does not have and that would change the answer
 */
function toBody(
  input: ChatInput,
  model: string,
  quirks: Quirks,
  options: RequestOptions,
  fail: Host['fail'],
  member?: string,
): Record<string, unknown> {
  checkMembers(input, quirks, fail)
  const honours = options.forcedTools === true
  const reasoning = reasoningBeside(input, model, quirks, honours, fail)
  const body = reasoning
    ? withReasoning(reasoning, input, model, quirks, options)
    : { ...input, model }
  const replay = replayOf(quirks, options, model, member)
  body.messages = conversation(input.messages, quirks, options, replay, fail)
  // `undefined` is left out of JSON and is cheaper than `delete`.
  if (input.stream) Object.assign(body, quirks.streamed)
  else if (input.stream !== undefined) body.stream = undefined
  if (input.cache_control !== undefined && !(input.cache_control && quirks.cacheControl)) {
    body.cache_control = undefined
  }
  Object.assign(body, toolMembers(input, quirks, honours, fail))
  toTools(body, quirks, fail)
  if (quirks.sessionAsCacheKey && input.session_id) {
    body.prompt_cache_key ??= hash('sha256', String(input.session_id), 'hex').slice(0, 32)
  }
  if (quirks.jsonInPrompt) askForJson(body, quirks.jsonInPrompt)
  if (quirks.arrange) body.messages = quirks.arrange(body.messages as Outgoing[])
  toVendorsMembers(body, model, quirks, options)
  return body
}

function withReasoning(
  reasoning: Reasoning,
  { reasoning: _ours, ...given }: ChatInput,
  model: string,
  { toReasoning }: Quirks,
  { effort }: RequestOptions,
): Record<string, unknown> {
  const limit = given.max_completion_tokens
  const reasoningMembers = toReasoning(reasoning, model, limit)
  if (!effort) return { ...reasoningMembers, ...given, model }
  const { reasoning_effort: _guessed, ...others } = reasoningMembers
  const [lowest, ...higher] = effort
  const reasoning_effort = lowest && nearestEffort(reasoning, limit, [lowest, ...higher])
  return { ...others, reasoning_effort, ...given, model }
}

/** The messages, before those changes that concern the whole body. */
function conversation(
  all: readonly ChatMessage[],
  quirks: Quirks,
  options: RequestOptions,
  replay: ReplayTarget | undefined,
  fail: Host['fail'],
): readonly Outgoing[] {
  const { takes, form } = quirks
  if (takes) all.forEach((message, i) => checkParts(message, takes, i, fail))
  let messages = withOrderedCalls(all, quirks.calls ?? 'answered', (index) => {
    if (quirks.refusesStray) throw strayResult(all[index]!, index, fail)
  })
  if (options.bridgeTools) messages = withBridges(messages)
  if (form) messages = known(messages, form.messages) as readonly ChatMessage[]
  return toMessages(messages, quirks, replay)
}

function strayResult({ role }: ChatMessage, index: number, fail: Host['fail']): Error {
  const isOlder = role === 'function'
  const param = `messages[${index}].${isOlder ? 'name' : 'tool_call_id'}`
  const expected = isOlder ? 'name of a function' : 'id of a tool call'
  const message = `Expected ${param} to be the ${expected} in an earlier message.`
  return fail('bad_request', message, { code: 'invalid_value', param })
}

function replayOf(
  { replay, replayOnRequest }: Quirks,
  { replayReasoning }: RequestOptions,
  model: string,
  member: string | undefined,
): ReplayTarget | undefined {
  if (!(replayReasoning ?? !replayOnRequest)) return undefined
  // The most common name among servers with such a member.
  const isOpen = replay === undefined || replay === 'as-given'
  const place = isOpen && replayReasoning ? 'reasoning_content' : replay
  return place && { place, member, needsSignature: !isBefore(model, 3) }
}

function toTools(body: Record<string, any>, quirks: Quirks, fail: Host['fail']): void {
  const { cacheControl, form, toTools: own, refusedRoots } = quirks
  if (!body.tools) return
  if (refusedRoots) {
    const flat = (tool: any, i: number) => withFlatRoot(tool, i, fail, refusedRoots)
    body.tools = body.tools.map(flat)
  }
  // The form of a vendor has no markers.
  if (!cacheControl && !form) body.tools = body.tools.map(withoutMarker)
  if (form) body.tools = known(body.tools, form.tools!)
  if (own) body.tools = own(body.tools)
}

function withoutMarker(tool: any): unknown {
  if (tool.cache_control === undefined) return tool
  const { cache_control: _marker, ...rest } = tool
  return rest
}

/** The vendor's names and limits of members; those that it does not have go away. */
function toVendorsMembers(
  body: Record<string, unknown>,
  model: string,
  quirks: Quirks,
  options: RequestOptions,
): void {
  const { caps, renames, form, knows } = quirks
  for (const name in caps) if (Number(body[name]) > caps[name]!) body[name] = caps[name]
  for (const from in renames) {
    if (body[from] === undefined) continue
    body[renames[from]!] = body[from]
    delete body[from]
  }
  omit(body, quirks.drops)
  omit(body, quirks.refuses?.(model, body))
  omit(body, options.omit)
  for (const name in body) {
    if (body[name] === null || knows?.has(name) === false) delete body[name]
    else if (form?.[name] && name !== 'messages' && name !== 'tools') {
      body[name] = known(body[name], form[name])
    }
  }
}

function omit(body: Record<string, unknown>, names: readonly string[] = []): void {
  for (let i = 0; i < names.length; i++) if (body[names[i]!] !== undefined) delete body[names[i]!]
}

/**
 * Members that a vendor may lack although they change the answer. Decision: several answers are not requested one by one,
 * because the prompt would be charged for each.
 */
function checkMembers(input: ChatInput, { lacks }: Quirks, fail: Host['fail']): void {
  for (const name of lacks ?? []) {
    const value = input[name]
    if (name === 'n' ? Number(value ?? 1) <= 1 : !value) continue
    const what = name === 'n' ? 'gives one answer to each request' : 'gives no log probabilities'
    const message = `Expected ${name} to be left out: this model ${what}.`
    throw fail('bad_request', message, { code: 'unsupported_parameter', param: name })
  }
}

/** Asks for JSON in words. @param how `schema` where the vendor takes no schema, so that the words have to hold it */
function askForJson(body: Record<string, any>, how: 'schema' | 'word'): void {
  const { type, json_schema } = body.response_format ?? {}
  if (type === 'json_schema' && how === 'schema') {
    const schema = JSON.stringify(json_schema?.schema ?? {})
    const content = `Answer with one JSON object, and nothing else. It must be valid under this JSON Schema:\n${schema}`
    body.response_format = { type: 'json_object' }
    body.messages = [{ role: 'system', content }, ...body.messages]
  } else if (type === 'json_object' && !body.messages.some(namesJson)) {
    // The vendor refuses this form of an answer where no message names it.
    body.messages = [{ role: 'system', content: 'Answer with one JSON object.' }, ...body.messages]
  }
}

function namesJson({ content }: Outgoing): boolean {
  return /json/i.test(textOnly(content) ?? '')
}

/** URL, headers and quirks for requests to a model. */
export interface ChatTarget {
  /** The complete URL, with `/chat/completions`. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly quirks: Quirks
  /** Makes the failure for an answer with an error status; by default {@link httpFailure}. */
  readonly httpFailure?: HttpFailure
}

/** What these vendors take as a name of a tool. */
export const TOOL_NAMES = /^[a-zA-Z0-9_-]{1,64}$/

type Chat = NonNullable<Provider['chat']>

/**
 * The chat method of a provider.
 * @param targetOf called for every request, so it should be cheap
 */
export function createChat<Options extends DeploymentOptions>(
  host: Host,
  targetOf: (model: string, options: Options) => ChatTarget,
): Chat {
  const members = new TextMembers()
  return (request) => {
    const options = request.options as Options
    const target = targetOf(request.model, options)
    const ask: Chat = ({ input, model, signal }) =>
      complete(host, { input, model, signal, options, members }, target)
    return withClientTools(ask, TOOL_NAMES, target.quirks.customTools === true)(request)
  }
}

interface Request {
  readonly input: ChatInput
  readonly model: string
  readonly signal: AbortSignal
  readonly options: DeploymentOptions
  readonly members: TextMembers
}

type Answer = ChatCompletion | Flow<ChatChunk>

/** Chains promises and awaits none: a call makes as few as it can. */
function complete(
  host: Host,
  { input, model, signal, options, members }: Request,
  { url, headers, quirks, httpFailure: toFailure = httpFailure }: ChatTarget,
): Promise<Answer> {
  const stream = input.stream === true
  const { fetches: parts = ['file'] } = quirks
  const ask = (current: ChatInput): Promise<Answer> => {
    const member = members.of(model)
    const body = host.json(toBody(current, model, quirks, options, host.fail, member))
    return host
      .request({ url, headers, body, signal, stream })
      .then((response): Answer | Promise<Answer> => {
        if (!hasSucceeded(response)) return refuse(host, response, signal, toFailure)
        const { reasoning: tags } = options
        const noteMember = members.noterOf(model)
        const profile: VendorProfile = { quirks, tags, fail: host.fail, noteMember }
        return isEventStream(response, stream)
          ? host.sse(response.body).through(readChunks(profile))
          : response.text().then((text) => readCompletion(parseAnswer(text, host.fail), profile))
      })
  }
  const messages = withFetchedFiles(input.messages, { host, signal, parts })
  if (messages instanceof Promise)
    return messages.then((fetched) => ask({ ...input, messages: fetched }))
  return ask(input)
}
