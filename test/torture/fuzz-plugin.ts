/**
 * `npm run torture -- fuzz-plugin`: a provider, a search engine and guards that return damaged values, throw anything, break
 * off, never settle, flood, and write into what they were given. The client gets an answer within the contract, never a 500,
 * nothing of an answer that a guard blocked, and no source that is not a page of the web.
 */
import * as v from 'valibot'
import type { UserConfig } from '../../src/config/config.ts'
import { defineGuard, defineProvider, defineSearch, type Guard } from '../../src/plugin.ts'
import { dataUrl, pngOfPixels } from '../_documents.ts'
import { mp3, wav } from '../endpoints/audio/_sounds.ts'
import { MODELS } from '../_every-endpoint.ts'
import { Bench } from './_bench.ts'
import { NoAnswer } from './_connection.ts'
import { examine } from './_contract.ts'
import { fuzz, type Fuzz } from './_fuzz.ts'
import { damage, toText } from './_json.ts'
import { pick, type Random } from './_random.ts'
import { readOptions, Run } from './_run.ts'
import { shrinkJson } from './_shrink.ts'

type Mode = 'return' | 'stream' | 'throw' | 'break' | 'hang' | 'flood' | 'write'

/** What the plugins do in one case. */
interface Plan {
  readonly mode: Mode
  /** What is returned, or the parts of a stream. */
  readonly value: unknown
  readonly results: unknown
  readonly thrown: unknown
  readonly guards: GuardPlan
}

/** What a guard answers. */
interface GuardPlan {
  /** The subject that the request's policy denies, which decides which guard is asked; undefined for none. */
  readonly deny: keyof typeof GUARDS | undefined
  /** Whether the verdict is on the request; that on the answer is the same. */
  readonly onInput: boolean
  readonly verdict: unknown
  /** What is wrong with its answers; undefined when nothing is. */
  readonly wrong: 'count' | 'shape' | 'offset' | 'throws' | 'promise' | undefined
}

interface Case extends Plan {
  readonly operation: keyof typeof GOOD
  readonly stream: boolean
}

const options = readOptions({
  short: { count: 2_000, seconds: 10 },
  long: { count: 200_000, seconds: 7200 },
})
const run = new Run('fuzz-plugin', options)
const LANES = 16
const PNG = pngOfPixels({ width: 2, height: 2 }, Buffer.alloc(4)).toString('base64')
const usage = { prompt_tokens: 9, completion_tokens: 12, total_tokens: 21 }
const call = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } }
const detail = { type: 'reasoning.text', text: 'hm', index: 0 }
const citation = { url: 'https://a.example/', title: 'A', start_index: 0, end_index: 2 }
const message = {
  role: 'assistant',
  content: 'Hello there.',
  reasoning_details: [detail],
  tool_calls: [call],
  annotations: [{ type: 'url_citation', url_citation: citation }],
}

