/** What every ring of packages needs: scripted vendors, a gateway with real keys, and an account for each case. */
import { readFileSync } from 'node:fs'
import { parsePico } from '../../src/money/money.ts'
import { createTestGateway } from '../_setup.ts'
import { CONSUMED, anthropic, openAI, openAIResponses, type Voice } from '../sdk/_voices.ts'
import { json, startUpstream, type ReceivedRequest } from '../upstream.ts'

interface Known {
  readonly reason: string
  readonly owner: 'ours' | 'theirs'
}

/** Where a case asks, and with which key. */
export interface Place {
  readonly key: string
  /** The address of the gateway without `/v1`. */
  readonly url: string
  readonly baseURL: string
}

const LIMIT_MS = 60_000
const expected = JSON.parse(readFileSync(`${import.meta.dirname}/expected.json`, 'utf8')) as Record<
  string,
  Known
>

// Vendors: they call the tool that is offered, and answer once they have its result.

const VOICES: readonly (readonly [path: RegExp, voice: Voice])[] = [
  [/\/chat\/completions$/, openAI()],
  [/\/messages$/, anthropic],
  [/\/responses$/, openAIResponses],
]

function answerTo(request: ReceivedRequest) {
  const { path, json: body } = request
  if (path.endsWith('/embeddings')) {
    const data = [body.input].flat().map((_text: unknown, index: number) => {
      return { object: 'embedding', index, embedding: [0.25, -0.5] }
    })
    return json({ object: 'list', data, usage: { prompt_tokens: CONSUMED.prompt } })
  }
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
  capabilities: ['STREAMING' as const, 'TOOLS' as const, 'VISION' as const],
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
    'm/embeds': {
      modality: 'embedding',
      pricing: { prompt: '0.000001' },
      deployments: [{ provider: 'chat', model: 'theirs' }],
    },
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
/** The cost of embeddings and of a rerank. */
const PROMPT = priceOf('0.000001', CONSUMED.prompt)

const CREDIT = parsePico('10')

/** Cases, one after the other: each has an account of its own, and is charged for what the vendors have answered. */
export class Ring {
  #failures = 0
  #number = 0
  readonly #started = Date.now()

  /** Runs a case and prints it where it is not as it should be, or known not to be. */
  async run(name: string, ask: (place: Place) => Promise<void>): Promise<void> {
    const account = `case-${this.#number++}`
    await gateway.newAccount(account, '10')
    const { secret: key } = await gateway.newKey({ account })
    const before = vendor.requests.length
    let fault: string | undefined
    try {
      const late = new Promise<never>((_resolve, reject) => {
        const error = new Error(`no end within ${LIMIT_MS / 1000} s`)
        setTimeout(() => reject(error), LIMIT_MS).unref()
      })
      await Promise.race([ask({ key, url: gateway.url, baseURL: gateway.baseURL }), late])
      const cost = costOf(vendor.requests.slice(before))
      const booked = CREDIT - (await gateway.balance(account))
      if (booked !== cost) fault = `booked ${booked}, the vendors answered for ${cost}`
    } catch (error) {
      fault = (error as Error).message.split('\n')[0]!.slice(0, 300)
    }
    const known = expected[name]
    const isUnexpected = (fault !== undefined) !== (known !== undefined)
    if (isUnexpected) this.#failures++
    if (fault === undefined && !known) return
    const reason = known ? `known (${known.owner}): ${known.reason}` : ''
    const start = isUnexpected ? 'FAIL' : 'ok  '
    process.stdout.write(`${start} ${name}: ${fault ?? 'passes'} ${reason}\n`)
  }

  /** Prints the sum, and ends the process. */
  async end(): Promise<never> {
    const wrong = await gateway.gateway.runtime.ledger.verify()
    const ok = wrong.length === 0
    const seconds = Math.round((Date.now() - this.#started) / 1000)
    process.stdout.write(
      `${this.#number} cases, ${this.#failures} not as expected, ${seconds} s, ledger ${ok ? 'right' : 'WRONG'}\n`,
    )
    await gateway.close()
    await vendor.close()
    process.exit(ok && this.#failures === 0 ? 0 : 1)
  }
}

function costOf(answered: readonly ReceivedRequest[]): bigint {
  const costs = answered.map(({ path, body }) => {
    if (body.includes('too-long')) return 0n
    return /(?:rerank|embeddings)$/.test(path) ? PROMPT : TURN
  })
  return costs.reduce((sum, cost) => sum + cost, 0n)
}

/** Says that nothing was installed: without a registry nothing is run, and that is no failure. */
export function notInstalled(output: string): never {
  const isOffline = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|network|dns error|resolve/i.test(
    output,
  )
  process.stdout.write(isOffline ? 'no registry can be reached: nothing was run\n' : output)
  process.exit(isOffline ? 0 : 1)
}
