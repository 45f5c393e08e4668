/** Which model a name means with the keys of some vendors: two hundred names as clients write them. */
import * as fc from 'fast-check'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { unknownModel } from '../../src/models/allowlist.ts'
import { buildCatalog, type Catalog } from '../../src/models/catalog.ts'
import { runs } from '../_runs.ts'

const FREE = { free_tier: true, pricing: { prompt: '0', completion: '0' } }
/** What an operator has beside the keys. */
const OWN = {
  providers: { ollama: { use: 'ollama' } },
  models: {
    'ollama/llama3.2': FREE,
    'ollama/qwen3:8b': FREE,
    'ollama/deepseek-r1:latest': FREE,
  },
}

const cwd = await mkdtemp(join(tmpdir(), 'gateway-names-'))
await writeFile(join(cwd, 'gateway.config.json'), JSON.stringify({ extends: 'starter', ...OWN }))
afterAll(() => rm(cwd, { recursive: true, force: true }))

async function catalogWith(...keys: readonly string[]): Promise<Catalog> {
  const env = Object.fromEntries(keys.map((name) => [`${name}_API_KEY`, 'key']))
  const { config } = await loadConfig({ cwd, env: { OLLAMA_HOST: '127.0.0.1:1', ...env } })
  return buildCatalog(config.models, config.names, config.wildcards)
}

const CATALOGS = {
  none: await catalogWith(),
  openai: await catalogWith('OPENAI'),
  anthropic: await catalogWith('ANTHROPIC'),
  openrouter: await catalogWith('OPENROUTER'),
  both: await catalogWith('OPENAI', 'ANTHROPIC', 'OPENROUTER', 'GROQ'),
  makers: await catalogWith('GEMINI', 'MISTRAL', 'DEEPSEEK', 'XAI', 'DASHSCOPE', 'COHERE'),
  resellers: await catalogWith('GROQ', 'TOGETHER', 'FIREWORKS', 'CEREBRAS'),
}

