/** Bodies with an object where a text belongs, or without a member: each gets an answer, or an error of the client's own. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../../../_setup.ts'

/** `String` of it throws. */
const ODD = { toString: 1, valueOf: 1 }

const NAMESPACE = { type: 'namespace', name: 'n', tools: [{ type: 'function', name: 'f' }] }

let gateway: TestGateway
let key: string
beforeAll(async () => {
  gateway = await createTestGateway({ ...MOCK_CONFIG, defaults: { limits: { rpm: 100_000 } } })
  const policy = { version: 1 as const, bannedPatterns: ['swordfish'] }
  key = (await gateway.newKey({ policy })).secret
})
afterAll(() => gateway.close())

const clients = join(import.meta.dirname, '../../../wire/clients')
const bodyOf = (file: string) =>
  JSON.parse(readFileSync(join(clients, file), 'utf8')).requests.findLast(
    ({ method }: any) => method === 'POST',
  ).body

describe.each<[path: string, body: object]>([
  ['/v1/messages', { ...bodyOf('claude-code.json'), tool_choice: { type: 'tool', name: 'Bash' } }],
  [
    '/v1/responses',
    {
      ...bodyOf('codex.json'),
      tool_choice: {
        type: 'allowed_tools',
        mode: 'auto',
        tools: [{ type: 'function', name: 'f' }],
      },
    },
  ],
  [
    '/v1/responses',
    {
      input: [
        { type: 'additional_tools', tools: [{ type: 'mcp', name: 'x' }, NAMESPACE] },
        { role: 'user', content: [{ type: 'input_text', text: 'Hi' }] },
      ],
      tools: [NAMESPACE, { type: 'web_search', search_context_size: 'low' }],
      tool_choice: { type: 'web_search' },
    },
  ],
  ['/v1/chat/completions', { ...bodyOf('opencode.json'), reasoning_effort: 'low' }],
])('%s', (path, body) => {
  it('answers bodies with an object in the place of any text, and without any member', async () => {
    const asked = { ...body, model: 'mock/echo', stream: false }
    const seen = new Set<number>()
    for (const { value, place } of odd(asked)) {
      const { status, text } = await gateway.ask('POST', path, { key, body: value as object })
      expect(status, `${place}: ${text}`).toBeLessThan(500)
      seen.add(status)
    }
    expect(seen).toContain(400)
    expect(gateway.logged.filter((line) => line.includes('internal error'))).toEqual([])
  })
})

/** The same value once for each text in it, with an odd object there, and once for each member, without it. */
function* odd(value: unknown): Generator<{ value: unknown; place: string }> {
  if (typeof value === 'string') {
    yield { value: ODD, place: '' }
  } else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      for (const one of odd(item)) {
        yield { value: value.with(index, one.value), place: `[${index}]${one.place}` }
      }
    }
  } else if (typeof value === 'object' && value !== null) {
    for (const [name, item] of Object.entries(value)) {
      const { [name]: _left, ...others } = value as Record<string, unknown>
      yield { value: others, place: `-${name}` }
      for (const one of odd(item)) {
        yield { value: { ...value, [name]: one.value }, place: `.${name}${one.place}` }
      }
    }
  }
}
