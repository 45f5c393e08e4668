/**
 * Answers of vendors, and the requests that lead to them: those in this repository, those made here, and recorded ones
 * where they are present.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { readTranscripts } from '../../src/testing/transcripts.ts'
import { recordingsOf } from '../fixtures.ts'
import { pngOfPixels } from '../_documents.ts'
import { mp3 } from '../endpoints/audio/_sounds.ts'

/** What a vendor is asked for. */
export type Operation =
  | 'chat'
  | 'images'
  | 'edits'
  | 'ocr'
  | 'speech'
  | 'transcription'
  | 'embedding'
  | 'rerank'
  | 'moderation'

/** One answer, and how the gateway comes to it. */
export interface VendorAnswer {
  readonly name: string
  /** A key of {@link VENDORS}. */
  readonly vendor: string
  readonly operation: Operation
  /** The vendor's name of the model. */
  readonly model: string
  /** Options of the deployment. */
  readonly options?: Readonly<Record<string, unknown>> | undefined
  readonly stream: boolean
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** Whether, untouched, it is a success. */
  readonly good: boolean
}

/** The key that stands in every request to a vendor; no client may ever see it. */
export const VENDOR_KEY = 'torture-vendor-secret-0123456789'

/** Vendors that the plugin `openai-compatible` knows by name. */
const QUIRKS = [
  'alibaba',
  'cerebras',
  'deepseek',
  'google',
  'groq',
  'llamacpp',
  'lmstudio',
  'moonshot',
  'ollama',
  'openrouter',
  'perplexity',
  'together',
  'vllm',
  'xai',
]

/** The plugin for each vendor, and its options at an address. */
export const VENDORS: Readonly<Record<string, (url: string) => { use: string; options: object }>> =
  {
    anthropic: (url) => at('anthropic', `${url}/v1`),
    azure: (url) => at('azure', url),
    bedrock: (url) => at('bedrock', url, { region: 'us-east-1' }),
    google: (url) => at('google', `${url}/v1beta`),
    'mistral-audio': (url) => at('openai-compatible', `${url}/v1`, { quirks: 'mistral' }),
    mistral: (url) => at('mistral', `${url}/v1`),
    openai: (url) => at('openai', `${url}/v1`),
    deepgram: (url) => at('deepgram', url),
    elevenlabs: (url) => at('elevenlabs', url, { voices: { anna: 'JBFqnCBsd6RMkjVDRZzb' } }),
    'openai-compatible': (url) => at('openai-compatible', `${url}/v1`),
    ...Object.fromEntries(
      QUIRKS.map((quirks) => [
        quirks === 'google' ? 'google-openai-compat' : quirks,
        (url: string) => at('openai-compatible', `${url}/v1`, { quirks }),
      ]),
    ),
  }

function at(use: string, baseURL: string, more: object = {}) {
  return { use, options: { baseURL, apiKey: VENDOR_KEY, ...more } }
}

/** Everything there is; says on the console what is missing. */
export async function vendorAnswers(): Promise<VendorAnswer[]> {
  const recorded = recordingsOf(Object.keys(VENDORS)).flatMap((one) => {
    const operation = operationOf(one.path)
    const { name, stream, status, headers, body } = one
    if (!operation) return []
    const isSound = operation === 'speech' || operation === 'transcription'
    const vendor = one.vendor === 'mistral' && isSound ? 'mistral-audio' : one.vendor
    // Downloads are switched off.
    const hasAddress = operation === 'images' && body.includes('"url"')
    const good =
      !hasAddress &&
      status === 200 &&
      !/error|cut|exception|block|filter|malformed|guardrail/.test(name)
    return [
      { name, vendor, operation, model: modelIn(one.path), stream, status, headers, body, good },
    ]
  })
  if (recorded.length === 0) {
    process.stdout.write(
      'SKIPPED: no recorded answers of vendors (FIXTURES_DIR): answers of this repository take their place\n',
    )
  }
  return [...(await transcripts()), ...MADE, ...recorded]
}

