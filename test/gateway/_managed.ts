/** Gateways of a folder, on state in a file or in Redis, with a stand-in vendor: for tests of what is set up at run time. */
import { onTestFinished } from 'vitest'
import { loadConfig, type LoadOptions } from '../../src/config/config.ts'
import { folder } from '../_folder.ts'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { json, startUpstream, type FakeUpstream } from '../upstream.ts'

export const TOKEN = 'token-of-the-first-admin'
/** A key of the vendor, planted to be looked for. */
export const PLANTED = 'vk-live-Zq7RmW2xJ4tYh8LpB6nC'
const PRICING = { prompt: '0.000001', completion: '0.000002' }

export interface Managing extends TestGateway {
  readonly directory: string
  admin(
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<any>
  /** Sends changes, and answers with status and body. */
  change(...changes: readonly object[]): Promise<any>
}

interface Place extends Omit<LoadOptions, 'cwd'> {
  readonly files?: Readonly<Record<string, string>>
  readonly directory?: string
}

/** A gateway whose state ends with it, and starts in a tenth of the time of one that is kept. */
export function managing({ files, env }: Pick<Place, 'files' | 'env'> = {}): Promise<Managing> {
  const own = JSON.stringify(configuration({ state: { driver: 'memory' } }))
  const secret = { SLUICEGATE_SECRET: 'secret-of-a-gateway-without-a-folder' }
  return kept({ files: { 'gateway.config.json': own, ...files }, env: { ...secret, ...env } })
}

/** A gateway of a folder. @param files the files of the folder, one configuration without vendors by default */
export async function kept({ files = {}, directory, ...options }: Place = {}): Promise<Managing> {
  const cwd =
    directory ??
    (await folder({ 'gateway.config.json': JSON.stringify(configuration()), ...files }))
  const loaded = await loadConfig({ cwd, env: {}, ...options })
  const isNew = directory === undefined && loaded.config.state.driver !== 'redis'
  const gateway = await createTestGateway(loaded, cwd, { withAccount: isNew })
  onTestFinished(() => gateway.close().catch(() => {}))
  const admin = async (method: string, path: string, body?: unknown, headers = {}) => {
    const answer = await gateway.ask(method, `/admin${path}`, { key: TOKEN, body, headers })
    const isJson = answer.headers['content-type']?.includes('json')
    return { status: answer.status, text: answer.text, ...(isJson && answer.json) }
  }
  return {
    ...gateway,
    directory: cwd,
    admin,
    change: (...changes) => admin('POST', '/managed', { changes }),
  }
}

export function configuration(more: object = {}): object {
  return { admin: { token: TOKEN }, state: { driver: 'file' }, log: { access: false }, ...more }
}

/** A vendor that knows one key, names two models and answers chats. */
export async function vendor(key = PLANTED): Promise<FakeUpstream> {
  const upstream = await startUpstream()
  onTestFinished(() => upstream.close())
  upstream.answer(({ path, headers }) => {
    if (headers.authorization !== `Bearer ${key}`) {
      return json({ error: { message: `Incorrect API key provided: ${key}` } }, 401)
    }
    if (path.endsWith('/models')) return json({ data: [{ id: 'one' }, { id: 'two' }] })
    return json({
      id: 'c1',
      object: 'chat.completion',
      created: 1,
      model: 'one',
      choices: [
        { index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'hello' } },
      ],
      usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
    })
  })
  return upstream
}

export const provider = (url: string, options: object = { apiKey: PLANTED }, name = 'acme') => ({
  section: 'providers',
  name,
  value: { use: 'openai-compatible', options: { baseURL: `${url}/v1`, ...options } },
})

export const model = (name = 'acme/one', more: object = {}) => ({
  section: 'models',
  name,
  value: { pricing: PRICING, ...more },
})
