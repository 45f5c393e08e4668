/** A gateway that has no file descriptors left for connections to vendors. */
import { Agent, request } from 'node:http'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { ask } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { json, startUpstream } from '../upstream.ts'
import { configOf, ROOT, SECRET, serveWith, STRAY, TOKEN } from './_streams.ts'

const ANSWER = {
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello.' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 2 },
}

/** A plugin that takes all descriptors, and gives them back. */
const HOG = `
import { closeSync, openSync } from 'node:fs'
import { defineProvider } from '${join(ROOT, 'src/plugin.ts')}'

const taken = []
export default defineProvider({
  name: 'hog',
  options: { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } },
  setup: () => ({
    async chat({ model }) {
      if (model === 'give') for (const one of taken.splice(0)) closeSync(one)
      else try { for (;;) taken.push(openSync('/dev/null')) } catch {}
      return ${JSON.stringify(ANSWER)}
    },
  }),
})
`

const modelOf = (name: string, provider: string, model: string) => `
  ${name}:
    pricing: { prompt: '0', completion: '0' }
    deployments: [{ provider: ${provider}, model: ${model} }]`

describe.runIf(process.platform === 'linux')('without descriptors for vendors', () => {
  it('a call is answered 503, and its deployment is not blamed', async () => {
    const vendor = await startUpstream(json(ANSWER))
    onTestFinished(() => vendor.close())
    const models = [
      modelOf('hog/take', 'hog', 'take'),
      modelOf('hog/give', 'hog', 'give'),
      modelOf('acme/swift', 'acme', 'swift'),
    ].join('')
    const options = `{ baseURL: '${vendor.url}/v1', apiKey: of-the-vendor }`
    const providers = `providers:
  hog: { use: ./hog.ts }
  acme: { use: openai-compatible, options: ${options} }`
    // Threads beside a ledger in a file would give descriptors back meanwhile.
    const config = configOf(models)
      .replace('providers:', providers)
      .replace('log: { access: false }', 'state: { driver: memory }\nlog: { access: false }')
    const cwd = await folder({ 'gateway.config.yaml': config, 'stray.ts': STRAY, 'hog.ts': HOG })
    const { url, said, child, ended } = await serveWith('', { cwd }, [], 400)
    // One connection: none could be accepted later.
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    onTestFinished(() => agent.destroy())
    const chat = (model: string) => post(agent, `${url}/v1/chat/completions`, model)

    expect(await chat('hog/take')).toMatchObject({ status: 200 })
    for (let i = 0; i < 5; i++) {
      const refused = await chat('acme/swift')
      expect(refused.status).toBe(503)
      expect(refused.body.error).toMatchObject({ code: 'provider_overloaded' })
    }
    expect(vendor.requests).toHaveLength(0)
    expect(said()).toMatch(/acme\/swift was not asked: .*EMFILE/)
    expect(await chat('hog/give')).toMatchObject({ status: 200 })
    expect(await chat('acme/swift')).toMatchObject({ status: 200 })

    const { data } = (await ask(url, TOKEN, '/admin/models')).json
    const model = data.find(({ id }: { id: string }) => id === 'acme/swift')
    expect(model.deployments[0].health).toMatchObject({ state: 'healthy', failures: 0 })
    child.kill('SIGTERM')
    expect(await ended).toMatchObject({ code: 0 })
  })
})

function post(agent: Agent, url: string, model: string): Promise<{ status: number; body: any }> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${SECRET}`, 'content-type': 'application/json' }
    const asking = request(url, { method: 'POST', agent, headers }, (response) => {
      let text = ''
      response.on('data', (piece) => (text += piece))
      response.on('end', () => resolve({ status: response.statusCode!, body: JSON.parse(text) }))
    })
    asking.on('error', reject)
    asking.end(JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] }))
  })
}