/** Names by the keys that are set, and the id; `-` for a name that means nothing, `+` for several. */
const TABLE = `
none
  mock/echo                         mock/echo
  echo                              mock/echo
  Echo                              mock/echo
  mock/ECHO                         mock/echo
  echo:latest                       mock/echo
  echo:nitro                        mock/echo
  echo:free                         -
  free:free                         mock/free
  ollama/llama3.2                   ollama/llama3.2
  ollama/llama3.2:latest            ollama/llama3.2
  llama3.2                          ollama/llama3.2
  llama3.2:latest                   ollama/llama3.2
  llama3-2                          ollama/llama3.2
  ollama/llama3.2:free              ollama/llama3.2
  ollama/llama3.2:thinking          ollama/llama3.2
  ollama/llama3.2:free:nitro        ollama/llama3.2
  ollama/llama3.2:free:nitro:floor  -
  ollama/llama3.2:1b                -
  qwen3:8b                          ollama/qwen3:8b
  qwen3:8b:latest                   ollama/qwen3:8b
  qwen3                             -
  deepseek-r1                       -
  deepseek-r1:latest                ollama/deepseek-r1:latest
  deepseek-r1:latest:nitro          ollama/deepseek-r1:latest
  gpt-4o-mini                       -
  openai/gpt-4o-mini                -
  claude-sonnet-5                   -
  sonnet                            -
openai
  openai/gpt-4o-mini                openai/gpt-4o-mini
  gpt-4o-mini                       openai/gpt-4o-mini
  GPT-4o-mini                       openai/gpt-4o-mini
  gpt-4o                            openai/gpt-4o
  gpt-4o-2024-08-06                 openai/gpt-4o-2024-08-06
  gpt-4o-2024-05-13                 openai/gpt-4o-2024-05-13
  gpt-4o-2029-01-01                 openai/gpt-4o
  gpt-4o-20290101                   openai/gpt-4o
  gpt-4o-latest                     openai/gpt-4o
  chatgpt-4o-latest                 openai/chatgpt-4o-latest
  chatgpt-4o                        openai/chatgpt-4o-latest
  gpt-4.1                           openai/gpt-4.1
  gpt-4-1                           openai/gpt-4.1
  openai/gpt-4-1                    openai/gpt-4.1
  gpt-4.1-mini                      openai/gpt-4.1-mini
  gpt-4.1-nano:nitro                openai/gpt-4.1-nano
  gpt-4.1-nano:floor                openai/gpt-4.1-nano
  gpt-4.1-nano:exacto               openai/gpt-4.1-nano
  gpt-4.1-nano:free                 -
  gpt-4.1-nano:extended             -
  gpt-4.1-nano:batch                -
  gpt-4.1-nano:beta                 -
  gpt-5                             openai/gpt-5
  gpt-5-mini                        openai/gpt-5-mini
  gpt-5-nano                        openai/gpt-5-nano
  gpt-5-mini:thinking               openai/gpt-5-mini
  gpt-5.1-codex                     openai/gpt-5.1-codex
  gpt-5-1-codex                     openai/gpt-5.1-codex
  gpt-5.4                           openai/gpt-5.4
  gpt-6-sol                         openai/gpt-6-sol
  GPT-6-Sol                         openai/gpt-6-sol
  gpt-6-terra                       -
  gpt-6.1-terra                     openai/gpt-6.1-terra
  gpt-6-1-terra                     openai/gpt-6.1-terra
  gpt-7                             -
  o3                                openai/o3
  o3-mini                           openai/o3-mini
  o3-mini-2025-01-31                openai/o3-mini-2025-01-31
  o4-mini                           openai/o4-mini
  o1-preview                        -
  text-embedding-3-small            openai/text-embedding-3-small
  text-embedding-3-large            openai/text-embedding-3-large
  text-embedding-ada-002            openai/text-embedding-ada-002
  Text-Embedding-3-Small            openai/text-embedding-3-small
  whisper-1                         openai/whisper-1
  tts-1                             openai/tts-1
  tts-1-hd                          openai/tts-1-hd
  gpt-image-1                       openai/gpt-image-1
  dall-e-3                          -
  omni-moderation-latest            openai/omni-moderation-latest
  omni-moderation                   openai/omni-moderation-latest
  gpt-4o-transcribe                 openai/gpt-4o-transcribe
  gpt-4o-mini-transcribe            openai/gpt-4o-mini-transcribe
  gpt-3.5-turbo                     openai/gpt-3.5-turbo
  gpt-3-5-turbo                     openai/gpt-3.5-turbo
  gpt-35-turbo                      -
  gpt-4                             openai/gpt-4
  gpt-4-turbo                       openai/gpt-4-turbo
  azure/gpt-4o                      -
  openai/openai/gpt-4o              -
  openai/                           -
  /gpt-4o                           -
  openai/*                          -
  constructor                       -
  __proto__                         -
anthropic
  claude-opus-4-8                   anthropic/claude-opus-4-8
  claude-sonnet-5                   anthropic/claude-sonnet-5
  claude-haiku-4-5-20251001         anthropic/claude-haiku-4-5-20251001
  claude-haiku-4-5                  anthropic/claude-haiku-4-5
  claude-haiku-4.5                  anthropic/claude-haiku-4-5
  anthropic/claude-haiku-4.5        anthropic/claude-haiku-4-5
  anthropic/claude-haiku-5.5        anthropic/claude-haiku-5-5
  anthropic/claude-sonnet-5.5       anthropic/claude-sonnet-5-5
  claude-sonnet-5.5                 anthropic/claude-sonnet-5-5
  claude-opus-latest                anthropic/claude-opus-5-5
  claude-sonnet-latest              anthropic/claude-sonnet-5-5
  claude-haiku-latest               anthropic/claude-haiku-5-5
  opus                              anthropic/claude-opus-5-5
  sonnet                            anthropic/claude-sonnet-5-5
  haiku                             anthropic/claude-haiku-5-5
  fable                             anthropic/claude-fable-5-1
  Claude-Opus-4-8                   anthropic/claude-opus-4-8
  claude-opus-4.8                   anthropic/claude-opus-4-8
  claude-opus-4-8@20260101          anthropic/claude-opus-4-8
  claude-opus-4-8-v1:0              anthropic/claude-opus-4-8
  claude-sonnet-4-5-20250929        anthropic/claude-sonnet-4-5-20250929
  claude-sonnet-4-5-20250929-v1:0   anthropic/claude-sonnet-4-5
  claude-sonnet-4-5@20250929        anthropic/claude-sonnet-4-5
  claude-sonnet-4                   anthropic/claude-sonnet-4-20250514
  claude-sonnet-4-0                 anthropic/claude-sonnet-4-0
  claude-3-haiku                    anthropic/claude-3-haiku-20240307
  claude-3-5-haiku-latest           anthropic/claude-3-5-haiku-20241022
  claude-3.5-haiku                  anthropic/claude-3-5-haiku-20241022
  claude-3-7-sonnet                 anthropic/claude-3-7-sonnet-20250219
  claude-haiku-4-5-20251001:thinking  anthropic/claude-haiku-4-5-20251001
  claude-haiku-4.5:thinking         anthropic/claude-haiku-4-5
  claude-opus-5:thinking            anthropic/claude-opus-5
  claude-opus-9                     -
  claude                            -
  gpt-4o                            -
openrouter
  openrouter/anthropic/claude-sonnet-5  openrouter/anthropic/claude-sonnet-5
  anthropic/claude-sonnet-5         openrouter/anthropic/claude-sonnet-5
  claude-sonnet-5                   openrouter/anthropic/claude-sonnet-5
  claude-opus-4-8                   openrouter/anthropic/claude-opus-4.8
  claude-opus-4.8                   openrouter/anthropic/claude-opus-4.8
  claude-haiku-4-5-20251001         openrouter/anthropic/claude-haiku-4.5
  claude-haiku-4-5                  openrouter/anthropic/claude-haiku-4.5
  anthropic/claude-haiku-4.5        openrouter/anthropic/claude-haiku-4.5
  anthropic/claude-haiku-4-5        openrouter/anthropic/claude-haiku-4.5
  claude-haiku-4-5-20251001:thinking  openrouter/anthropic/claude-haiku-4.5
  openai/gpt-4o-mini                openrouter/openai/gpt-4o-mini
  gpt-4o-mini                       openrouter/openai/gpt-4o-mini
  openai/gpt-4o-mini:nitro          openrouter/openai/gpt-4o-mini
  openai/gpt-4o-mini:free           -
  openai/gpt-oss-20b:free           openrouter/openai/gpt-oss-20b:free
  gpt-oss-20b:free                  openrouter/openai/gpt-oss-20b:free
  openai/gpt-oss-20b                openrouter/openai/gpt-oss-20b
  meta-llama/llama-3.3-70b-instruct       openrouter/meta-llama/llama-3.3-70b-instruct
  meta-llama/llama-3.3-70b-instruct:free  openrouter/meta-llama/llama-3.3-70b-instruct:free
  meta-llama/llama-3.3-70b-instruct:floor  openrouter/meta-llama/llama-3.3-70b-instruct
  llama-3.3-70b-instruct            openrouter/meta-llama/llama-3.3-70b-instruct
  google/gemini-2.5-pro             openrouter/google/gemini-2.5-pro
  gemini-2.5-pro                    openrouter/google/gemini-2.5-pro
  gemini-2-5-pro                    openrouter/google/gemini-2.5-pro
  x-ai/grok-4                       openrouter/x-ai/grok-4
  claude-opus-5-5                   openrouter/anthropic/claude-opus-5.5
  claude-sonnet-5-5                 openrouter/anthropic/claude-sonnet-5.5
  claude-haiku-5-5                  openrouter/anthropic/claude-haiku-5.5
  haiku                             openrouter/~anthropic/claude-haiku-latest
  openai/gpt-6-sol                  openrouter/openai/gpt-6-sol
  grok-4                            openrouter/x-ai/grok-4
  openrouter/auto                   -
both
  gpt-4o-mini                       openai/gpt-4o-mini
  openai/gpt-4o-mini                openai/gpt-4o-mini
  openrouter/openai/gpt-4o-mini     openrouter/openai/gpt-4o-mini
  claude-haiku-4.5                  anthropic/claude-haiku-4-5
  anthropic/claude-haiku-4.5        anthropic/claude-haiku-4-5
  claude-haiku-4-5-20251001         anthropic/claude-haiku-4-5-20251001
  claude-sonnet-5                   anthropic/claude-sonnet-5
  claude-opus-4.8:thinking          anthropic/claude-opus-4-8
  openai/gpt-oss-20b                +
  gpt-oss-20b                       +
  openai/gpt-oss-120b               +
  llama-3.3-70b-versatile           groq/llama-3.3-70b-versatile
  qwen3-32b                         +
  qwen/qwen3-32b                    +
  grok-4                            openrouter/x-ai/grok-4
  whisper-large-v3                  groq/whisper-large-v3
  sonnet                            anthropic/claude-sonnet-5-5
makers
  gemini-2.5-flash                  google/gemini-2.5-flash
  gemini-2.5-flash-latest           google/gemini-2.5-flash
  gemini-2-5-flash                  google/gemini-2.5-flash
  google/gemini-2.5-pro             google/gemini-2.5-pro
  gemini/gemini-2.5-pro             -
  gemini-embedding-001              google/gemini-embedding-001
  mistral-large-latest              mistral/mistral-large-latest
  mistral-large                     mistral/mistral-large-latest
  mistral-large-2512                mistral/mistral-large-2512
  codestral-latest                  mistral/codestral-latest
  codestral                         mistral/codestral-latest
  mistral-embed                     mistral/mistral-embed
  mistral-ocr-latest                mistral/mistral-ocr-latest
  magistral-medium-2509             mistral/magistral-medium-2509
  deepseek-chat                     deepseek/deepseek-chat
  deepseek/deepseek-reasoner        deepseek/deepseek-reasoner
  grok-4                            xai/grok-4
  grok-4-latest                     xai/grok-4
  grok-4-1-fast-reasoning           xai/grok-4-1-fast-reasoning
  grok-4.1-fast-reasoning           xai/grok-4-1-fast-reasoning
  x-ai/grok-4                       -
  qwen-max                          alibaba/qwen-max
  qwen-plus-latest                  alibaba/qwen-plus-latest
  command-r-plus-08-2024            cohere/command-r-plus-08-2024
  rerank-v3.5                       cohere/rerank-v3.5
  rerank-v3-5                       cohere/rerank-v3.5
  embed-english-v3.0                cohere/embed-english-v3.0
resellers
  llama-3.1-8b-instant              groq/llama-3.1-8b-instant
  Llama-3.3-70B-Instruct-Turbo      together/meta-llama/Llama-3.3-70B-Instruct-Turbo
  llama-3.3-70b-instruct-turbo      together/meta-llama/Llama-3.3-70B-Instruct-Turbo
  meta-llama/Llama-3.3-70B-Instruct-Turbo  together/meta-llama/Llama-3.3-70B-Instruct-Turbo
  kimi-k2p5                         fireworks/kimi-k2p5
  accounts/fireworks/models/kimi-k2p5  fireworks/accounts/fireworks/models/kimi-k2p5
  llama-3.3-70b                     cerebras/llama-3.3-70b
  cerebras/gpt-oss-120b             cerebras/gpt-oss-120b
  openai/gpt-oss-120b               +
  gpt-oss-120b                      +
  openai/gpt-oss-20b                +
  gpt-oss-20b                       fireworks/gpt-oss-20b
  DeepSeek-V3.1                     together/deepseek-ai/DeepSeek-V3.1
  deepseek-v3-1                     together/deepseek-ai/DeepSeek-V3.1
`

