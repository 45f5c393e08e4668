/** The kits of what is built in and of the examples, each with its cases. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import categories from '../../plugins/guards/categories.ts'
import judge from '../../plugins/guards/judge.ts'
import pii from '../../plugins/guards/pii.ts'
import exa from '../../plugins/search/exa.ts'
import parallel from '../../plugins/search/parallel.ts'
import perplexity from '../../plugins/search/perplexity.ts'
import searxng from '../../plugins/search/searxng.ts'
import langfuse from '../../plugins/sinks/langfuse.ts'
import otlp from '../../plugins/sinks/otlp.ts'
import webhook from '../../plugins/sinks/webhook.ts'
import { findPlugin } from '../../src/gateway/plugin-code.ts'
import { runPluginJob } from '../../src/testing/plugin-job.ts'
import { against, askedIn, honest } from '../plugins/judge/_judge.ts'
import {
  checkGuard,
  json,
  readTranscripts,
  startUpstream,
  testProvider,
  testSearch,
  testSink,
  type KitReport,
  type SinkCase,
} from '../../src/testing.ts'
import type { GuardPlugin, RuleRef, SearchPlugin, SinkPlugin } from '../../src/plugin.ts'

/** Every operation of a correct plugin comes to an end, however busy the machine is. */
const PATIENCE_MS = 60_000
const EXAMPLES = join(import.meta.dirname, '../../docs/examples')
const TRANSCRIPTS = join(import.meta.dirname, '../providers/transcripts')

/** A run of a kit. Without a seed it has a random one. */
type Kit = (seeded?: { readonly seed?: number }) => Promise<KitReport>

export interface BuiltInProvider {
  readonly name: string
  /** Its options, but for the address; by default a made-up key. */
  readonly options?: Readonly<Record<string, unknown>>
  /** Checks that have nothing to look at here. */
  readonly unchecked?: readonly string[]
  /** Checks, as `name, on`, that ask for what this vendor never says. */
  readonly exempt?: readonly string[]
}

/** Built-in providers with chat. */
export const PROVIDERS: readonly BuiltInProvider[] = [
  { name: 'anthropic' },
  { name: 'azure' },
  {
    name: 'bedrock',
    options: { region: 'eu-north-1', apiKey: 'bedrock-api-key-Zm9yIHRlc3Rz' },
    // Amazon does not tell how long to wait, and has no status for an empty balance.
    exempt: ['errors, 429', 'errors, 402'],
  },
  // Its embeddings have a form of their own, and tests.
  { name: 'google', unchecked: ['texts'] },
  { name: 'mistral' },
  {
    name: 'mock',
    // The mock sends no requests.
    unchecked: ['back-pressure', 'cancel', 'cut off', 'cuts', 'errors', 'hang', 'signal'],
  },
  { name: 'openai' },
  { name: 'openai-compatible' },
]

/** @returns the kit of a provider with the answers of its vendor, without the checks from which it is exempt */
export function providerKit({ name, options, exempt = [] }: BuiltInProvider): Kit {
  return async (seeded) => {
    const report = await testProvider({
      provider: name,
      directory: import.meta.dirname,
      transcripts: await readTranscripts(join(TRANSCRIPTS, name)),
      timeoutMs: PATIENCE_MS,
      ...seeded,
      ...(options && { options }),
    })
    const failed = report.failed.filter(({ name, on }) => !exempt.includes(`${name}, ${on}`))
    return { ...report, failed }
  }
}

const PASSES = { text: 'The weather is fine, and the ferry is white. 👋', expect: 'pass' } as const
const FORBIDDEN = 'Here is something forbidden.'

const guardKit =
  (plugin: unknown, text: string, rule: RuleRef, more: object = {}): Kit =>
  (seeded) => {
    const cases = [{ text, expect: rule }, PASSES]
    return checkGuard(plugin as GuardPlugin, cases, { ...more, ...seeded })
  }

/** The judge, with a service of moderation that finds what is forbidden. */
const moderationKit: Kit = async (seeded) => {
  await using server = await startUpstream()
  server.answer(({ json: { input } }) =>
    json({
      results: [{ categories: { violence: input.includes('forbidden') }, category_scores: {} }],
    }),
  )
  const options = { kind: 'moderation', baseURL: server.url, apiKey: 'key' }
  return await guardKit(judge, FORBIDDEN, 'x:moderation/violence', { options })(seeded)
}

const askHonest = (request: unknown) =>
  JSON.stringify(honest(askedIn({ json: request } as never), against('forbidden')))

const PAGES = ['a', 'b'].map((name) => ({ url: `https://${name}.example/`, title: name }))
const TEXT = 'About it.'
// Each engine has its own name for the text of a page.
const PAGE = { highlights: [TEXT], excerpts: [TEXT], snippet: TEXT, content: TEXT }
const SEARCHES = [
  { name: 'none', answer: { results: [] }, expect: { results: [] } },
  {
    name: 'two',
    answer: { results: PAGES.map((page) => ({ ...page, ...PAGE })) },
    expect: { results: PAGES.map((page) => ({ ...page, content: TEXT })) },
  },
]

const searchKit =
  (plugin: unknown): Kit =>
  (seeded) =>
    testSearch(plugin as SearchPlugin, { cases: SEARCHES, ...seeded })

const CALL: SinkCase = { name: 'one', events: [{ event: 'call.ended' }], expect: { requests: 1 } }
const ALERT: SinkCase = {
  ...CALL,
  events: [{ event: 'alert', id: 'evt_1', at: '2026-01-02' }],
  expect: {
    sent: { id: 'evt_1', event: 'alert', at: '2026-01-02', data: { state: 'raised' } },
  },
}

const sinkKit =
  (plugin: unknown, one: SinkCase, more: object = {}): Kit =>
  (seeded) =>
    testSink(plugin as SinkPlugin, { cases: [one], ...more, ...seeded })

/** @returns the kit of the plugin in a folder of the examples */
export function exampleKit(folder: string): Kit {
  const [kind = ''] = folder.split('-')
  return async (seeded) => {
    const plugin = join(EXAMPLES, folder, `my-${kind}.ts`)
    const job = { plugin, directory: EXAMPLES, thorough: false, timeoutMs: PATIENCE_MS }
    return runPluginJob({ ...job, ...seeded }, await findPlugin(plugin, EXAMPLES), undefined)
  }
}

export const EXAMPLE_FOLDERS = readdirSync(EXAMPLES, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

/** Built-in guards, search engines and sinks. */
export const BUILT_IN: Readonly<Record<string, Kit>> = {
  pii: guardKit(pii, 'My card is 4012 8888 8888 1881.', 'deny:personal-data'),
  categories: guardKit(categories, 'You should. Run pip install requests.', 'deny:code'),
  'judge, with a model': guardKit(judge, FORBIDDEN, 'deny:code', {
    options: { model: 'a/b' },
    ask: askHonest,
  }),
  'judge, with a service': moderationKit,
  exa: searchKit(exa),
  parallel: searchKit(parallel),
  perplexity: searchKit(perplexity),
  searxng: searchKit(searxng),
  webhook: sinkKit(webhook, ALERT, {
    options: { secret: 'a-secret-of-the-receiver' },
    addressOption: 'url',
  }),
  otlp: sinkKit(otlp, CALL),
  langfuse: sinkKit(langfuse, CALL, {
    options: { publicKey: 'pk-0123456789', secretKey: 'sk-0123456789ab' },
    addressOption: 'host',
  }),
}
