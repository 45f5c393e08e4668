/** Runs the conformance kit on every built-in provider, with the vendor's answers from `transcripts/<name>/`. */
import { readdirSync } from 'node:fs'
import { expect, it } from 'vitest'
import { conforms, type Conforming } from '../conformance/provider.ts'

const PROVIDERS: readonly Conforming[] = [
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

for (const provider of PROVIDERS) conforms(provider)

it('covers all providers with chat', () => {
  const files = readdirSync(new URL('../../providers/', import.meta.url))
  const plugins = files.filter((name) => name.endsWith('.ts') && name !== 'vendors.ts')
  const names = plugins.map((name) => name.slice(0, -3))
  expect(PROVIDERS.map(({ name }) => name)).toEqual(
    names.filter((name) => !WITHOUT_CHAT.has(name)).toSorted(),
  )
})

/** Providers without chat. */
const WITHOUT_CHAT: ReadonlySet<string> = new Set(['deepgram', 'elevenlabs', 'espeak', 'tesseract'])
