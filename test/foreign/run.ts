/**
 * `npm run test:foreign [-- name]`: packages that others wrote, as their users call them, against a gateway with scripted
 * vendors. Installs the packages of this folder first; without their registry it says so and ends well. A difference is known
 * if `expected.json` has it, with its reason and whose it is; a known one that is gone fails too.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { parsePico } from '../../src/money/money.ts'
import { createTestGateway } from '../_setup.ts'
import { CONSUMED, anthropic, openAI, openAIResponses, type Voice } from '../sdk/_voices.ts'
import { json, startUpstream, type ReceivedRequest } from '../upstream.ts'
import { cases, type Kit } from './cases.ts'

interface Known {
  readonly reason: string
  readonly owner: 'ours' | 'theirs'
}

const LIMIT_MS = 30_000
const folder = import.meta.dirname
const expected = JSON.parse(readFileSync(`${folder}/expected.json`, 'utf8')) as Record<
  string,
  Known
>

const installed = spawnSync('npm', ['ci', '--prefer-offline'], { cwd: folder, encoding: 'utf8' })
if (installed.status !== 0) {
  const isOffline = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|network/i.test(installed.stderr)
  process.stdout.write(
    isOffline ? 'no registry can be reached: nothing was run\n' : installed.stderr,
  )
  process.exit(isOffline ? 0 : 1)
}

// Vendors: they call the tool that is offered, and answer once they have its result.

const VOICES: readonly (readonly [path: RegExp, voice: Voice])[] = [
  [/\/chat\/completions$/, openAI()],
  [/\/messages$/, anthropic],
  [/\/responses$/, openAIResponses],
]

function answerTo(request: ReceivedRequest) {
  const { path, json: body } = request
  if (path.endsWith('/rerank')) {
    const results = body.documents.map((_text: unknown, index: number) => {
      return { index, relevance_score: 1 - index / 10 }
    })
    return json({ results, usage: { total_tokens: CONSUMED.prompt } })
  }
  const text = JSON.stringify(body)
  if (text.includes('too-long')) {
    if (path.endsWith('/messages')) {
      const message = 'prompt is too long: 12345 tokens > 9000 maximum'
      return json({ type: 'error', error: { type: 'invalid_request_error', message } }, 400)
    }
    const message = 'maximum context length is 9000 tokens. However, you requested 12345 tokens'
    return json({ error: { message, code: 'context_length_exceeded' } }, 400)
  }
  const [, voice] = VOICES.find(([at]) => at.test(path))!
  const isOffered = body.tools?.length > 0 && !text.includes('nice and warm')
  const called = [{ name: 'look', input: { city: 'Paris' } }]
  return voice(
    isOffered ? { text: 'Let me look.', calls: called } : { text: 'It is warm.' },
    request,
  )
}

const vendor = await startUpstream()
vendor.answer(answerTo)
const options = { apiKey: 'k', baseURL: `${vendor.url}/v1` }
const PRICES = { prompt: '0.000003', completion: '0.000015', input_cache_read: '0.0000003' }
const at = (provider: string, more = {}) => ({
  pricing: PRICES,
  capabilities: ['STREAMING' as const, 'TOOLS' as const],
  context_length: 9000,
  deployments: [{ provider, model: 'theirs', options: more }],
})
const gateway = await createTestGateway({
  defaults: { limits: { rpm: 100_000 } },
  routing: { attempts: 1, cooldown: 0 },
  providers: {
    chat: { use: 'openai-compatible', options },
    claude: { use: 'anthropic', options },
    openai: { use: 'openai', options },
  },
  models: {
    'm/chat': at('chat'),
    'm/claude': at('claude'),
    'm/responses': at('openai', { api: 'responses' }),
    'm/ranks': {
      modality: 'rerank',
      pricing: { prompt: '0.000001' },
      deployments: [{ provider: 'chat', model: 'theirs', options: { rerank: 'jina' } }],
    },
  },
})
const priceOf = (usd: string, count: number) => parsePico(usd) * BigInt(count)
/** The cost of each answer of a chat. */
const TURN =
  priceOf(PRICES.prompt, CONSUMED.prompt - CONSUMED.cached) +
  priceOf(PRICES.input_cache_read, CONSUMED.cached) +
  priceOf(PRICES.completion, CONSUMED.completion)
const RANKS = priceOf('0.000001', CONSUMED.prompt)

const { resolve } = createRequire(`${folder}/package.json`)
const load: Kit['load'] = async (name) => {
  try {
    return await import(pathToFileURL(resolve(name)).href)
  } catch {
    // Packages that only modules may load.
    return import(import.meta.resolve(name, pathToFileURL(`${folder}/package.json`).href))
  }
}

const CREDIT = parsePico('10')
let failures = 0
let number = 0
const wanted = process.argv[2] ?? ''
const started = Date.now()
for (const { name, run } of cases) {
  if (!name.includes(wanted)) continue
  const account = `case-${number++}`
  await gateway.newAccount(account, '10')
  const { secret: key } = await gateway.newKey({ account })
  const before = vendor.requests.length
  let fault: string | undefined
  try {
    const late = new Promise<never>((_resolve, reject) => {
      setTimeout(() => reject(new Error('no end within 30 s')), LIMIT_MS).unref()
    })
    const kit: Kit = { key, url: gateway.url, baseURL: gateway.baseURL, load }
    await Promise.race([run(kit), late])
    const answered = vendor.requests.slice(before)
    const failed = answered.filter(({ body }) => body.includes('too-long')).length
    const ranked = answered.filter(({ path }) => path.endsWith('/rerank')).length
    const turns = answered.length - failed - ranked
    const cost = BigInt(turns) * TURN + BigInt(ranked) * RANKS
    const booked = CREDIT - (await gateway.balance(account))
    if (booked !== cost) fault = `booked ${booked}, the vendors answered for ${cost}`
  } catch (error) {
    fault = (error as Error).message.split('\n')[0]!.slice(0, 300)
  }
  const known = expected[name]
  const isUnexpected = (fault !== undefined) !== (known !== undefined)
  if (isUnexpected) failures++
  if (fault !== undefined || known) {
    const said = known ? `known (${known.owner}): ${known.reason}` : ''
    process.stdout.write(
      `${isUnexpected ? 'FAIL' : 'ok  '} ${name}: ${fault ?? 'passes'} ${said}\n`,
    )
  }
}
const seconds = Math.round((Date.now() - started) / 1000)
process.stdout.write(`${number} cases, ${failures} not as expected, ${seconds} s\n`)
await gateway.close()
await vendor.close()
process.exit(failures > 0 ? 1 : 0)
