/** Chat for vendors with OpenAI's chat completions API. */
import type {
  ChatChunk,
  ChatCompletion,
  ChatInput,
  Flow,
  Host,
  Provider,
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
import { toBody } from './request.ts'

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
  const ask = (given: ChatInput): Promise<Answer> => {
    const member = members.of(model)
    const body = host.json(toBody(given, model, quirks, options, host.fail, member))
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
