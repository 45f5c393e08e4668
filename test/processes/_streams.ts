/** A gateway as a process, with streams that run while something happens to it. */
import { join, resolve } from 'node:path'
import { expect } from 'vitest'
import { ask, start, urlOf, type Running, type Where } from '../_cli.ts'
import { folder } from '../_folder.ts'

export const ROOT = resolve(import.meta.dirname, '../..')
export const SECRET = 'secret-of-the-test-0123456789abcdef'
export const TOKEN = 'admin-token-of-the-test'

/** Streams at once. */
const STREAMS = 20
const WORDS = Array.from({ length: 40 }, (_, i) => `word${i}`).join(' ')

/** The configuration of such a gateway: its state is in a file, its model writes 40 words, each after some ms. */
export function configOf(more = '', { paceMs = 25, grace = 60 } = {}): string {
  return `
server: { port: 0, shutdownGrace: ${grace} }
admin: { token: '${TOKEN}' }
log: { access: false }
seed:
  accounts:
    - id: acme
      name: Acme
      credits: '100'
      keys: [{ id: key, name: Key, secret: ${SECRET}, rpm_limit: 100000, concurrency_limit: 100 }]
providers:
  mock: { use: mock }
  stray: { use: ./stray.ts, options: { throwsInClose: true } }
models:
  mock/echo:
    pricing: { prompt: '0.000001', completion: '0.000002' }
    capabilities: [STREAMING]
    deployments: [{ provider: mock, model: echo, options: { paceMs: ${paceMs} } }]
${more}`
}

/** A plugin whose models are kinds of errors that no call receives. */
export const STRAY = `
import { EventEmitter } from 'node:events'
import { readFile } from 'node:fs'
import { defineProvider } from '${join(ROOT, 'src/plugin.ts')}'

const FAULTS = {
  timer: () => void setTimeout(() => { throw new TypeError('thrown in a timer, by sk-live-0123456789') }),
  rejection: () => void Promise.reject(new Error('a promise that is not awaited')),
  later: () => void setTimeout(() => Promise.reject(new Error('a promise of later'))),
  emitter: () => void setTimeout(() => new EventEmitter().emit('error', new Error('an event'))),
  callback: () => void readFile('/', () => { throw new Error('a late callback') }),
  microtask: () => void queueMicrotask(() => { throw new Error('a microtask') }),
  flood: () => { for (let i = 0; i < 10; i++) setTimeout(() => { throw new Error('again') }, i) },
  listener: (signal) => signal.addEventListener('abort', () => { throw new Error('an abort listener') }),
}

export default defineProvider({
  name: 'stray',
  options: { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } },
  setup: (options) => ({
    async chat({ model, signal, log }) {
      log.warn('asked for ' + model)
      FAULTS[model](signal)
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      throw new Error('left')
    },
    close() {
      if (!options.throwsInClose) return
      setTimeout(() => { throw new Error('a timer of close') })
      throw new Error('thrown in close')
    },
  }),
})
`

export interface Gateway extends Running {
  readonly url: string
  readonly cwd: string
}

/** Starts one. @param node options of Node itself. @param descriptors how many files and sockets it may open */
export async function serveWith(
  config: string,
  { cwd, env }: Where = {},
  node: readonly string[] = [],
  descriptors?: number,
): Promise<Gateway> {
  const own = cwd ?? (await folder({ 'gateway.config.yaml': config, 'stray.ts': STRAY }))
  const where = { cwd: own, ...(env && { env }) }
  const running = await start(['serve'], where, node, descriptors)
  const never = running.ended.then(({ out, err }) => {
    throw new Error(`the gateway has ended: ${out}${err}`)
  })
  never.catch(() => {})
  return { ...running, url: await Promise.race([urlOf(running), never]), cwd: own }
}

/** A stream that has begun. */
interface Stream {
  /** All of its text, once it has ended. */
  text(): Promise<string>
}

/** Starts streams, and waits until each has its first event. */
export function startStreams(url: string, count = STREAMS): Promise<Stream[]> {
  return Promise.all(Array.from({ length: count }, () => startStream(url)))
}

async function startStream(url: string): Promise<Stream> {
  const response = await post(url, { model: 'mock/echo', stream: true })
  expect(response.status).toBe(200)
  const reader = response.body!.getReader()
  const decoder = new TextDecoder()
  const first = await reader.read()
  let text = decoder.decode(first.value, { stream: true })
  return {
    async text() {
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        text += decoder.decode(read.value, { stream: true })
      }
      return text
    },
  }
}

export function post(url: string, body: object, signal?: AbortSignal): Promise<Response> {
  return fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${SECRET}`, 'content-type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content: WORDS }], ...body }),
    ...(signal && { signal }),
  })
}

/** Expects that every stream arrives whole. @returns the sum of what they cost, in USD */
export async function complete(streams: readonly Stream[]): Promise<number> {
  const texts = await Promise.all(streams.map((stream) => stream.text()))
  const costs = texts.map((text) => {
    expect(text).toMatch(/\[DONE\]\n\n$/)
    expect(text).toContain('word39')
    return Number(/"cost":([\d.]+)/.exec(text)![1])
  })
  return costs.reduce((sum, cost) => sum + cost, 0)
}

/** What the key has spent, in USD. */
export async function spentAt(url: string): Promise<number> {
  return (await ask(url, SECRET, '/v1/key')).json.data.spend_usd
}
