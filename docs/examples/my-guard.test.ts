import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { checkGuard } from 'sluicegate/testing'
import { guarded, readStream, streamOf, wholeOf } from '../../test/guard/_setup.ts'
import myCheck from './guard-check/my-guard.ts'

const file = fileURLToPath(new URL('./guard-stream/my-guard.ts', import.meta.url))

describe('the guard of docs/plugins/guard.md', () => {
  it('may be one function', async () => {
    const cases = [
      { text: 'AB-1234567 and AB-12345 are no tickets.', expect: 'pass' },
      { text: 'See AB-123456.', expect: 'x:my-guard/ticket', spans: [{ start: 4, end: 13 }] },
    ] as const
    const { checks } = await checkGuard(myCheck, cases, { options: { prefix: 'AB' } })
    expect(checks.filter(({ result }) => result !== 'ok')).toEqual([])
  })

  it('checks every call, of keys without rules too', async () => {
    const options = { names: ['Acme Corp'] }
    await using g = await guarded([{ use: file, options, applies: 'always' }])
    const rules = ['x:my-guard/name']
    const messages = [{ role: 'user', content: 'What about ACME  Corp?' }]
    expect((await g.ask(undefined, { messages })).json.guard).toMatchObject({
      side: 'input',
      rules,
    })
    g.vendor.answer(streamOf({ content: 'Ask Ac' }, { content: 'me Corp.' }))
    const seen = readStream(await g.ask(undefined, { stream: true }))
    expect(seen.content).toBe("Ask \n\nI can't help with that here.")
    expect(seen.guard).toMatchObject({ side: 'output', rules })
    g.vendor.answer(wholeOf({ content: 'Acme alone is fine.' }))
    expect((await g.ask(undefined)).json.guard).toMatchObject({ outcome: 'passed', rules: [] })
  })
})
