/** Claude on Vertex AI: where requests go, what their bodies lack, and the difficult conversations. */
import * as v from 'valibot'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import anthropic from '../../../providers/anthropic.ts'
import { json, sse, startUpstream, type FakeUpstream } from '../../upstream.ts'
import { setUp } from '../_chat.ts'
import { describeDifficult, type ConversationName, type DifficultOptions } from '../_difficult.ts'
import { messagesRequest } from './_wire.ts'

let tokens: FakeUpstream
beforeAll(async () => {
  tokens = await startUpstream(json({ access_token: 'ya29.vertex', expires_in: 3599 }))
})
afterAll(() => tokens.close())

/** A login at a service of its own, so that the vendor gets nothing but its requests. */
function vertex() {
  const credentials = {
    type: 'authorized_user',
    client_id: 'client',
    client_secret: 'secret of the client',
    refresh_token: '1//refresh',
    token_uri: tokens.url,
  }
  return { project: 'house', location: 'europe-west1', credentials: JSON.stringify(credentials) }
}

const VERSION = 'vertex-2023-10-16'
const MODELS =
  '/v1/projects/house/locations/europe-west1/publishers/anthropic/models/claude-sonnet-4-5@20250929'
const MODEL = 'claude-sonnet-4-5@20250929'
const ANSWER = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  content: [{ type: 'text', text: 'Hi' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 1, output_tokens: 1 },
}

describe('a request to Claude on Vertex AI', () => {
  it('names the model in its address and logs in', async () => {
    await using vendor = await startUpstream(json(ANSWER))
    await using setup = await setUp(anthropic, { vertex: vertex(), baseURL: `${vendor.url}/v1` })
    const { completion } = await setup.outcome({ max_completion_tokens: 100 }, { model: MODEL })
    expect(completion.choices[0]!.message.content).toBe('Hi')
    const [request] = vendor.requests
    expect(request!.path).toBe(`${MODELS}:rawPredict`)
    expect(request!.headers.authorization).toBe('Bearer ya29.vertex')
    for (const name of ['x-api-key', 'anthropic-version']) {
      expect(request!.headers).not.toHaveProperty(name)
    }
    expect(request!.json).toEqual({
      anthropic_version: VERSION,
      max_tokens: 100,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello?' }] }],
    })
    expect((await setup.provider.logIn!(new AbortController().signal)).source).toBe(
      'option vertex.credentials (authorized user)',
    )
  })

  it('has an address of its own for streams', async () => {
    await using vendor = await startUpstream(sse(''))
    await using setup = await setUp(anthropic, { vertex: vertex(), baseURL: `${vendor.url}/v1` })
    await setup.outcome({ stream: true }, { model: MODEL })
    expect(vendor.requests[0]!.path).toBe(`${MODELS}:streamRawPredict`)
    expect(vendor.requests[0]!.json.stream).toBe(true)
  })

  it('fails by the status where the error has the form of Google', async () => {
    const error = { code: 429, status: 'RESOURCE_EXHAUSTED', message: 'Quota of projects/house-1' }
    await using vendor = await startUpstream(json({ error }, 429))
    await using setup = await setUp(anthropic, { vertex: vertex(), baseURL: `${vendor.url}/v1` })
    const { failure } = await setup.outcome({}, { model: MODEL })
    expect(failure?.failure).toBe('upstream_rate')
  })

  it('needs a key or a login, not both', async () => {
    const either = 'either "apiKey" or "vertex"'
    await expect(setUp(anthropic, {})).rejects.toThrow(either)
    await expect(setUp(anthropic, { apiKey: 'key', vertex: vertex() })).rejects.toThrow(either)
  })
})

const REFUSED = {
  'result for a call that was never made': ['invalid_value', 'messages[2].tool_call_id'],
  'second result for a call': ['invalid_value', 'messages[3].tool_call_id'],
  'result of a function that was never called': ['invalid_value', 'messages[1].name'],
  'image that is no image': ['invalid_image', 'messages[0].content[1].image_url.url'],
  'image of an assistant': ['unsupported_value', 'messages[1].content[1]'],
  'image in a system message': ['unsupported_value', 'messages[0].content[1]'],
  'file of a type that is not read': ['invalid_document', 'messages[0].content[1].file.file_data'],
  sound: ['unsupported_value', 'messages[0].content[1]'],
  'answer under a strict schema with a map': ['invalid_value', 'response_format'],
  'several answers': ['unsupported_parameter', 'n'],
} satisfies DifficultOptions['refused']

/**
 * The body of a call to Vertex AI. It is Anthropic's, but for the version in place of model and tier, and without
 * structured output.
 */
const rawPredict = v.pipe(
  v.record(v.string(), v.unknown()),
  v.check(({ anthropic_version: version }) => version === VERSION, 'no anthropic_version'),
  v.check(({ model }) => model === undefined, 'a model'),
  v.check(({ service_tier: tier }) => tier === undefined, 'a service tier'),
  v.check(({ output_config: config }) => !Object.hasOwn(Object(config), 'format'), 'a format'),
  v.transform(({ anthropic_version: _version, ...body }): Record<string, unknown> => ({
    model: MODEL,
    service_tier: 'standard_only',
    ...body,
  })),
  messagesRequest,
)

describeDifficult(
  {
    title: 'difficult conversations for Claude on Vertex AI',
    setUp: (url, download) =>
      setUp(anthropic, { vertex: vertex(), baseURL: `${url}/v1` }, download),
    model: 'claude-opus-4-8',
    schema: rawPredict,
    refused: REFUSED,
    changed: { 'calls of tools with odd names': ['files.read'] },
  },
  (translate) => {
    it.each<ConversationName>(['image at an address', 'PDF at an address'])(
      'fetches: %s',
      async (name) => {
        const sent = await translate(name)
        expect(sent).toHaveProperty('downloads', [expect.stringMatching(/^https:/)])
        expect(JSON.stringify(sent)).not.toContain('"type":"url"')
      },
    )

    it('puts instructions in the middle into the turns of the user', async () => {
      const sent = await translate('system message in the middle')
      expect(JSON.stringify(sent)).not.toContain('"role":"system"')
    })
  },
)
