/** A gateway that has the keys of vendors and nothing else, with a stand-in for all of them. */
import { onTestFinished } from 'vitest'
import { VENDORS } from '../../providers/vendors.ts'
import { loadConfig } from '../../src/config/config.ts'
import { folder } from '../_folder.ts'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { mp3 } from '../endpoints/audio/_sounds.ts'
import { events, json, startUpstream, type FakeUpstream } from '../upstream.ts'

/** A port without a server: what runs on this machine is not part of the test. */
const NO_OLLAMA = '127.0.0.1:1'

/** A server that says "Hello" in every form of chat, and has embeddings and speech. */
export async function standIn(): Promise<FakeUpstream> {
  const vendor = await startUpstream()
  vendor.answer(({ path, json: body }) => {
    if (path.includes('/embeddings')) {
      const data = [{ object: 'embedding', index: 0, embedding: [0.5, 0.25] }]
      return json({ object: 'list', data, usage: { prompt_tokens: 2, total_tokens: 2 } })
    }
    if (path.includes('generateContent')) return candidate()
    if (/\/(?:speak|text-to-speech)\b/.test(path)) {
      return { headers: { 'content-type': 'audio/mpeg' }, pieces: [mp3(3)] }
    }
    return path.includes('/messages') ? message(body.stream) : completion(body.stream)
  })
  return vendor
}

function message(isStream: boolean) {
  const usage = { input_tokens: 3, output_tokens: 1 }
  const start = { id: 'm', type: 'message', role: 'assistant', model: 'claude', usage }
  const content = [{ type: 'text', text: 'Hello' }]
  if (!isStream) return json({ ...start, content, stop_reason: 'end_turn' })
  return events(
    { type: 'message_start', message: { ...start, content: [] } },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hello' } },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage },
    { type: 'message_stop' },
  )
}

function candidate() {
  const usageMetadata = { promptTokenCount: 3, candidatesTokenCount: 1, totalTokenCount: 4 }
  const content = { role: 'model', parts: [{ text: 'Hello' }] }
  return json({ candidates: [{ content, finishReason: 'STOP' }], usageMetadata })
}

function completion(isStream: boolean) {
  const usage = { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 }
  const choice = { index: 0, finish_reason: 'stop' }
  const content = { role: 'assistant', content: 'Hello' }
  if (!isStream) return json({ id: 'c', choices: [{ ...choice, message: content }], usage })
  return events({ id: 'c', choices: [{ ...choice, delta: content }], usage }, '[DONE]')
}

/** Loads a configuration, by default the starter alone, with these variables and no others. */
export async function loadStarter(
  env: Record<string, string>,
  config: object = { extends: 'starter' },
) {
  const whole = { state: { driver: 'memory' }, log: { access: false }, ...config }
  const cwd = await folder({ 'gateway.config.json': JSON.stringify(whole) })
  return loadConfig({ cwd, env: { OLLAMA_HOST: NO_OLLAMA, ...env } })
}

/** A gateway with the keys of vendors, each of which is at the stand-in. It is closed after the test. */
export async function gatewayOf(
  vendor: FakeUpstream,
  names: readonly string[],
): Promise<TestGateway> {
  const env: Record<string, string> = {}
  for (const name of names) {
    const { variables } = VENDORS.find((one) => one.name === name)!
    env[variables[0]!] = `key-of-${name}`
    env[`SLUICEGATE__PROVIDERS__${name.toUpperCase()}__OPTIONS__BASEURL`] = `${vendor.url}/v1`
  }
  const gateway = await createTestGateway(await loadStarter(env))
  onTestFinished(() => gateway.close())
  return gateway
}
