/**
 * Providers and models that can be had without writing a configuration: the mock, what this machine can read and say by
 * itself, every vendor whose API key is in the environment, and an Ollama that answers on this machine.
 */
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { ConfigContext, UserConfig } from '../src/index.ts'
import { VENDORS, type StarterVendor } from './starter-models.ts'

type Offer = Required<Pick<UserConfig, 'providers'>> & {
  models: Exclude<UserConfig['models'], string | undefined>
}

const OLLAMA = '127.0.0.1:11434'
/** A server that was asked for may take its time; looking for one must not hold up a start. */
const ASKED_MS = 2000
const LOOKED_FOR_MS = 300

const MOCK: Offer = {
  providers: { mock: { use: 'mock' } },
  models: {
    'mock/echo': {
      name: 'Echo',
      description: 'Says what was said to it.',
      pricing: { prompt: '0.0000001', completion: '0.0000004' },
      capabilities: ['STREAMING', 'STRUCTURED_OUTPUTS', 'VISION', 'CHOICES'],
      deployments: [{ provider: 'mock', model: 'echo' }],
    },
    'mock/free': {
      name: 'Free echo',
      description: 'The same, for accounts that have not paid yet.',
      free_tier: true,
      pricing: { prompt: '0', completion: '0' },
      capabilities: ['STREAMING', 'STRUCTURED_OUTPUTS', 'VISION', 'CHOICES'],
      deployments: [{ provider: 'mock', model: 'free' }],
    },
    'mock/reasoner': {
      name: 'Reasoner',
      description: 'Thinks before it says what was said to it.',
      pricing: { prompt: '0.0000001', completion: '0.0000004' },
      capabilities: ['STREAMING', 'REASONING', 'CHOICES'],
      deployments: [
        {
          provider: 'mock',
          model: 'reasoner',
          options: { reasoning: 'Somebody said something. I will say it back.' },
        },
      ],
    },
    'mock/painter': {
      name: 'Painter',
      description: 'Paints everything in one colour.',
      pricing: { prompt: '0.0000001', image_output: '0.0000004' },
      capabilities: ['STREAMING', 'REFERENCES'],
      deployments: [{ provider: 'mock', model: 'painter' }],
    },
    'mock/voice': {
      name: 'Voice',
      description: 'Hums what it is given to read.',
      pricing: { character: '0.000001' },
      deployments: [{ provider: 'mock', model: 'voice' }],
    },
    'mock/ears': {
      name: 'Ears',
      description: 'Tells how large a sound file is.',
      pricing: { second: '0.00001' },
      capabilities: ['STREAMING', 'TIMESTAMPS', 'DIARIZATION'],
      deployments: [{ provider: 'mock', model: 'ears' }],
    },
    'mock/tools': {
      name: 'Tool user',
      description: 'Calls the tools it is offered.',
      pricing: { prompt: '0.0000001', completion: '0.0000004' },
      capabilities: ['STREAMING', 'TOOLS', 'CHOICES'],
      deployments: [{ provider: 'mock', model: 'tools' }],
    },
  },
}

/** Costs the operator some seconds of a processor for each page, and is loaded when the first document comes. */
const OCR: Offer = {
  providers: { tesseract: { use: 'tesseract' } },
  models: {
    'local/ocr': {
      name: 'Tesseract',
      description: 'Reads English documents on the machine of the gateway.',
      free_tier: true,
      pricing: { page: '0' },
      deployments: [{ provider: 'tesseract', model: 'tesseract' }],
    },
  },
}

/** Where eSpeak NG is installed. */
const SPEECH: Offer = {
  providers: { espeak: { use: 'espeak' } },
  models: {
    'local/speech': {
      name: 'eSpeak NG',
      description: 'Speaks a hundred languages, as a robot, on the machine of the gateway.',
      free_tier: true,
      pricing: { character: '0' },
      deployments: [{ provider: 'espeak', model: 'espeak-ng' }],
    },
  },
}

/** What can be served with this environment; more than one vendor never offers the same id. */
export async function starter(env: ConfigContext['env']): Promise<Offer> {
  const vendors = VENDORS.filter(({ variable }) => env[variable]).map(offerOf)
  const local = isInstalled('espeak-ng', env.PATH) ? [OCR, SPEECH] : [OCR]
  const offers = [MOCK, ...local, ...vendors, await ollama(env.OLLAMA_HOST)]
  return {
    providers: Object.assign({}, ...offers.map(({ providers }) => providers)) as Offer['providers'],
    models: Object.assign({}, ...offers.map(({ models }) => models)) as Offer['models'],
  }
}

function offerOf({ provider, variable, models, ...vendor }: StarterVendor): Offer {
  const { use = 'openai-compatible', baseURL, quirks } = vendor
  const options = {
    ...(baseURL && { baseURL }),
    ...(quirks && { quirks }),
    apiKey: `\${${variable}}`,
  }
  const entries: Offer['models'] = {}
  for (const [id, { upstream, options: model = {}, ...entry }] of Object.entries(models)) {
    entries[id] = { ...entry, deployments: [{ provider, model: upstream, options: model }] }
  }
  return {
    providers: { [provider]: { use, options } },
    models: entries,
  }
}

function isInstalled(program: string, path = ''): boolean {
  return path.split(delimiter).some((folder) => {
    try {
      if (folder !== '') accessSync(join(folder, program), constants.X_OK)
      return folder !== ''
    } catch {
      return false
    }
  })
}

/** The models of a local Ollama. They cost nothing, so they are open to the free tier. */
async function ollama(host: string | undefined): Promise<Offer> {
  const origin = originOf(host || OLLAMA)
  const names = await ollamaModels(origin, host ? ASKED_MS : LOOKED_FOR_MS)
  if (names.length === 0) return { providers: {}, models: {} }
  const models: Offer['models'] = {}
  for (const name of names) {
    models[`ollama/${name.replace(/:latest$/, '')}`] = {
      name,
      free_tier: true,
      pricing: { prompt: '0', completion: '0' },
      capabilities: ['STREAMING', 'TOOLS'],
      deployments: [{ provider: 'ollama', model: name }],
    }
  }
  const options = { baseURL: `${origin}/v1`, quirks: 'ollama' }
  return {
    // Loading a model that has not been used for a while takes minutes.
    providers: { ollama: { use: 'openai-compatible', options, firstPartTimeout: 300 } },
    models,
  }
}

/** Names of the installed models that can chat; none where nothing answers (Ollama API, `GET /api/tags`). */
async function ollamaModels(origin: string, limitMs: number): Promise<string[]> {
  try {
    const response = await fetch(`${origin}/api/tags`, { signal: AbortSignal.timeout(limitMs) })
    const { models } = (await response.json()) as {
      models: { name: string; details?: { family?: string } }[]
    }
    return models
      .filter(({ name, details }) => !/embed/.test(name) && !/bert/.test(details?.family ?? ''))
      .map(({ name }) => name)
  } catch {
    return []
  }
}

/** `OLLAMA_HOST` is an address to listen on or to call; scheme, host and port may be left out. */
function originOf(host: string): string {
  const address = host.startsWith(':') ? `127.0.0.1${host}` : host
  const text = /^https?:\/\//.test(address) ? address : `http://${address}`
  if (!URL.canParse(text)) {
    throw new Error(`expected OLLAMA_HOST to be an address such as ${OLLAMA}, found "${host}"`)
  }
  const url = new URL(text)
  if (url.hostname === '0.0.0.0') url.hostname = '127.0.0.1'
  if (url.port === '' && url.protocol === 'http:') url.port = '11434'
  return url.origin
}
