/** Recorded errors of the Responses API, for deployments that speak it. */
import openai from '../../../providers/openai.ts'
import { setUp } from '../_chat.ts'
import { readBack } from '../_openai.ts'
import { replayAll } from '../_recorded.ts'

const FAILURES: Readonly<Record<string, string>> = {
  'openai/error-400-context-length': 'context_length',
  'openai/error-401-invalid-key': 'upstream_auth',
}

replayAll({
  title: 'recorded errors of the Responses API',
  vendors: ['openai'],
  path: /\/responses$/,
  failures: FAILURES,
  setUp: (_vendor, url) => setUp(openai, { baseURL: `${url}/v1`, apiKey: 'sk-operator' }),
  ask: ({ stream }) => [{ stream }, { options: { api: 'responses' } }],
  readBack,
})
