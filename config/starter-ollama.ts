/** Whether an Ollama answers on this machine, or at the address that the environment names. */
import type { ConfigContext } from '../src/index.ts'
import { addressOf, VENDORS } from '../providers/vendors.ts'

/** Time-out for a configured Ollama, in ms. */
const CONFIGURED_MS = 2000
/** Time-out for the search for a local Ollama, in ms; short, because it delays the start. */
const DISCOVERY_MS = 300

/** The servers that have answered: one that is away for a while keeps its models. */
const answered = new Set<string>()

/** @throws Error for an address that is none */
export async function hasOllama(env: ConfigContext['env']): Promise<boolean> {
  const vendor = VENDORS.find(({ name }) => name === 'ollama')!
  const configured = addressOf(vendor, env)
  const { origin } = new URL(configured ?? vendor.baseURL!)
  const signal = AbortSignal.timeout(configured ? CONFIGURED_MS : DISCOVERY_MS)
  try {
    const response = await fetch(`${origin}/api/tags`, { signal })
    const { models } = (await response.json()) as { readonly models?: unknown }
    if (Array.isArray(models)) answered.add(origin)
  } catch {
    // No Ollama, or one that is busy.
  }
  return answered.has(origin)
}
