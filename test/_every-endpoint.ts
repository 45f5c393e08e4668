/** One provider with every method, models for it, and a request for every endpoint, whole and streamed. */
import * as v from 'valibot'
import type { UserConfig } from '../src/config/config.ts'
import { defineProvider, type ProviderPlugin, type Usage } from '../src/plugin.ts'
import { dataUrl, pngOfPixels } from './_documents.ts'
import { wav } from './endpoints/audio/_sounds.ts'
import type { TestGateway } from './_setup.ts'

/** How an answer ends. `before`: it fails before the client has anything of it. `broken`: after that. */
export type Ending = 'normal' | 'before' | 'broken'

/** What the provider does; a test changes it between calls. */
export interface Script {
  ending: Ending
  /** OpenAI's usage object for chats, otherwise {@link Usage}. */
  usage: unknown
  /** Waits for it where the answer would go on. */
  gate: Promise<unknown>
}

const DEPLOYMENTS = [{ provider: 'every', model: 'm' }]

/** A model for each kind of endpoint. */
export const MODELS = {
  'acme/chat': {
    pricing: { prompt: '0.000001', completion: '0.000002' },
    capabilities: ['STREAMING', 'CHOICES'],
    deployments: DEPLOYMENTS,
  },
  'acme/text': {
    pricing: { prompt: '0.000001', completion: '0.000002' },
    capabilities: ['STREAMING', 'COMPLETIONS'],
    deployments: DEPLOYMENTS,
  },
  'acme/image': {
    modality: 'image',
    pricing: { image: '0.04', prompt: '0.000005', completion: '0.00004' },
    capabilities: ['STREAMING', 'REFERENCES'],
    deployments: DEPLOYMENTS,
  },
  'acme/ocr': { modality: 'ocr', pricing: { page: '0.001' }, deployments: DEPLOYMENTS },
  'acme/speech': {
    modality: 'speech',
    pricing: { character: '0.000015' },
    deployments: DEPLOYMENTS,
  },
  'acme/transcription': {
    modality: 'transcription',
    pricing: { second: '0.0001' },
    capabilities: ['STREAMING'],
    deployments: DEPLOYMENTS,
  },
  'acme/moderation': {
    modality: 'moderation',
    pricing: { prompt: '0.0000001' },
    deployments: DEPLOYMENTS,
  },
  'acme/rerank': {
    modality: 'rerank',
    pricing: { search_unit: '0.002' },
    deployments: DEPLOYMENTS,
  },
  'acme/embedding': {
    modality: 'embedding',
    pricing: { prompt: '0.00000002' },
    deployments: DEPLOYMENTS,
  },
} satisfies UserConfig['models']

export const PNG: Buffer = pngOfPixels({ width: 2, height: 2 }, Buffer.alloc(4))
export const SOUND: Buffer = Buffer.from('ID3\u0003 a sound that no one will hear')

export interface Asked {
  readonly name: string
  readonly stream: boolean
  readonly ask: (t: TestGateway) => ReturnType<TestGateway['ask']>
}

const posts = (name: string, path: string, body: object, stream = false): Asked => ({
  name: `${name}${stream ? ', streamed' : ''}`,
  stream,
  ask: (t) => t.ask('POST', path, { body }),
})

const chat = { model: 'acme/chat', messages: [{ role: 'user', content: 'Say hello.' }] }
const completion = { model: 'acme/text', prompt: 'Once upon a time' }
const image = { model: 'acme/image', prompt: 'A cat.' }
const edit = { ...image, images: [{ image_url: dataUrl('image/png', PNG) }] }
const speech = { model: 'acme/speech', input: 'Hello there.', voice: 'a' }
const transcription = {
  model: 'acme/transcription',
  file: dataUrl('audio/wav', wav(1)),
}

/** A request for every endpoint, whole and streamed. */
export const REQUESTS: readonly Asked[] = [
  posts('chat', '/v1/chat/completions', chat),
  posts('chat', '/v1/chat/completions', { ...chat, stream: true }, true),
  posts('completions', '/v1/completions', completion),
  posts('completions', '/v1/completions', { ...completion, stream: true }, true),
  posts('images', '/v1/images/generations', image),
  posts('images', '/v1/images/generations', { ...image, stream: true, partial_images: 1 }, true),
  posts('edits', '/v1/images/edits', edit),
  posts('edits', '/v1/images/edits', { ...edit, stream: true, partial_images: 1 }, true),
  posts('ocr', '/v1/ocr', {
    model: 'acme/ocr',
    document: { type: 'image_url', image_url: dataUrl('image/png', PNG) },
  }),
  posts('speech', '/v1/audio/speech', speech, true),
  posts('speech events', '/v1/audio/speech', { ...speech, stream_format: 'sse' }, true),
  posts('transcription', '/v1/audio/transcriptions', transcription),
  posts('transcription', '/v1/audio/transcriptions', { ...transcription, stream: true }, true),
  posts('rerank', '/v1/rerank', { model: 'acme/rerank', query: 'hello', documents: ['Hello.'] }),
  posts('moderations', '/v1/moderations', { model: 'acme/moderation', input: 'Hello there.' }),
  posts('embeddings', '/v1/embeddings', { model: 'acme/embedding', input: 'Hello there.' }),
]