function operationOf(path: string): Operation | undefined {
  if (/-tts:/.test(path)) return undefined
  if (/image[^/]*:generateContent|:predict|\/images(\/generations)?$/.test(path)) return 'images'
  if (path.endsWith('/images/edits')) return 'edits'
  if (/chat\/completions|\/messages|\/converse|enerateContent/.test(path)) return 'chat'
  if (path.endsWith('/ocr')) return 'ocr'
  if (/\/audio\/speech|\/speak|\/text-to-speech/.test(path)) return 'speech'
  if (/transcriptions|\/stt|\/listen|\/speech-to-text/.test(path)) return 'transcription'
  return undefined
}

function modelIn(path: string): string {
  return decodeURIComponent(/\/models?\/([^/:]+(?:%3A\d+)?)[:/]/.exec(path)?.[1] ?? 'm')
}

async function transcripts(): Promise<VendorAnswer[]> {
  const folder = join(import.meta.dirname, '../providers/transcripts')
  const vendors = readdirSync(folder).filter((vendor) => vendor in VENDORS)
  const read = vendors.map(async (vendor) => {
    const all = await readTranscripts(join(folder, vendor))
    return all.flatMap(({ name, deployment, answer, expect }) => {
      // A list of models answers no call.
      if (!answer || expect.models) return []
      const { status, headers, body } = answer
      const stream = /event-?stream/.test(headers['content-type'] ?? '')
      const common = { name: `${vendor}/${name}`, vendor, operation: 'chat' as const, model: 'm' }
      const good = expect.failure === undefined
      return [
        { ...common, options: deployment, stream, status, headers, body: Buffer.from(body), good },
      ]
    })
  })
  return (await Promise.all(read)).flat()
}

const PNG = pngOfPixels({ width: 2, height: 2 }, Buffer.alloc(4)).toString('base64')

function made(vendor: string, operation: Operation, value: object | Buffer): VendorAnswer {
  const sound = Buffer.isBuffer(value)
  return {
    name: `${vendor}/${operation}`,
    vendor,
    operation,
    model: 'm',
    stream: false,
    status: 200,
    headers: { 'content-type': sound ? 'audio/mpeg' : 'application/json' },
    body: sound ? value : Buffer.from(JSON.stringify(value)),
    good: true,
  }
}

const PICTURES = {
  created: 1_790_000_000,
  data: [{ b64_json: PNG }],
  usage: { input_tokens: 12, output_tokens: 200, total_tokens: 212 },
}
const VECTORS = {
  object: 'list',
  model: 'm',
  data: [{ object: 'embedding', index: 0, embedding: [0.5, -0.25] }],
  usage: { prompt_tokens: 3, total_tokens: 3 },
}
const TRANSCRIPT = { text: 'Turn left.', usage: { type: 'duration', seconds: 3 } }

/** One of each kind that no transcript has. */
const MADE: readonly VendorAnswer[] = [
  made('openai', 'images', PICTURES),
  made('openai', 'edits', PICTURES),
  made('openai', 'speech', mp3(5)),
  made('openai', 'transcription', TRANSCRIPT),
  made('mistral', 'ocr', {
    pages: [{ index: 0, markdown: 'Page 1', images: [], dimensions: null }],
    model: 'ocr',
    usage_info: { pages_processed: 1, doc_size_bytes: 40 },
  }),
  made('mistral-audio', 'transcription', TRANSCRIPT),
  made('deepgram', 'speech', mp3(5)),
  made('deepgram', 'transcription', {
    metadata: { duration: 3.7, channels: 1 },
    results: { channels: [{ alternatives: [{ transcript: 'Turn left.', words: [] }] }] },
  }),
  made('openai', 'embedding', VECTORS),
  made('mistral', 'embedding', VECTORS),
  made('openai-compatible', 'embedding', VECTORS),
  made('openai-compatible', 'rerank', {
    results: [
      { index: 1, relevance_score: 0.9 },
      { index: 0, relevance_score: 0.1 },
    ],
    usage: { total_tokens: 9 },
  }),
  made('openai', 'moderation', {
    id: 'modr-1',
    model: 'm',
    results: [{ flagged: false, categories: { hate: false }, category_scores: { hate: 0.1 } }],
  }),
  made('elevenlabs', 'speech', mp3(5)),
  made('elevenlabs', 'transcription', { text: 'Turn left.', language_code: 'eng', words: [] }),
]
