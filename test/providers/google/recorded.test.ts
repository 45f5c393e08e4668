import { expect, it } from 'vitest'
import google from '../../../providers/google.ts'
import type { Recording } from '../../fixtures.ts'
import { setUp } from '../_chat.ts'
import { readEvents, replayAll, type RecordedContent } from '../_recorded.ts'

/** Failure class of each recorded error. The last two came with status 200. */
const FAILURES = {
  'google/error-400-bad-key': 'upstream_auth',
  'google/error-400-thought-signature': 'bad_request',
  'google/error-429-quota': 'upstream_rate',
  'google/error-503': 'overloaded',
  'google/malformed-function-call': 'upstream_error',
  'google/prompt-block': 'content_blocked',
}

const FINISH: Readonly<Record<string, string>> = {
  MAX_TOKENS: 'length',
  SAFETY: 'content_filter',
  MODEL_ARMOR: 'content_filter',
}

replayAll(
  {
    title: 'recorded Gemini chats',
    vendors: ['google'],
    path: /[gG]enerateContent/,
    wanted: ({ name }) => !name.includes('speech'),
    failures: FAILURES,
    setUp: (_vendor, url) => setUp(google, { baseURL: `${url}/v1beta`, apiKey: 'k' }),
    readBack,
  },
  ({ recordings, outcomeOf }) => {
    const messageOf = async (name: string) => (await outcomeOf(name)).completion.choices[0]!.message

    it('reads streamed text, and counts thoughts', async () => {
      const { completion, usage } = await outcomeOf('google/text-stream')
      expect(completion.choices[0]).toMatchObject({
        message: { content: 'There are **3** "r"s in strawberry.\n\nst**r**awbe**rr**y' },
        finish_reason: 'stop',
      })
      expect(usage).toMatchObject({
        prompt_tokens: 9,
        completion_tokens: 208,
        completion_tokens_details: { reasoning_tokens: 185 },
      })
    })

    it('keeps the signature of a text, which comes on an empty part', async () => {
      const { reasoning, reasoning_details } = await messageOf('google/text-stream')
      expect(reasoning).toBeUndefined()
      expect(reasoning_details).toEqual([
        {
          type: 'reasoning.encrypted',
          id: null,
          format: 'google-gemini-v1',
          index: 0,
          data: signaturesIn(byName('google/text-stream'))[0],
        },
      ])
    })

    it('reads a call, and its signature under the id of the call', async () => {
      const name = 'google/tool-call-stream-signature'
      const { completion } = await outcomeOf(name)
      const [{ message, finish_reason }] = completion.choices as [any]
      expect(finish_reason).toBe('tool_calls')
      expect(message).toMatchObject({
        content: null,
        tool_calls: [{ type: 'function', function: { name: 'get_country', arguments: '{}' } }],
        reasoning_details: [
          { type: 'reasoning.encrypted', data: signaturesIn(byName(name))[0], index: 0 },
        ],
      })
      expect(message.reasoning_details[0].id).toBe(message.tool_calls[0].id)
    })

    it('assembles arguments that come value by value', async () => {
      const { tool_calls } = await messageOf('google/tool-call-args-stream')
      expect(tool_calls.map((call: any) => call.function)).toEqual([
        { name: 'getWeather', arguments: '{"location":"Boston"}' },
        { name: 'getWeather', arguments: '{"location":"San Francisco"}' },
      ])
      expect(new Set(tool_calls.map(({ id }: any) => id)).size).toBe(2)
    })

    it('keeps the last usage of all events', async () => {
      const { usage } = await outcomeOf('google/usage-live-stream')
      expect(usage).toMatchObject({ prompt_tokens: 18, completion_tokens: 115 })
    })

    it('counts cached tokens as part of the prompt', async () => {
      const { usage } = await outcomeOf('google/cached-content')
      expect(usage).toMatchObject({
        prompt_tokens: 3520,
        prompt_tokens_details: { cached_tokens: 3512 },
        completion_tokens: 44,
        completion_tokens_details: { reasoning_tokens: 42 },
      })
    })

    it('reports that thoughts have used up all tokens', async () => {
      const { completion, usage } = await outcomeOf('google/max-tokens-empty')
      expect(completion.choices[0]!.finish_reason).toBe('length')
      expect(completion.choices[0]!.message.content ?? '').toBe('')
      expect(usage).toMatchObject({ completion_tokens: 2 })
    })

    it('reports that a filter stopped an answer, and charges the text so far', async () => {
      const midway = await outcomeOf('google/stream-safety-mid-answer')
      expect(midway.completion.choices[0]).toMatchObject({
        message: { content: 'Well, to' },
        finish_reason: 'content_filter',
      })
      const whole = await outcomeOf('google/response-block-model-armor')
      expect(whole.completion.choices[0]!.finish_reason).toBe('content_filter')
      expect(whole.usage).toMatchObject({ prompt_tokens: 19, completion_tokens: 33 })
    })

    it('refuses a prompt that was blocked under status 200', async () => {
      const { failure } = await outcomeOf('google/prompt-block')
      expect(failure).toMatchObject({ status: 400, code: 'content_policy_violation' })
    })

    it('shows a picture beside the text, and counts its tokens', async () => {
      const { completion, usage } = await outcomeOf('google/image-output')
      const { content, images } = completion.choices[0]!.message
      expect(content).toMatch(/^Once, in a hidden cenote/)
      expect(images).toEqual([
        {
          type: 'image_url',
          image_url: { url: expect.stringMatching(/^data:image\/png;base64,iVBOR/) },
          index: 0,
        },
      ])
      expect(usage).toMatchObject({
        completion_tokens: 1336,
        completion_tokens_details: { image_tokens: 1290 },
      })
    })

    it('does not show an invalid key, and waits as long as asked', async () => {
      const { failure: auth } = await outcomeOf('google/error-400-bad-key')
      expect(auth).toMatchObject({ status: 502, code: 'upstream_error' })
      expect(auth!.message).toBe(
        'The model provider did not accept the credentials of the gateway.',
      )
      const { failure: rate } = await outcomeOf('google/error-429-quota')
      expect(rate).toMatchObject({
        status: 429,
        code: 'upstream_rate_limited',
        retryAfterMs: 48_000,
      })
    })

    function byName(name: string): Recording {
      return recordings.find((recording) => recording.name === name)!
    }
  },
)

