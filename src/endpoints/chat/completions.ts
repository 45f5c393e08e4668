/** Text completions: a model goes on with a text. The answer is a chat inside the gateway; a prompt is a message of a user. */
import { InvalidRequest } from '../../errors/errors.ts'
import type { GuardAdapter } from '../../guard/adapter.ts'
import { lackOf, lacks } from '../../models/capabilities.ts'
import type { Endpoint } from '../../pipeline/pipeline.ts'
import type { CompletionInput } from '../../plugin.ts'
import { billing, type AnswerChunk, OutputLimit } from './billing.ts'
import { pack } from './stored.ts'
import { chat, chatAnswer, refuseLacking, unpackChat } from './endpoint.ts'
import { guardAdapter } from './guard.ts'
import { chatTexts } from './guard-input.ts'
import { outboundChat, type ChatRequest } from './request.ts'

/** A valid request: each prompt is a message of a user, and `n` counts the answers to all prompts. */
export interface CompletionRequest extends ChatRequest {
  readonly completion: {
    readonly suffix?: string
    readonly n: number
    readonly logprobs?: number
  }
}

export const completions: Endpoint<CompletionRequest, CompletionInput, AnswerChunk> = {
  operation: 'complete',
  modality: chat.modality,
  errorField: 'prompt',
  billing,
  guard: guardOfCompletions(),
  mask: async () => (await import('./mask.ts')).completionsMask,

  check({ completion: { n, logprobs } }, model) {
    if (lacks(model, 'COMPLETIONS')) {
      throw new InvalidRequest(
        'wrong_endpoint',
        `${model.id} does not go on with a text: ${lackOf('COMPLETIONS')}. Use POST /v1/chat/completions.`,
        { param: 'model' },
      )
    }
    refuseLacking(model, {
      ...(n > 1 && { CHOICES: 'n' }),
      ...(logprobs !== undefined && { LOGPROBS: 'logprobs' }),
    })
  },

  toUpstream(input): CompletionInput {
    const {
      messages,
      max_completion_tokens,
      n: _ofAll,
      session_id: _ofGateway,
      completion,
      ...others
    } = outboundChat(input)
    const { suffix, n, logprobs } = completion as CompletionRequest['completion']
    return {
      ...others,
      prompt: messages.map(({ content }) => content as string),
      max_tokens: max_completion_tokens!,
      logprobs: logprobs as number,
      ...(suffix !== undefined && { suffix }),
      ...(n > 1 && { n }),
    }
  },

  fit: (outbound, model, { stream }) => ({
    ...outbound,
    max_tokens: Math.min(outbound.max_tokens, model.maxOutputTokens ?? Infinity),
    ...(stream && lacks(model, 'STREAMING') && { stream: false }),
  }),

  withoutContent: (request) => ({ ...request, messages: [], prompt: [], suffix: undefined }),

  normalize: (call) => chatAnswer(call, asSent(call.target.outbound as CompletionInput)),
  stored: {
    pack,
    unpack: (call, packed) =>
      unpackChat(call, asSent(call.target.outbound as CompletionInput), packed),
  },

  instructions: {
    apply(outbound: CompletionInput, { system, maxOutputTokens = Infinity }) {
      if (system === undefined) {
        return { ...outbound, max_tokens: Math.min(outbound.max_tokens, maxOutputTokens) }
      }
      // A text that is gone on with has no place for instructions that hold.
      const message = "This key's instructions need POST /v1/chat/completions."
      throw new InvalidRequest('unsupported_value', message, { param: 'model' })
    },
    limit: (maxOutputTokens, { n = 1 }) => new OutputLimit(maxOutputTokens, n),
  },
}

/** The request as sent, in the form of a chat, by which its tokens are estimated. */
function asSent({ prompt, suffix, max_tokens }: CompletionInput) {
  const texts = suffix === undefined ? prompt : [...prompt, suffix]
  const messages = texts.map((content) => ({ role: 'user', content }) as const)
  return { messages, max_completion_tokens: max_tokens }
}

/** Guards read prompts as a user's words, and the suffix as the result of a tool. */
function guardOfCompletions(): GuardAdapter<CompletionRequest, AnswerChunk> {
  const { withhold: _noTurns, ...shared } = guardAdapter
  return {
    ...shared,
    inputTexts({ completion: { suffix }, ...request }, refusals) {
      const items = chatTexts(request, refusals).items.map((item) => ({
        ...item,
        id: item.id.replace(/^messages\[/, 'prompt['),
      }))
      if (suffix) {
        const place = { id: 'suffix', side: 'input', channel: 'content', role: 'tool' } as const
        items.push({ ...place, current: true, text: suffix })
      }
      return { items, refusedTurns: [] }
    },
  }
}
