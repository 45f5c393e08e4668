/** Models of partners on Vertex AI, which speak OpenAI's API at an address of the project. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as v from 'valibot'
import compatible from '../../../providers/openai-compatible.ts'
import { json, startUpstream, type FakeUpstream } from '../../upstream.ts'
import { setUp } from '../_chat.ts'

let tokens: FakeUpstream
beforeAll(async () => {
  tokens = await startUpstream(json({ access_token: 'ya29.vertex', expires_in: 3599 }))
})
afterAll(() => tokens.close())

function vertex() {
  const credentials = {
    type: 'authorized_user',
    client_id: 'client',
    client_secret: 'secret of the client',
    refresh_token: '1//refresh',
    token_uri: tokens.url,
  }
  return { project: 'house', location: 'us-east5', credentials: JSON.stringify(credentials) }
}

describe('a model of a partner on Vertex AI', () => {
  it('is asked at the address of the project, with a login', async () => {
    const answer = {
      id: 'c',
      object: 'chat.completion',
      created: 1,
      model: 'm',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
    }
    await using vendor = await startUpstream(json(answer))
    await using setup = await setUp(compatible, { vertex: vertex(), baseURL: `${vendor.url}/v1` })
    const { completion } = await setup.outcome(
      { max_completion_tokens: 7 },
      { model: 'meta/llama-4-maverick-17b-128e-instruct-maas' },
    )
    expect(completion.choices[0]!.message.content).toBe('Hi')
    const [request] = vendor.requests
    expect(request!.path).toBe(
      '/v1/projects/house/locations/us-east5/endpoints/openapi/chat/completions',
    )
    expect(request!.headers.authorization).toBe('Bearer ya29.vertex')
    // The members that hosts of open models take.
    expect(request!.json).toMatchObject({
      model: 'meta/llama-4-maverick-17b-128e-instruct-maas',
      max_tokens: 7,
    })
    expect((await setup.provider.logIn!(new AbortController().signal)).source).toContain(
      'vertex.credentials',
    )
  })

  it('needs an address or a login, and not a key beside the login', () => {
    const wrong = (options: object) => {
      const { issues = [] } = v.safeParse(compatible.options as v.GenericSchema, options)
      return issues.map(({ message }) => message)
    }
    expect(wrong({})[0]).toContain('"baseURL"')
    expect(wrong({ vertex: vertex(), apiKey: 'k' })[0]).toContain('either "apiKey" or "vertex"')
    expect(wrong({ vertex: vertex() })).toEqual([])
  })
})