/** Sound answers, whole and as the parts of a stream. */
const GOOD = {
  chat: {
    path: '/v1/chat/completions',
    body: { model: 'acme/chat', messages: [{ role: 'user', content: 'Say hello.' }] },
    whole: { choices: [{ index: 0, message, finish_reason: 'tool_calls', logprobs: null }], usage },
    parts: [
      { choices: [{ index: 0, delta: { content: 'Hello ', reasoning_details: [detail] } }] },
      {
        choices: [{ index: 0, delta: { content: 'there.', tool_calls: [{ index: 0, ...call }] } }],
      },
      { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage, endOfStream: true },
    ],
  },
  images: {
    path: '/v1/images/generations',
    body: { model: 'acme/image', prompt: 'A cat.' },
    whole: {
      data: [{ b64_json: PNG, revised_prompt: 'A cat' }],
      usage: { images: 1 },
      size: '2x2',
    },
    parts: [
      { type: 'partial', b64_json: PNG, index: 0 },
      { type: 'completed', data: [{ b64_json: PNG }], usage: { images: 1 } },
    ],
  },
  ocr: {
    path: '/v1/ocr',
    body: {
      model: 'acme/ocr',
      document: { type: 'image_url', image_url: `data:image/png;base64,${PNG}` },
    },
    whole: {
      pages: [{ index: 0, markdown: 'A', images: [], dimensions: null }],
      usage: { pages: 1 },
    },
    parts: [],
  },
  embeddings: {
    path: '/v1/embeddings',
    body: { model: 'acme/embedding', input: ['Hello.', 'There.'] },
    whole: {
      data: [
        { index: 0, embedding: [0.5, -0.25] },
        { index: 1, embedding: 'AAAAPwAAgL4=' },
      ],
      usage: { promptTokens: 4 },
    },
    parts: [],
  },
  rerank: {
    path: '/v1/rerank',
    body: { model: 'acme/rerank', query: 'hello', documents: ['Hello.', 'There.'] },
    whole: {
      results: [
        { index: 1, relevance_score: 0.5 },
        { index: 0, relevance_score: -1 },
      ],
      usage: { searchUnits: 1, promptTokens: 9 },
    },
    parts: [],
  },
  moderations: {
    path: '/v1/moderations',
    body: { model: 'acme/moderation', input: 'Hello.' },
    whole: { results: [{ flagged: false, categories: {} }], usage: { promptTokens: 2 } },
    parts: [],
  },
  speech: {
    path: '/v1/audio/speech',
    body: { model: 'acme/speech', input: 'Hello there.', voice: 'a' },
    whole: { bytes: [mp3(2).toString('base64')], usage: { characters: 12 } },
    parts: [],
  },
  transcription: {
    path: '/v1/audio/transcriptions',
    body: { model: 'acme/transcription', file: dataUrl('audio/wav', wav(0.05)) },
    whole: {
      text: 'Turn left.',
      language: 'en',
      segments: [{ start: 0, end: 1, text: 'Turn left.' }],
      usage: { seconds: 1 },
    },
    parts: [
      { type: 'delta', text: 'Turn ' },
      { type: 'done', text: 'Turn left.', usage: { seconds: 1 } },
    ],
  },
}
const RESULTS = { results: [{ url: 'https://a.example/', title: 'A', content: 'A page.' }] }
const THROWN = [null, undefined, 7, 'no', {}, [], new Error('no'), new TypeError('x'.repeat(5000))]
const MODES: readonly Mode[] = [
  'return',
  'return',
  'return',
  'return',
  'stream',
  'stream',
  'throw',
  'break',
  'flood',
  'write',
]

// --- the plugins ---

/** The plans by the number of the lane that asks, which has one case at a time. */
const plans = new Map<number, Plan>()
const planOf = (model: string) => plans.get(Number(model))!

async function* partsOf({ mode, value, thrown }: Plan): AsyncGenerator<unknown> {
  const parts = Array.isArray(value) ? value : [value]
  for (const part of parts) yield part
  if (mode === 'break') throw thrown
  const empty = mode === 'flood' ? 20_000 : 0
  for (let i = 0; i < empty; i++) yield { choices: [], type: 'delta', text: '' }
}

/** Returns, or does worse. */
async function answer({ input, model }: { input: object; model: string }): Promise<never> {
  const plan = planOf(model)
  switch (plan.mode) {
    case 'throw':
      throw plan.thrown
    case 'hang':
      return new Promise<never>(() => {})
    case 'write':
      Object.assign(input, { messages: [], model: 'other' })
      return plan.value as never
    case 'return':
      return plan.value as never
    default:
      return partsOf(plan) as never
  }
}

async function speak(request: { input: object; model: string }): Promise<never> {
  const said = (await answer(request)) as any
  const bytes = said?.bytes
  if (!Array.isArray(bytes)) return said as never
  const read = bytes.map((one) => (typeof one === 'string' ? Buffer.from(one, 'base64') : one))
  return { ...said, bytes: partsOf({ ...planOf(request.model), value: read }) } as never
}

const provider = defineProvider({
  name: 'damaged',
  options: v.looseObject({}),
  setup: () => ({
    chat: answer,
    complete: answer,
    generateImage: answer,
    editImage: answer,
    ocr: answer,
    embed: answer,
    rerank: answer,
    moderate: answer,
    speech: speak,
    transcribe: answer,
  }),
})
const search = defineSearch({
  name: 'damaged',
  options: v.looseObject({}),
  setup: () => ({
    search: async (query) => planOf(/lane (\d+)/.exec(query.text(500))![1]!).results as never,
  }),
})

