/** A gateway whose answers may be repeated, and what asks it with one `Idempotency-Key`. */
import { request } from 'node:http'
import { onTestFinished } from 'vitest'
import type { UserConfig } from '../../../src/config/config.ts'
import { createTestGateway, hello, MOCK_CONFIG, send, type TestGateway } from '../../_setup.ts'

export const WORD = 'marmot'
const echo = MOCK_CONFIG.models['mock/echo']
export const scripted = (options: Record<string, unknown>) => ({
  ...echo,
  deployments: [{ provider: 'mock', model: 'echo', options }],
})
export const CONFIG = {
  ...MOCK_CONFIG,
  models: {
    ...MOCK_CONFIG.models,
    'mock/says': scripted({ reply: `The ${WORD} sleeps.` }),
    'mock/slow': scripted({ reply: `The ${WORD} sleeps for a long time.`, paceMs: 100 }),
    'mock/breaks': scripted({ reply: 'One two', error: { class: 'upstream_error', after: 2 } }),
    'mock/speech': {
      modality: 'speech',
      pricing: { character: '0.00001' },
      deployments: [{ provider: 'mock', model: 'speech' }],
    },
    'mock/image': {
      modality: 'image',
      pricing: { image: '0.01' },
      capabilities: ['REFERENCES'],
      deployments: [{ provider: 'mock', model: 'image' }],
    },
  },
} as UserConfig

export async function started(config: UserConfig = CONFIG): Promise<TestGateway> {
  const gateway = await createTestGateway(config)
  onTestFinished(() => gateway.close())
  return gateway
}

export const CHAT = '/v1/chat/completions'
export const body = { ...hello, model: 'mock/says' }
export const at = (url: string, key: string, name: string, asked: object = body, path = CHAT) =>
  send(url + path, 'POST', JSON.stringify(asked), {
    authorization: `Bearer ${key}`,
    'content-type': 'application/json',
    'idempotency-key': name,
  })
/** Sends a streamed request, and leaves when its answer has begun. */
export async function askAndLeave(
  url: string,
  key: string,
  name: string,
  asked: object,
): Promise<void> {
  const sent = request(url + CHAT, {
    method: 'POST',
    agent: false,
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      'idempotency-key': name,
    },
  })
  await new Promise<void>((resolve, reject) => {
    sent.on('response', (response) => response.once('data', () => resolve()))
    sent.on('error', reject)
    sent.end(JSON.stringify({ ...asked, stream: true }))
  })
  sent.on('error', () => {})
  sent.destroy()
}
