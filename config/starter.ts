/**
 * What needs no configuration: the mock, local text recognition and speech, every vendor and search engine whose API key is in
 * the environment, and an Ollama that answers on this machine. `extends: starter` adds it to a configuration.
 */
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { ConfigContext, UserConfig } from '../src/index.ts'
import { hasOcr, INSTALL_OCR } from '../providers/tesseract/packages.ts'
import { starterSearch } from './starter-search.ts'
import { addressOf, keyVariableOf, VENDORS, type Vendor } from '../providers/vendors.ts'

type Offer = Required<Pick<UserConfig, 'providers'>> & {
  models: Exclude<UserConfig['models'], string | undefined>
}

/** Time-out for a configured Ollama, in ms. */
const CONFIGURED_MS = 2000
/** Time-out for the search for a local Ollama, in ms; short, because it delays the start. */
const DISCOVERY_MS = 300

const MOCK: Offer = {
  providers: { mock: { use: 'mock' } },
  models: {
    'mock/echo': {
      name: 'Echo',
      description: 'Repeats the message.',
      pricing: { prompt: '0.0000001', completion: '0.0000004' },
      capabilities: ['STREAMING', 'STRUCTURED_OUTPUTS', 'VISION', 'CHOICES'],
      deployments: [{ provider: 'mock', model: 'echo' }],
    },
    'mock/free': {
      name: 'Free echo',
      description: 'Repeats the message; on the free tier.',
      free_tier: true,
      pricing: { prompt: '0', completion: '0' },
      capabilities: ['STREAMING', 'STRUCTURED_OUTPUTS', 'VISION', 'CHOICES'],
      deployments: [{ provider: 'mock', model: 'free' }],
    },
    'mock/reasoner': {
      name: 'Reasoner',
      description: 'Reasons, then repeats the message.',
      pricing: { prompt: '0.0000001', completion: '0.0000004' },
      capabilities: ['STREAMING', 'REASONING', 'CHOICES'],
      deployments: [
        {
          provider: 'mock',
          model: 'reasoner',
          options: { reasoning: 'The user has sent a message. I will repeat it.' },
        },
      ],
    },
    'mock/agent': {
      name: 'Agent',
      description:
        'Repeats the message, and calls tools that it names, such as Read({"path":"a.txt"}).',
      pricing: { prompt: '0.0000001', completion: '0.0000004' },
      capabilities: ['STREAMING', 'TOOLS', 'REASONING', 'STRUCTURED_OUTPUTS', 'VISION', 'CHOICES'],
      deployments: [{ provider: 'mock', model: 'agent' }],
    },
    'mock/painter': {
      name: 'Painter',
      description: 'Paints everything in one colour.',
      pricing: { prompt: '0.0000001', image_token: '0.0000001', image_output: '0.0000004' },
      capabilities: ['STREAMING', 'REFERENCES'],
      deployments: [{ provider: 'mock', model: 'painter' }],
    },
    'mock/voice': {
      name: 'Voice',
      description: 'Hums a tone for the text.',
      pricing: { character: '0.000001' },
      deployments: [{ provider: 'mock', model: 'voice' }],
    },
    'mock/ears': {
      name: 'Ears',
      description: 'Reports the size of a sound file.',
      pricing: { second: '0.00001' },
      capabilities: ['STREAMING', 'TIMESTAMPS', 'DIARIZATION'],
      deployments: [{ provider: 'mock', model: 'ears' }],
    },
    'mock/tools': {
      name: 'Tool user',
      description: 'Calls the offered tools.',
      pricing: { prompt: '0.0000001', completion: '0.0000004' },
      capabilities: ['STREAMING', 'TOOLS', 'CHOICES'],
      deployments: [{ provider: 'mock', model: 'tools' }],
    },
  },
}

/** Text recognition on this machine, offered if its packages are installed: takes seconds of processor time per page; loaded with the first document. */
const OCR: Offer = {
  providers: { tesseract: { use: 'tesseract' } },
  models: {
    'local/ocr': {
      name: 'Tesseract',
      description: 'Reads English documents on the machine of the gateway.',
      free_tier: true,
      pricing: { page: '0' },
      capabilities: [],
      deployments: [{ provider: 'tesseract', model: 'tesseract' }],
    },
  },
}

/** Speech on this machine; offered if eSpeak NG is installed. */
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

/** What would bring further models in this environment, in words. */
export function starterHints(_env: ConfigContext['env']): string[] {
  return [
    'more vendors: sluicegate vendors',
    ...(hasOcr() ? [] : [`for local/ocr: ${INSTALL_OCR}`]),
  ]
}

/** What `extends: starter` adds with this environment. */
export default async function starter({ env }: ConfigContext): Promise<UserConfig> {
  const vendors = VENDORS.filter((vendor) => keyVariableOf(vendor, env)).map(offerOf)
  const local = [
    ...(hasOcr() ? [OCR] : []),
    ...(isInstalled('espeak-ng', env.PATH) ? [SPEECH] : []),
  ]
  const offers = [MOCK, ...local, ...vendors, await ollama(env)]
  return {
    providers: Object.assign({}, ...offers.map(({ providers }) => providers)) as Offer['providers'],
    models: Object.assign({}, ...offers.map(({ models }) => models)) as Offer['models'],
    ...starterSearch(env),
  }
}

/** A vendor and all of its models that a price list has. */
function offerOf({ name }: Vendor): Offer {
  return { providers: { [name]: { use: name } }, models: { [`${name}/*`]: {} } }
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
async function ollama(env: ConfigContext['env']): Promise<Offer> {
  const vendor = VENDORS.find(({ name }) => name === 'ollama')!
  const configured = addressOf(vendor, env)
  const address = configured ?? vendor.baseURL!
  const names = await ollamaModels(
    new URL(address).origin,
    configured ? CONFIGURED_MS : DISCOVERY_MS,
  )
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
  return {
    // Ollama may need minutes to load a model.
    providers: { ollama: { use: 'ollama', firstPartTimeout: 300 } },
    models,
  }
}

/** Names of the installed chat models, from `GET /api/tags` of Ollama; empty if no server answers. */
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
