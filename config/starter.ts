/**
 * What needs no configuration: the mock, local text recognition and speech, every vendor and search engine whose API key is in
 * the environment, and an Ollama that answers on this machine. `extends: starter` adds it to a configuration.
 */
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { ConfigContext, UserConfig } from '../src/index.ts'
import { hasOcr, INSTALL_OCR } from '../providers/tesseract.ts'
import { hasOllama } from './starter-ollama.ts'
import { starterSearch } from './starter-search.ts'
import { addressOf, keyVariableOf, VENDORS, type Vendor } from '../providers/vendors.ts'

type Offer = Required<Pick<UserConfig, 'providers'>> & {
  models: Exclude<UserConfig['models'], string | undefined>
}

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

/** Variables of vendors that a start may name, the first that are not set. */
const WELL_KNOWN = [
  'OPENAI_API_KEY',
  'ANTHROPIC_API_KEY',
  'GEMINI_API_KEY',
  'OPENROUTER_API_KEY',
  'MISTRAL_API_KEY',
  'GROQ_API_KEY',
]

/** What would bring further models in this environment, in words. */
export function starterHints(env: ConfigContext['env']): string[] {
  const missing = WELL_KNOWN.filter((name) => !env[name]).slice(0, 2)
  return [
    `${missing.join(' or ')} in .env brings more:\nsluicegate docs tasks/first-vendor`,
    ...(hasOcr() ? [] : [`for local/ocr: ${INSTALL_OCR}`]),
  ]
}

/** Text that changes when a server of the operator's own is found. */
export async function localState(env: ConfigContext['env']): Promise<string> {
  return String(await hasOllama(env))
}

/** What `extends: starter` adds with this environment. */
export default async function starter({ env }: ConfigContext): Promise<UserConfig> {
  const vendors = VENDORS.filter((vendor) => keyVariableOf(vendor, env)).map(offerOf)
  const local = [
    ...(hasOcr() ? [OCR] : []),
    ...(isInstalled('espeak-ng', env.PATH) ? [SPEECH] : []),
  ]
  const servers = VENDORS.filter(({ name, local: own }) => own && name !== 'ollama')
    .filter((vendor) => addressOf(vendor, env) !== undefined)
    .map(serverOf)
  const offers = [MOCK, ...local, ...vendors, ...servers, await ollama(env)]
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

/** A server of the operator's own, whose address is in the environment: all that it has loaded. */
function serverOf({ name }: Vendor): Offer {
  return { providers: { [name]: { use: name } }, models: { [`${name}/*`]: { discover: true } } }
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

/** An Ollama that answers: all that it has pulled. */
async function ollama(env: ConfigContext['env']): Promise<Offer> {
  if (!(await hasOllama(env))) return { providers: {}, models: {} }
  // Ollama may need minutes to load a model.
  const providers = { ollama: { use: 'ollama', firstPartTimeout: 300 } }
  return { providers, models: { 'ollama/*': { discover: true } } }
}
