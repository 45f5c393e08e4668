/** Texts that a model goes on with, from vendors with OpenAI's older API or one that is like it. */
import * as v from 'valibot'
import type { CompletionInput, Host, Provider, Step } from '../../src/plugin.ts'
import { isEventStream, joinUrl, parseAnswer, send } from '../shared/http.ts'
import { readChunks, readCompletion } from './answer.ts'
import { httpFailure } from './errors.ts'
import type { DeploymentOptions } from './options.ts'
import type { CompletionQuirks, Quirks, VendorProfile } from './quirks.ts'

/** The option of a deployment that serves completions. */
export const completionsOption = v.optional(v.boolean(), false)

interface Options extends DeploymentOptions {
  readonly completions: boolean
}

/** Base address, headers and quirks for requests to a model. */
interface CompletionTarget {
  readonly base: string
  readonly headers: Readonly<Record<string, string>>
  readonly quirks: Quirks
}

/** The method `complete`, for deployments whose option says that they have it. */
export function createCompletions(
  host: Host,
  { base, headers, quirks }: CompletionTarget,
): Required<Pick<Provider, 'complete' | 'takes'>> {
  const { completions = {} } = quirks
  const { path = 'completions' } = completions
  const url = path.startsWith('/') ? new URL(path, base).href : joinUrl(base, path)
  return {
    async complete({ input, model, options, signal }) {
      const own = options as unknown as Options
      const stream = input.stream === true
      const body = JSON.stringify({ model, ...toBody(input, quirks, own, host.fail) })
      const response = await send(host, { url, headers, body, signal, stream }, httpFailure)
      const profile: VendorProfile = { quirks, tags: undefined, fail: host.fail }
      if (isEventStream(response, stream)) {
        return host.sse(response.body).through(asChats()).through(readChunks(profile))
      }
      return readCompletion(asChat(parseAnswer(await response.text(), host.fail)), profile)
    },

    takes: (form, { options }) => form === 'complete' && (options as Options).completions,
  }
}

function toBody(
  { prompt, stream, ...others }: CompletionInput,
  { completions = {}, streamed }: Quirks,
  { omit = [] }: Options,
  fail: Host['fail'],
): object {
  const { knows, renames = {}, onePrompt } = completions
  if (onePrompt && prompt.length > 1) {
    const message = 'Expected prompt to be one text: this model takes one at a time.'
    throw fail('bad_request', message, { code: 'unsupported_value', param: 'prompt' })
  }
  const all: Record<string, unknown> = {
    prompt: prompt.length === 1 ? prompt[0] : prompt,
    ...others,
    ...(stream && { stream, ...streamed }),
  }
  const members = Object.entries(all).flatMap(([name, value]) => {
    const sent = Object.hasOwn(renames, name) ? renames[name]! : name
    if (value === undefined || knows?.has(sent) === false || omit.includes(sent)) return []
    return [[sent, value]]
  })
  return Object.fromEntries(members)
}

/** Events of texts as those of chats. */
function asChats(): Step<any, any> {
  return { push: (payload, emit) => emit(asChat(payload)) }
}

/** An answer, or an event of one, whose choices say texts, as one of a chat; a vendor may have that form itself. */
function asChat(payload: any): any {
  if (!Array.isArray(payload?.choices)) return payload
  return { ...payload, choices: payload.choices.map(asChatChoice) }
}

function asChatChoice(choice: any): any {
  if (typeof choice?.text !== 'string') return choice
  const { text, logprobs, ...others } = choice
  const message = { content: text }
  return { ...others, message, delta: message, logprobs: asChatLogprobs(logprobs) }
}

/** One list of tokens in place of lists side by side. */
function asChatLogprobs(logprobs: any): object | null {
  const { tokens, token_logprobs: chances, top_logprobs: tops } = logprobs ?? {}
  if (!Array.isArray(tokens)) return null
  const content = tokens.map((token: string, index) => ({
    token,
    logprob: chances?.[index] ?? null,
    bytes: null,
    top_logprobs: Object.entries(tops?.[index] ?? {}).map(([other, logprob]) => ({
      token: other,
      logprob,
      bytes: null,
    })),
  }))
  return { content }
}

const COMMON = ['prompt', 'suffix', 'max_tokens', 'temperature', 'top_p', 'stop', 'stream']

/** Mistral's own names. */
export const MISTRAL_COMPLETIONS: CompletionQuirks = {
  path: 'fim/completions',
  knows: new Set([...COMMON, 'min_tokens', 'metadata', 'random_seed']),
  renames: { seed: 'random_seed' },
  onePrompt: true,
}

/** DeepSeek has it beside its API. */
export const DEEPSEEK_COMPLETIONS: CompletionQuirks = {
  path: '/beta/completions',
  knows: new Set([
    ...COMMON,
    'stream_options',
    'frequency_penalty',
    'presence_penalty',
    'logprobs',
  ]),
  onePrompt: true,
}