const FAILURE = 'the vendor breaks off'

/** The provider. It streams where it is asked to. */
export function everyEndpoint(script: Script): ProviderPlugin {
  const breakAt = (ending: Ending) => {
    if (script.ending === ending) throw new Error(FAILURE)
  }
  const completedImage = () => ({
    data: [{ b64_json: PNG.toString('base64') }],
    ...(script.usage !== undefined && { usage: script.usage as Usage }),
  })
  const images = async ({ input }: { input: { stream?: boolean } }) => {
    breakAt('before')
    if (!input.stream) {
      breakAt('broken')
      return completedImage()
    }
    return (async function* () {
      yield { type: 'partial' as const, b64_json: PNG.toString('base64'), index: 0 }
      await script.gate
      breakAt('broken')
      yield { type: 'completed' as const, ...completedImage() }
    })()
  }
  const chat = async ({ input }: { input: { readonly stream?: boolean } }) => {
    breakAt('before')
    const usage = script.usage as any
    if (!input.stream) {
      breakAt('broken')
      const message = { role: 'assistant', content: 'Hello there, my friend.' }
      return { choices: [{ index: 0, message, finish_reason: 'stop' }], usage }
    }
    return (async function* () {
      yield { choices: [{ index: 0, delta: { content: 'Hello there, ' } }] }
      await script.gate
      yield { choices: [{ index: 0, delta: { content: 'my friend.' } }] }
      if (script.ending === 'broken') {
        if (usage) yield { choices: [], usage, usageIsPartial: true }
        throw new Error(FAILURE)
      }
      yield { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }
      yield { choices: [], usage, endOfStream: true }
    })()
  }
  return defineProvider({
    name: 'every',
    options: v.optional(v.looseObject({}), {}),
    setup: () => ({
      chat,
      complete: chat,
      generateImage: images,
      editImage: images,
      async ocr() {
        breakAt('before')
        await script.gate
        breakAt('broken')
        return {
          pages: [{ index: 0, markdown: 'Hello' }],
          ...(script.usage !== undefined && { usage: script.usage as Usage }),
        }
      },
      async speech() {
        breakAt('before')
        return {
          bytes: (async function* () {
            yield SOUND
            await script.gate
            breakAt('broken')
            yield SOUND
          })(),
          ...(script.usage !== undefined && { usage: script.usage as Usage }),
        }
      },
      async embed({ input }) {
        breakAt('before')
        await script.gate
        breakAt('broken')
        return {
          data: input.input.map(() => ({ embedding: [0.5, -0.25] })),
          ...(script.usage !== undefined && { usage: script.usage as Usage }),
        }
      },
      async moderate() {
        breakAt('before')
        await script.gate
        breakAt('broken')
        return {
          results: [{ flagged: false }],
          ...(script.usage !== undefined && { usage: script.usage as Usage }),
        }
      },
      async rerank() {
        breakAt('before')
        await script.gate
        breakAt('broken')
        return {
          results: [{ index: 0, relevance_score: 0.5 }],
          ...(script.usage !== undefined && { usage: script.usage as Usage }),
        }
      },
      async transcribe({ input }) {
        breakAt('before')
        const done = {
          text: 'Turn left.',
          ...(script.usage !== undefined && { usage: script.usage as Usage }),
        }
        if (!input.stream) {
          breakAt('broken')
          return done
        }
        return (async function* () {
          yield { type: 'delta' as const, text: 'Turn ' }
          await script.gate
          breakAt('broken')
          yield { type: 'delta' as const, text: 'left.' }
          yield { type: 'done' as const, ...done }
        })()
      },
    }),
  }) as ProviderPlugin
}

/** A configuration in which the provider serves all {@link MODELS}. */
export function everyEndpointConfig(script: Script): UserConfig {
  return {
    providers: { every: { use: everyEndpoint(script) } },
    routing: { cooldown: 0 },
    models: MODELS,
  }
}
