/** Guards and search engines that do not answer, answer late, or throw: the gateway's deadlines hold, and the log names them. */
import { setImmediate as turn } from 'node:timers/promises'
import * as v from 'valibot'
import { expect, it, onTestFinished } from 'vitest'
import {
  defineGuard,
  defineSearch,
  type Guard,
  type SearchEngine,
  type SearchResponse,
  type Verdict,
} from '../../../../src/plugin.ts'
import { json, startUpstream } from '../../../upstream.ts'
import { guarded, wholeOf, type Guarded } from '../../../guard/_setup.ts'

const DENY = { deny: ['code' as const] }
const SECRET_WORD = 'a word of the client'

async function withGuard(guard: Partial<Guard>): Promise<Guarded> {
  const plugin = defineGuard({
    name: 'strange',
    options: v.strictObject({}),
    setup: () => ({ enforces: ['deny:code'], execution: 'remote', ...guard }) as Guard,
  })
  const deadlines = { input: 0.05, output: 0.05, stall: 1 }
  const g = await guarded([{ use: plugin, name: 'mine' }], { deadlines })
  onTestFinished(() => g[Symbol.asyncDispose]())
  g.vendor.answer(wholeOf({ content: 'Fine.' }))
  return g
}

async function withEngine(search: SearchEngine['search']): Promise<Guarded> {
  const plugin = defineSearch({
    name: 'strange',
    options: v.strictObject({}),
    setup: () => ({ search }),
  })
  const engines = { mine: { use: plugin, price: '0.001', timeout: 0.05 } }
  const g = await guarded([], {}, { search: { engines, onError: 'fail' } })
  onTestFinished(() => g[Symbol.asyncDispose]())
  g.vendor.answer(wholeOf({ content: 'Fine.' }))
  return g
}

/** An answer that the test gives when nothing waits for it any more. */
function late<Answer>() {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  /** Gives it, and waits until it was counted. What comes within the turn of the abort would obey the signal. */
  const give = async (g: Guarded, how: 'resolves' | 'rejects', value: Answer) => {
    await turn()
    if (how === 'resolves') resolve(value)
    else reject(failure())
    await expect
      .poll(() => g.t.gateway.runtime.metrics.text())
      .toContain('sluicegate_plugin_late_total{plugin="mine"} 1\n')
  }
  return { promise, give }
}

const failure = () => new Error('it is over')
const PASSES: readonly Verdict[] = [{ action: 'pass' }]

it.each([
  ['checkInput', 'remote', 'resolves'],
  ['checkInput', 'remote', 'rejects'],
  ['checkInput', 'local', 'resolves'],
  ['checkInput', 'local', 'rejects'],
  ['checkOutput', 'remote', 'resolves'],
  ['checkOutput', 'remote', 'rejects'],
] as const)(
  '%s of a %s guard that ignores its signal and %s late',
  async (method, execution, how) => {
    const answer = late<any>()
    const g = await withGuard({ execution, [method]: () => answer.promise })
    const { json } = await g.ask(DENY)
    expect(json.guard).toMatchObject({ outcome: 'error', rules: ['guard_error'] })
    expect(g.t.logged.join('\n')).toContain('guard mine could not look (timeout)')
    await answer.give(g, how, PASSES)
    expect(g.t.gateway.runtime.metrics.text()).not.toContain('sluicegate_faults_total{')
  },
)

it.each(['resolves', 'rejects'] as const)(
  'a search that ignores its signal and %s late',
  async (how) => {
    const answer = late<SearchResponse>()
    const g = await withEngine(() => answer.promise)
    const { status, json } = await g.ask(undefined, { model: 'acme/swift:online' })
    expect([status, json.error.code]).toEqual([504, 'upstream_timeout'])
    await answer.give(g, how, { results: [] })
    expect(g.t.gateway.runtime.metrics.text()).not.toContain('sluicegate_faults_total{')
  },
)

/** Lines of the log that name the plugin, and what was left out of them. */
function linesOf({ t }: Guarded) {
  const lines = t.logged.filter((line) => line.startsWith('plugin='))
  expect(t.logged.join('\n')).not.toContain(SECRET_WORD)
  return lines
}

const PLACE = /^plugin=mine use=strange error=TypeError at=\S+faults\.test\.ts:\d+:\d+$/

it.each([
  ['checkInput', 'remote'],
  ['checkInput', 'local'],
  ['checkOutput', 'remote'],
  ['checkOutput', 'local'],
  ['streamOutput', 'remote'],
  ['streamOutput', 'local'],
] as const)(
  '%s of a %s guard that throws is named, not what it quotes',
  async (method, execution) => {
    const g = await withGuard({
      execution,
      [method]: () => {
        throw new TypeError(`unexpected: ${SECRET_WORD}`)
      },
    })
    for (let i = 0; i < 12; i++) expect((await g.ask(DENY)).json.guard.outcome).toBe('error')
    const lines = linesOf(g)
    expect(lines.length).toBeGreaterThan(0)
    expect(lines.length).toBeLessThanOrEqual(10)
    for (const line of lines) expect(line).toMatch(PLACE)
    const warned = g.t.logged.filter((line) => line.includes('could not look (failed)'))
    expect(warned.length).toBeLessThanOrEqual(10)
  },
)

it.each([
  ['is not there', 'http://127.0.0.1:1', 'UpstreamFailure upstream_error: Error ECONNREFUSED'],
  ['answers with 503', undefined, 'UpstreamFailure overloaded: Error 503'],
])('the log says that the service of a guard %s', async (_, address, reason) => {
  const service = await startUpstream()
  service.answer(json({ error: SECRET_WORD }, 503))
  const plugin = defineGuard({
    name: 'strange',
    options: v.strictObject({}),
    setup: (_options, host) => ({
      enforces: ['deny:code'],
      execution: 'remote',
      check: async (_text, { signal }) => {
        const body = host.json({})
        const url = address ?? service.url
        await host.readJson(await host.request({ url, headers: {}, body, signal }))
        return undefined
      },
    }),
  })
  const g = await guarded([{ use: plugin, name: 'mine' }])
  onTestFinished(async () => {
    await g[Symbol.asyncDispose]()
    await service.close()
  })
  expect((await g.ask(DENY)).json.guard.outcome).toBe('error')
  const [line] = g.t.logged.filter((one) => one.includes('could not look'))
  expect(line).toContain(`could not look (failed): the guard threw an error: ${reason}`)
  expect(g.t.logged.join('\n')).not.toContain(SECRET_WORD)
})

it('a search that throws is named, ten times a minute', async () => {
  const g = await withEngine(async () => {
    throw new TypeError(`unexpected: ${SECRET_WORD}`)
  })
  for (let i = 0; i < 12; i++) {
    const { status, json } = await g.ask(undefined, { model: 'acme/swift:online' })
    expect([status, json.error.code]).toEqual([502, 'upstream_error'])
  }
  const lines = linesOf(g)
  expect(lines).toHaveLength(10)
  for (const line of lines) expect(line).toMatch(PLACE)
})
