/** Runs the conformance kit on every built-in provider, with the vendor's answers from `transcripts/<name>/`. */
import { readdirSync } from 'node:fs'
import { expect, it } from 'vitest'
import { PROVIDERS, providerKit } from '../conformance/built-in.ts'

it.each(PROVIDERS)('$name conforms', async (provider) => {
  const { failed, checks, seed } = await providerKit(provider)()
  expect(failed, `seed ${seed}`).toEqual([])
  const skipped = checks.filter(({ result }) => result === 'skipped')
  const names = [...new Set(skipped.map(({ name }) => name))]
  expect(names.toSorted()).toEqual((provider.unchecked ?? []).toSorted())
})

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