function payloadsOf({ stream, body }: Recording): any[] {
  return stream ? readEvents(body.toString()) : [JSON.parse(body.toString())]
}

function partsOf(recording: Recording): any[] {
  return payloadsOf(recording).flatMap((one) => one.candidates?.[0]?.content?.parts ?? [])
}

function signaturesIn(recording: Recording): string[] {
  return partsOf(recording).flatMap((part) => part.thoughtSignature ?? [])
}

function readBack(recording: Recording): RecordedContent {
  const payloads = payloadsOf(recording)
  const parts = partsOf(recording)
  const texts = (thought: boolean) =>
    parts.filter((part) => Boolean(part.thought) === thought).map((part) => part.text ?? '')
  const calls: { name: string; arguments: string }[] = []
  for (const { functionCall: call } of parts) {
    if (call?.name) calls.push({ name: call.name, arguments: JSON.stringify(call.args ?? {}) })
    for (const { jsonPath, stringValue } of call?.partialArgs ?? []) {
      const args = JSON.parse(calls.at(-1)!.arguments)
      const name = jsonPath.slice(2)
      args[name] = (args[name] ?? '') + stringValue
      calls.at(-1)!.arguments = JSON.stringify(args)
    }
  }
  const reason = payloads.flatMap((one) => one.candidates?.[0]?.finishReason ?? []).at(-1)
  return {
    content: texts(false).join(''),
    reasoning: texts(true).join(''),
    calls,
    totalTokens: payloads.flatMap((one) => one.usageMetadata?.totalTokenCount ?? []).at(-1),
    ...(FINISH[reason] ? { finishReason: FINISH[reason] } : {}),
  }
}
