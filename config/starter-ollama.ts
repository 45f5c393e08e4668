/** The models of an Ollama: those that it has pulled, with what it says they can do. They cost nothing, so they are on the free tier. */
import type { ConfigContext, UserConfig } from '../src/index.ts'
import { addressOf, VENDORS } from '../providers/vendors.ts'

type Models = Exclude<UserConfig['models'], string | undefined>
type Entry = Models[string]

/** A model in `GET /api/tags`. */
interface Tag {
  readonly name: string
  readonly digest?: string
  readonly details?: { readonly family?: string }
}

/** What `POST /api/show` says of a model; older servers say nothing of this. */
interface Shown {
  readonly capabilities?: readonly string[]
  readonly model_info?: Readonly<Record<string, unknown>>
}

/** The capabilities of a model, by Ollama's words for them. */
const CAPABILITIES = { tools: 'TOOLS', vision: 'VISION', thinking: 'REASONING' } as const

/** Time-out for a configured Ollama, in ms. */
const CONFIGURED_MS = 2000
/** Time-out for the search for a local Ollama, in ms; short, because it delays the start. */
const DISCOVERY_MS = 300
/** Time-out for the questions about single models, in ms. */
const SHOW_MS = 2000
/** Questions at once. */
const AT_ONCE = 8
/** Models whose details are remembered. */
const MAX_SHOWN = 1000

/** Details by address and digest: a digest stands for one content. */
const known = new Map<string, Shown>()
/** The last answer of each server: it counts while the server does not answer. */
const last = new Map<string, readonly Tag[]>()

/** The models by id; none where no server has ever answered. */
export async function ollamaModels(env: ConfigContext['env']): Promise<Models> {
  const { origin, limitMs } = serverOf(env)
  const tags = await tagsOf(origin, limitMs)
  const models: Models = {}
  for (let at = 0; at < tags.length; at += AT_ONCE) {
    const some = tags.slice(at, at + AT_ONCE)
    const entries = await Promise.all(
      some.map(async (tag) => entryOf(tag, await shownBy(origin, tag))),
    )
    for (const [i, { name }] of some.entries()) {
      models[`ollama/${name.replace(/:latest$/, '')}`] = entries[i]!
    }
  }
  return models
}

/** Text that changes when the server has other models. */
export async function ollamaState(env: ConfigContext['env']): Promise<string> {
  const { origin, limitMs } = serverOf(env)
  const tags = await tagsOf(origin, limitMs)
  return tags
    .map(({ name, digest = '' }) => `${name} ${digest}`)
    .toSorted()
    .join('\n')
}

function serverOf(env: ConfigContext['env']): { origin: string; limitMs: number } {
  const vendor = VENDORS.find(({ name }) => name === 'ollama')!
  const configured = addressOf(vendor, env)
  const { origin } = new URL(configured ?? vendor.baseURL!)
  return { origin, limitMs: configured ? CONFIGURED_MS : DISCOVERY_MS }
}

async function tagsOf(origin: string, limitMs: number): Promise<readonly Tag[]> {
  try {
    const response = await fetch(`${origin}/api/tags`, { signal: AbortSignal.timeout(limitMs) })
    const { models } = (await response.json()) as { models: Tag[] }
    const tags = models.filter(({ name }) => typeof name === 'string' && /^\S+$/.test(name))
    last.set(origin, tags)
    return tags
  } catch {
    return last.get(origin) ?? []
  }
}

async function shownBy(origin: string, { name, digest }: Tag): Promise<Shown> {
  const key = digest && `${origin} ${digest}`
  const before = key && known.get(key)
  if (before) return before
  try {
    const response = await fetch(`${origin}/api/show`, {
      method: 'POST',
      body: JSON.stringify({ model: name }),
      signal: AbortSignal.timeout(SHOW_MS),
    })
    const shown = (await response.json()) as Shown
    if (known.size >= MAX_SHOWN) known.clear()
    if (key && response.ok) known.set(key, shown)
    return response.ok ? shown : {}
  } catch {
    return {}
  }
}

function entryOf({ name, details }: Tag, { capabilities: words, model_info = {} }: Shown): Entry {
  const [, context] =
    Object.entries(model_info).find(([one]) => one.endsWith('.context_length')) ?? []
  const isEmbedding = words
    ? words.includes('embedding') && !words.includes('completion')
    : /embed/.test(name) || /bert/.test(details?.family ?? '')
  const shared = {
    name,
    free_tier: true,
    deployments: [{ provider: 'ollama', model: name }],
    ...(Number.isSafeInteger(context) && { context_length: context as number }),
  }
  if (isEmbedding) return { ...shared, modality: 'embedding', pricing: { prompt: '0' } }
  const pricing = { prompt: '0', completion: '0' }
  if (!words) return { ...shared, pricing }
  const able = Object.entries(CAPABILITIES).filter(([word]) => words.includes(word))
  return { ...shared, pricing, capabilities: ['STREAMING', ...able.map(([, one]) => one)] }
}