const VERDICTS = {
  pass: { action: 'pass' },
  abstains: { action: 'abstain', why: 'unscannable' },
  'does not apply': { action: 'abstain', why: 'not-applicable' },
}

/** The guards by the subject that each enforces: two of this machine, and one that takes its time. */
const GUARDS = {
  code: guardOf('code', { execution: 'local' }),
  math: guardOf('math', { execution: 'local', needsFullText: true }),
  legal: guardOf('legal', { execution: 'remote' }),
}

/** Blocks nothing, unless its plan says so. */
function guardOf(
  subject: 'code' | 'math' | 'legal',
  own: Pick<Guard, 'execution' | 'needsFullText'>,
) {
  const name = `damaged-${subject}`
  const said = (text: string): GuardPlan => {
    const { guards, thrown } = plans.get(Number(/lane (\d+)/.exec(text)?.[1]))!
    if (guards.wrong === 'throws') throw thrown
    return guards
  }
  const sent = (value: unknown): any =>
    own.execution === 'remote' ? Promise.resolve(value) : value
  const judge = (userTurn: string): any => {
    const { verdict, wrong } = said(userTurn)
    return wrong === 'promise' ? Promise.reject(new Error('no')) : sent(verdict)
  }
  const guard: Guard = {
    ...own,
    enforces: [`deny:${subject}`],
    checkInput: (items, { conversation: { userTurn } }) => {
      const { verdict, wrong, onInput } = said(userTurn)
      const one = onInput ? verdict : VERDICTS.pass
      const all = items.map(() => one)
      return sent(wrong === 'count' ? all.slice(1) : wrong === 'shape' ? one : all)
    },
    ...(own.needsFullText
      ? { checkOutput: (_, { conversation }) => judge(conversation.userTurn) }
      : { streamOutput: (_, { conversation }) => checkOf(conversation.userTurn) }),
  }
  const checkOf = (userTurn: string): any => {
    let length = 0
    const step = () => {
      const { verdict, wrong } = said(userTurn)
      const passes = (verdict as { action?: unknown } | null)?.action === 'pass'
      const safeOffset = wrong === 'offset' ? length * 2 - 7 : length
      if (wrong === 'shape') return sent(verdict)
      if (wrong === 'promise') return Promise.reject(new Error('no'))
      return sent(passes ? { safeOffset } : { safeOffset: 0, verdict })
    }
    return {
      push: (text: string) => {
        length += text.length
        return step()
      },
      end: step,
    }
  }
  return defineGuard({ name, options: v.looseObject({}), setup: () => guard })
}

function configuration(): UserConfig {
  const lanes = Array.from({ length: LANES }, (_, lane) => lane)
  const models = Object.entries(MODELS).flatMap(([id, model]) =>
    lanes.map((lane) => [
      `${id}-${lane}`,
      { ...model, deployments: [{ provider: 'damaged', model: String(lane) }] },
    ]),
  )
  return {
    providers: {
      damaged: { use: provider, timeout: 2, firstPartTimeout: 2, idleTimeout: 2 },
    },
    search: { engines: { damaged: { use: search, price: '0.005' } } },
    models: Object.fromEntries(models),
    guards: { use: Object.values(GUARDS).map((use) => ({ use })) },
    // A plugin that ignores its signal ends by the gateway's own deadlines.
    server: { requestTimeout: 3, streamTimeout: 3 },
    routing: { cooldown: 0, attempts: 1 },
    log: { level: 'error' },
  } as unknown as UserConfig
}

// --- cases ---

const OPERATIONS = Object.keys(GOOD) as (keyof typeof GOOD)[]
/** A value as a plugin can return it, without what only a text of JSON can have. */
const plain = (value: unknown): unknown => {
  const text = toText(value)
  return text === undefined ? undefined : JSON.parse(text)
}

