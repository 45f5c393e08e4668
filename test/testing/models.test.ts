/** The kit's checks of providers that ask their vendor for its models. */
import * as v from 'valibot'
import { expect, it } from 'vitest'
import { defineProvider, type Host, type Provider } from '../../src/plugin.ts'
import { testProvider, type Transcript } from '../../src/testing.ts'

type Models = NonNullable<Provider['models']>

/** @param make the method, from the address and a way to ask it */
function plugin(make: (url: string, host: Host) => Models) {
  return defineProvider({
    name: 'listing',
    options: v.strictObject({ baseURL: v.string() }),
    setup: ({ baseURL }, host) => ({
      ocr: async () => ({ pages: [] }),
      models: make(`${baseURL}/models`, host),
    }),
  })
}

const asked = async (url: string, host: Host, signal: AbortSignal) => {
  const response = await host.request({ url, method: 'GET', signal })
  const { data } = (await host.readJson(response)) as { data?: { id: string }[] }
  if (!Array.isArray(data)) throw host.fail('upstream_error', 'no list')
  return data.map(({ id }) => ({ id }))
}

/** @param timeoutMs the time limit of one operation, which is short for one that never ends */
async function failuresOf(
  provider: ReturnType<typeof plugin>,
  transcripts?: Transcript[],
  timeoutMs = 60_000,
) {
  const { checks } = await testProvider({
    provider,
    directory: import.meta.dirname,
    timeoutMs,
    ...(transcripts && { transcripts }),
  })
  return checks
    .filter(({ name, on, result }) => result === 'failed' && (name === 'models' || on === '401'))
    .map(({ name, on, notes }) => `${name}, ${on}: ${notes.join(' ')}`)
}

it('pass a provider that reads the list and fails where there is none', async () => {
  expect(await failuresOf(plugin((url, host) => (signal) => asked(url, host, signal)))).toEqual([])
})

it.each<[string, (url: string, host: Host) => Models, RegExp]>([
  [
    'names a model twice',
    (url, host) => async (signal) => (await asked(url, host, signal)).flatMap((one) => [one, one]),
    /^models, sample-models: model 1: test-large is named twice/,
  ],
  [
    'gives what is no count',
    (url, host) => async (signal) =>
      (await asked(url, host, signal)).map((one) => ({ ...one, contextLength: -1 })),
    /"contextLength" of test-large to be a positive integer/,
  ],
  [
    'gives no list',
    (url, host) => async (signal) => ({ data: await asked(url, host, signal) }) as never,
    /it gave no list of models/,
  ],
  [
    'loses one',
    (url, host) => async (signal) => (await asked(url, host, signal)).slice(1),
    /the models are test\/small, expected test-large, test\/small/,
  ],
  [
    'is content with half a list',
    (url, host) => async (signal) => {
      const response = await host.request({ url, method: 'GET', signal })
      const text = await response.text()
      const ids = text.startsWith('{"object') ? [...text.matchAll(/"id":"([^"]+)"/g)] : []
      if (response.status !== 200) throw host.fail('upstream_auth', 'refused')
      return ids.map(([, id]) => ({ id: id! }))
    },
    /the first half of the list passes for the whole of it/,
  ],
  [
    'does not end with its signal',
    (url, host) => () => asked(url, host, new AbortController().signal),
    /^models, cancel: /m,
  ],
  [
    'takes a refusal for an empty list',
    (url, host) => (signal) => asked(url, host, signal).catch(() => []),
    /^errors, 401: .*upstream_auth/m,
  ],
])('find one that %s', async (flaw, make, problem) => {
  const timeoutMs = flaw.includes('signal') ? 1000 : undefined
  expect((await failuresOf(plugin(make), undefined, timeoutMs)).join('\n')).toMatch(problem)
})

it('take a list of the vendor for one whose form is its own', async () => {
  const own = plugin((url, host) => async (signal) => {
    const response = await host.request({ url, method: 'GET', signal })
    const { names } = (await host.readJson(response)) as { names?: string[] }
    if (!names) throw host.fail('upstream_error', 'no list')
    return names.map((id) => ({ id }))
  })
  expect((await failuresOf(own)).join('\n')).toMatch(/write a case with "expect"/)
  const body = Buffer.from(JSON.stringify({ names: ['one', 'two'] }))
  const answer = { status: 200, headers: { 'content-type': 'application/json' }, body }
  const list = { name: 'list', request: {}, answer, expect: { models: ['one', 'two'] } }
  expect(await failuresOf(own, [list])).toEqual([])
})
