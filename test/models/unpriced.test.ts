/** `unpriced` of an entry `vendor/*`: what becomes of names that no price list has. */
import { expect, it, onTestFinished } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { formatPico, priceUsage } from '../../src/money/money.ts'
import { compilePrices, versionOf } from '../../src/money/prices.ts'
import { folder } from '../_folder.ts'
import { createTestGateway } from '../_setup.ts'
import { json, startUpstream } from '../upstream.ts'

const HELLO = { messages: [{ role: 'user', content: 'Hello' }] }

async function loadWith(vendor: string, entry: object, options: object = {}, use = vendor) {
  const config = {
    state: { driver: 'memory' },
    log: { access: false },
    providers: { [vendor]: { use, options: { apiKey: 'the-key', ...options } } },
    models: { [`${vendor}/*`]: entry },
  }
  const cwd = await folder({ 'gateway.config.json': JSON.stringify(config) })
  return loadConfig({ cwd, env: {} })
}

async function gatewayOf(entry: object, usage: object) {
  const vendor = await startUpstream(
    json({
      id: 'c',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 10, completion_tokens: 10, total_tokens: 20, ...usage },
    }),
  )
  onTestFinished(() => vendor.close())
  const loaded = await loadWith('openrouter', entry, { baseURL: `${vendor.url}/v1` })
  const gateway = await createTestGateway(loaded)
  onTestFinished(() => gateway.close())
  return { gateway, ask: (model: string) => gateway.chat({ ...HELLO, model }) }
}

const NEW = 'openrouter/lab/model-99'

it('is refused by default, and with "refuse" beside a pricing', async () => {
  const plain = await gatewayOf({}, {})
  expect((await plain.ask(NEW)).status).toBe(404)
  const pricing = { prompt: '0.000001', completion: '0.000001' }
  const refusing = await gatewayOf({ pricing, unpriced: 'refuse' }, {})
  expect((await refusing.ask(NEW)).status).toBe(404)
  expect((await refusing.ask('openrouter/openai/gpt-4o')).json.usage.cost).toBe(0.00002)
})

it('costs the prices that it names, and listed models those of the list', async () => {
  const { ask } = await gatewayOf({ unpriced: { prompt: '0.001', completion: '0.001' } }, {})
  expect((await ask(NEW)).json.usage.cost).toBe(0.02)
  expect((await ask('openrouter/openai/gpt-4o')).json.usage.cost).toBe(0.000125)
})

it('costs what the vendor reports, to the last digit, and the ledger agrees', async () => {
  const { gateway, ask } = await gatewayOf(
    { unpriced: 'vendor_price_required' },
    { cost: 0.000123456789 },
  )
  const { json: answer } = await ask(NEW)
  expect(answer.usage).toMatchObject({
    cost: 0.000123456789,
    cost_details: { completion_cost: 0.000123456789 },
  })
  expect(formatPico(await gateway.balance())).toBe('99.999876543211')
  const { prices, ledger } = gateway.gateway.runtime
  expect(await prices.check(ledger, ['acme'])).toMatchObject({ checked: 1, unknown: 0, wrong: [] })
})

it('costs the highest prices of the vendor where an answer has no amount, as an estimate', async () => {
  const { gateway, ask } = await gatewayOf({ unpriced: 'vendor_price_required' }, {})
  const { json: answer } = await ask(NEW)
  // OpenRouter's dearest model is o1-pro.
  expect(answer.usage.cost).toBe(0.0075)
  const { prices, ledger } = gateway.gateway.runtime
  expect(await prices.check(ledger, ['acme'])).toMatchObject({ checked: 1, wrong: [] })
})

it('an amount is rounded up to a pico-dollar, and other prices are as without it', () => {
  const usage = { promptTokens: 3, completionTokens: 4, vendorCost: '0.0000000000001' }
  const own = { prompt: '0.1', completion: '0.2' }
  const [without, prices] = [compilePrices(own), compilePrices({ ...own, vendor_usd: '1' })]
  const costOf = (used: typeof prices, more = usage) =>
    formatPico(priceUsage([{ source: 'model', usage: more, prices: used }]).cost)
  expect(costOf(prices)).toBe('0.000000000001')
  expect(costOf(without)).toBe('1.1')
  expect(costOf(prices, { ...usage, vendorCost: undefined as unknown as string })).toBe('1.1')
  expect(versionOf(prices)).not.toBe(versionOf(without))
})

it.each<readonly [string, () => Promise<unknown>, string]>([
  [
    'a vendor that reports no cost',
    () => loadWith('openai', { unpriced: 'vendor_price_required' }),
    'expected a vendor that reports the cost of an answer: xai, perplexity, openrouter',
  ],
  [
    'a vendor of which no list has a model',
    () =>
      loadWith(
        'mine',
        { unpriced: 'vendor_price_required' },
        { baseURL: 'http://127.0.0.1:1', quirks: 'openrouter' },
        'openai-compatible',
      ),
    'no list has a model of mine, by which money could be held',
  ],
  [
    'another word',
    () => loadWith('openai', { unpriced: 'free' }),
    '"refuse", "vendor_price_required", or prices',
  ],
  [
    'prices on the free tier',
    () =>
      loadWith('openai', {
        pricing: { prompt: '0', completion: '0' },
        free_tier: true,
        unpriced: { prompt: '1' },
      }),
    'expected prices of "0" throughout',
  ],
  ['vendor_usd by hand', () => loadWith('openai', { pricing: { vendor_usd: '1' } }), 'vendor_usd'],
])('%s is a mistake', async (_, load, message) => {
  await expect(load()).rejects.toThrow(message)
})
