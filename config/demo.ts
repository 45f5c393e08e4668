/** The configuration of `--demo`: models of an invented vendor, which the mock answers, each at two places. */
import type { UserConfig } from '../src/index.ts'

type Models = Exclude<NonNullable<UserConfig['models']>, string>

const CHAT = ['STREAMING', 'TOOLS', 'STRUCTURED_OUTPUTS', 'CHOICES'] as const

/** A model at both places. */
function model(id: string, entry: Partial<Models[string]>): Models {
  const deployments = ['demo-east', 'demo-west'].map((provider) => ({ provider, model: id }))
  return { [`demo/${id}`]: { deployments, ...entry } }
}

export default {
  server: { host: '127.0.0.1', port: 8787 },
  state: { driver: 'file', path: 'replaced-by-a-temporary-folder' },
  // Thirty days until now begin on one day more.
  log: { keep: 31 },
  providers: { 'demo-east': { use: 'mock' }, 'demo-west': { use: 'mock' } },
  models: {
    ...model('atlas-large', {
      name: 'Atlas Large',
      description: 'For long documents and difficult questions.',
      context_length: 400_000,
      pricing: { prompt: '0.0000025', completion: '0.000012', input_cache_read: '0.00000025' },
      capabilities: [...CHAT, 'VISION', 'FILE_INPUT'],
    }),
    ...model('atlas-small', {
      name: 'Atlas Small',
      description: 'Fast answers at a low price.',
      context_length: 128_000,
      pricing: { prompt: '0.0000002', completion: '0.0000008', input_cache_read: '0.00000002' },
      capabilities: [...CHAT],
    }),
    ...model('meridian', {
      name: 'Meridian',
      description: 'Writes and reviews code.',
      context_length: 200_000,
      pricing: { prompt: '0.0000015', completion: '0.000006', input_cache_read: '0.00000015' },
      capabilities: [...CHAT],
    }),
    ...model('polaris', {
      name: 'Polaris',
      description: 'Reasons before it answers.',
      context_length: 256_000,
      pricing: { prompt: '0.000003', completion: '0.000015', input_cache_read: '0.0000003' },
      capabilities: [...CHAT, 'REASONING'],
    }),
    ...model('sextant-free', {
      name: 'Sextant',
      description: 'Open to the free tier.',
      context_length: 32_000,
      free_tier: true,
      pricing: { prompt: '0', completion: '0' },
      capabilities: [...CHAT],
    }),
    ...model('compass', {
      name: 'Compass',
      description: 'Embeddings of texts.',
      modality: 'embedding',
      pricing: { prompt: '0.00000002' },
    }),
    ...model('easel', {
      name: 'Easel',
      description: 'Paints pictures.',
      pricing: { image: '0.04' },
      capabilities: ['STREAMING'],
    }),
    ...model('echo-voice', {
      name: 'Echo Voice',
      description: 'Reads texts aloud.',
      pricing: { character: '0.000015' },
    }),
    ...model('folio', {
      name: 'Folio',
      description: 'Reads documents.',
      pricing: { page: '0.001' },
    }),
    ...model('logbook', {
      name: 'Logbook',
      description: 'Writes down what is said.',
      pricing: { second: '0.0001' },
      capabilities: ['STREAMING', 'TIMESTAMPS'],
    }),
  },
} satisfies UserConfig