let keys: keyof typeof CATALOGS = 'none'
const ROWS = TABLE.trim()
  .split('\n')
  .flatMap((line) => {
    const [name = '', id] = line.trim().split(/ {2,}/)
    if (id !== undefined) return [[keys, name, id] as const]
    keys = name as keyof typeof CATALOGS
    return []
  })

it('the table has two hundred names', () => expect(ROWS.length).toBeGreaterThanOrEqual(200))

it.each(ROWS)('with the keys of %s, %s means %s', (set, name, expected) => {
  const catalog = CATALOGS[set]
  const id = catalog.find(name)?.id ?? (catalog.candidates(name).length > 1 ? '+' : '-')
  expect(id).toBe(expected)
})

describe('did you mean', () => {
  it.each([
    ['openai', 'gpt-6-terra', 'Did you mean "openai/gpt-6.1-terra"?'],
    ['openai', 'gpt-4o-mni', 'Did you mean "openai/gpt-4o-mini"?'],
    ['openai', 'azure/gpt-4o', 'Did you mean "openai/gpt-4o"?'],
    ['openai', 'openai/openai/gpt-4o', 'Did you mean "openai/gpt-4o"?'],
    ['openai', 'text-embeding-3-small', 'Did you mean "openai/text-embedding-3-small"?'],
    ['openai', 'gpt-4o:free', '"gpt-4o" is charged: ask for it by that name.'],
    ['openai', 'zzz', 'GET /v1/models lists them.'],
    ['none', 'openai/gpt-4o', 'GET /v1/models lists them.'],
    ['anthropic', 'claude-sonet-5', 'Did you mean "anthropic/claude-sonnet-5"?'],
    ['anthropic', 'claude-opus-9', /Did you mean "anthropic\/claude-opus-[\d-]+"\?/],
    [
      'resellers',
      'gpt-oss-120b',
      /^Several models are called "gpt-oss-120b"\. Ask for one of [^ ]+, /,
    ],
  ] as const)('with the keys of %s, %s is answered with %s', (set, name, message) => {
    expect(unknownModel(CATALOGS[set], name).message).toMatch(message)
  })
})

