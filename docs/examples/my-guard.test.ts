import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { checkGuard } from 'sluicegate/testing'
import { guarded, readStream, streamOf, wholeOf } from '../../test/guard/_setup.ts'
import myCheck from './my-check.ts'
import myGuard from './my-guard.ts'

const file = fileURLToPath(new URL('./my-guard.ts', import.meta.url))

describe('the guard of docs/plugins/guard.md', () => {
  it('is shown as it is', () => {
    const page = readFileSync(new URL('../plugins/guard.md', import.meta.url), 'utf8')
    expect(page).toContain(readFileSync(file, 'utf8').trim())
  })

  it('passes the check', async () => {
    const cases = [
      { text: 'Acme alone is fine.', expect: 'pass' },
      { text: 'Ask Acme Corp.', expect: 'x:my-guard/name', spans: [{ start: 4, end: 13 }] },
    ] as const
    const report = await checkGuard(myGuard, cases, { options: { names: ['Acme Corp'] } })
    expect(report.checks.filter(({ result }) => result === 'failed')).toEqual([])
  })

  it('may be one function', async () => {
    const cases = [
      { text: 'AB-1234567 and AB-12345 are no tickets.', expect: 'pass' },
      { text: 'See AB-123456.', expect: 'x:my-check/ticket', spans: [{ start: 4, end: 13 }] },
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