function make(random: Random): Case {
  const operation = random(2) === 0 ? 'chat' : pick(random, OPERATIONS)
  const good = GOOD[operation]
  const stream = good.parts.length > 0 && random(2) === 0
  const mode = random(2000) === 0 ? 'hang' : pick(random, MODES)
  let value: unknown = stream ? good.parts : good.whole
  for (let n = random(4); n > 0; n--) value = damage(value, random)
  const results = random(2) === 0 ? RESULTS : damage(RESULTS, random)
  const thrown = pick(random, THROWN)
  const guards = makeGuards(random)
  return { operation, stream, mode, value: plain(value), results: plain(results), thrown, guards }
}

function makeGuards(random: Random): GuardPlan {
  const subjects = Object.keys(GUARDS) as (keyof typeof GUARDS)[]
  const deny = random(2) === 0 ? undefined : pick(random, subjects)
  const block = { action: 'block', rule: `deny:${deny}`, score: 0.9, spans: [{ start: 0, end: 3 }] }
  const verdict = pick<unknown>(random, [...Object.values(VERDICTS), block, block])
  const wrong = pick(random, ['count', 'shape', 'offset', 'throws', 'promise'] as const)
  const kind = random(3)
  return {
    deny,
    onInput: random(4) === 0,
    verdict: kind === 0 ? plain(damage(verdict, random)) : verdict,
    wrong: kind === 1 ? wrong : undefined,
  }
}

/** Whether a guard says, as it should, that the answer is blocked. */
function isBlocked({ operation, guards: { deny, verdict, wrong } }: Case): boolean {
  const { action, rule, score, spans } = (verdict ?? {}) as Record<string, unknown>
  const isWhole = rule === `deny:${deny}` && score === 0.9 && Array.isArray(spans)
  return operation === 'chat' && deny !== undefined && !wrong && action === 'block' && isWhole
}

async function play(one: Case, bench: Bench, number: number): Promise<string | undefined> {
  const lane = bench.lanes[number]!
  plans.set(number, one)
  const { path, body } = GOOD[one.operation]
  const request: any = {
    ...body,
    model: `${body.model}-${number}`,
    ...(one.stream && { stream: true }),
  }
  if (one.operation === 'chat') {
    request.messages = [{ role: 'user', content: `Say hello, lane ${number}.` }]
    const { deny } = one.guards
    if (deny) request.policy = { version: 1, deny: [deny] }
    request.plugins = [{ id: 'web' }]
  }
  const text = JSON.stringify(request)
  const head =
    `POST ${path} HTTP/1.1\r\nhost: t\r\nauthorization: Bearer ${lane.secret}\r\n` +
    `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n`
  const answered = await lane.connection.exchange([head + text]).catch((error: unknown) => {
    // Sound that fails right after its first bytes breaks the connection, and its charge stands.
    if (one.operation !== 'speech' || !(error instanceof NoAnswer)) throw error
    lane.hasLeft = true
    return undefined
  })
  if (!answered) {
    run.count(`${one.operation} ${one.mode} broken off`)
    return undefined
  }
  const { fault, cost, code } = examine({ path, stream: one.stream }, answered)
  lane.spent += cost
  const { status, body: said } = answered
  run.count(`${one.operation} ${one.mode} ${status} ${code ?? ''}`.trim())
  if (fault) return `${path} ${one.mode} ${status}: ${fault}`
  if (status === 500 || code === 'internal_error') return `${path}: a fault of ours: ${said}`
  if (isBlocked(one)) run.count('blocked by a guard')
  if (isBlocked(one) && /Hello |there\.|hm"/.test(String(said)))
    return `a blocked answer goes out: ${said}`
  const odd = [...String(said).matchAll(URLS)].find(([, url]) => !/^https?:\/\//i.test(url!))
  return odd ? `the source ${odd[1]} goes out` : undefined
}

/** Sources of an answer. */
const URLS = /"url_citation":\{"url":"((?:[^"\\]|\\.)*)"/g

const suite: Fuzz<Case> = {
  lanes: LANES,
  perGateway: 50_000,
  open: () => Bench.open(configuration(), LANES, options.driver),
  make,
  play,
  async shrink(one, fails) {
    const value = await shrinkJson(one.value, (smaller) => fails({ ...one, value: smaller }))
    return { ...one, value }
  },
  show: (one) => JSON.stringify(one),
}

await run.end(() => fuzz(run, suite))
