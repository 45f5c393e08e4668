/** The kit's checks of providers that make vectors, rank documents or moderate, without chat. */
import * as v from 'valibot'
import { expect, it } from 'vitest'
import { defineProvider, type Host, type Provider } from '../../src/plugin.ts'
import { testProvider } from '../../src/testing.ts'

/** Asks a vendor in the common form. @param change what it makes of the answer */
function plugin(change: (answer: any) => any, tolerant = false) {
  return defineProvider({
    name: 'texts',
    options: v.strictObject({ baseURL: v.string() }),
    setup({ baseURL }, host: Host): Provider {
      const ask = async (path: string, { input, signal }: any) => {
        const headers = { 'content-type': 'application/json' }
        const body = JSON.stringify(input)
        const request = { url: `${baseURL}/${path}`, headers, body, signal }
        const response = await host.request({ ...request, method: 'POST' })
        if (tolerant && response.status >= 400) return change({ results: [], data: [] })
        return change(await host.readJson(response))
      }
      return {
        embed: (request) => ask('embeddings', request),
        rerank: (request) => ask('rerank', request),
        moderate: (request) => ask('moderations', request),
      }
    },
  })
}

const failedIn = async (provider: ReturnType<typeof plugin>) => {
  const { failed, checks } = await testProvider({
    provider,
    directory: import.meta.dirname,
    timeoutMs: 60_000,
  })
  expect(checks.filter(({ name }) => name === 'texts').map(({ on }) => on)).toEqual([
    'embed',
    'rerank',
    'moderate',
  ])
  return failed.map(({ name, on, notes }) => `${name}, ${on}: ${notes.join(' ')}`)
}

it('pass a provider that reads the common form and fails as it should', async () => {
  expect(await failedIn(plugin((answer) => answer))).toEqual([])
})

it('find failures of the vendor that are no failures of the provider, or others', async () => {
  const failed = await failedIn(plugin((answer) => answer, true))
  expect(failed.find((one) => one.startsWith('errors, 401'))).toMatch(/upstream_error/)
})

it('find what the provider throws itself', async () => {
  const failed = await failedIn(
    plugin(({ data, results }) => {
      if (results) return { results }
      throw new TypeError(`no ${data.length} vectors`)
    }),
  )
  expect(failed.find((one) => one.startsWith('texts, embed'))).toMatch(/no 2 vectors/)
})