describe('any name', () => {
  const ids = CATALOGS.both.all().map(({ id }) => id)
  const suffixes = fc.array(
    fc.constantFrom(':free', ':nitro', ':latest', ':thinking', ':x', '-20260101'),
  )
  const name = fc
    .tuple(fc.constantFrom(...ids), suffixes, fc.constantFrom(0, 1, 2), fc.boolean())
    .map(([id, ends, cut, upper]) => {
      const bare = id.split('/').slice(cut).join('/') + ends.join('')
      return upper ? bare.toUpperCase() : bare
    })

  it('means at most one model; an id means itself; `:free` never one that is charged', () => {
    for (const id of ids) expect(CATALOGS.both.find(id)!.id).toBe(id)
    fc.assert(
      fc.property(fc.oneof(name, fc.string()), (asked) => {
        const model = CATALOGS.both.find(asked)
        if (model && /:free(:|$)/.test(asked)) {
          expect(Object.values(model.pricing).filter((price) => price !== '0')).toEqual([])
        }
        if (!model) expect(unknownModel(CATALOGS.both, asked).message).toMatch(/\.$|\?$/)
      }),
      { numRuns: runs(700) },
    )
  })

  it('that means nothing is refused within 5 ms of processor time, of 5,000 models', () => {
    const deployments = [{ provider: 'p', model: 'm' }]
    const entries = Array.from({ length: 5000 }, (_, i) => [
      `vendor${i % 40}/family-${i % 7}/model-${i}-${['turbo', 'mini', 'pro'][i % 3]}`,
      {
        pricing: { prompt: '0.000001' },
        deployments,
        aliases: [],
        enabled: true,
        free_tier: false,
        created: 0,
      },
    ])
    const catalog = buildCatalog(Object.fromEntries(entries) as never)
    unknownModel(catalog, 'warm-up/model')
    const began = process.threadCpuUsage()
    for (let i = 0; i < 50; i++) unknownModel(catalog, `vendor${i}/family-3/mdel-${i * 90}-trbo`)
    const { user, system } = process.threadCpuUsage(began)
    expect((user + system) / 50 / 1000).toBeLessThan(5)
  })
})
