/** Conversations that no table has: turns of all roles, calls and results in any order, with blanks anywhere. */
import * as fc from 'fast-check'
import * as v from 'valibot'
import { expect, it } from 'vitest'
import type { ProviderPlugin } from '../../src/plugin.ts'
import { lostIn } from '../../src/testing/checks/conversations.ts'
import { startUpstream } from '../upstream.ts'
import { setUp } from './_chat.ts'
import { runs } from '../_runs.ts'

/** Texts are blank, or words that can be found again. */
const words = fc.oneof(
  { weight: 1, arbitrary: fc.constantFrom('', ' ', '\n') },
  { weight: 3, arbitrary: fc.nat(1e6).map((n) => `w${n}w`) },
  { weight: 1, arbitrary: fc.nat(1e6).map((n) => `w${n}w `) },
)
const marked = fc.option(
  fc.constantFrom({ type: 'ephemeral' }, { type: 'ephemeral', ttl: '1h' }).map((cache_control) => ({
    cache_control,
  })),
  { nil: {} },
)
const part = fc.tuple(words, marked).map(([text, mark]) => ({ type: 'text', text, ...mark }))
const content = fc.oneof(words, fc.array(part, { minLength: 1, maxLength: 3 }))

const spoken = fc
  .tuple(fc.constantFrom('system', 'developer', 'user', 'user', 'assistant'), content, marked)
  .map(([role, said, mark]) => [{ role, content: said, ...mark }])

/** Calls of one answer and their results, some of them late or missing, and what is said in between. */
const round = fc
  .tuple(
    fc.uniqueArray(fc.constantFrom('x', 'x.', 'y:1', `z${'0'.repeat(90)}`), { minLength: 1 }),
    content,
    fc.array(fc.oneof(fc.nat(3), content), { maxLength: 5 }),
  )
  .map(([ids, said, rest]) => {
    const open = new Set(ids)
    const following = rest.flatMap((one): object[] => {
      if (typeof one !== 'number') return [{ role: 'user', content: one }]
      const id = ids[one]
      if (id === undefined || !open.delete(id)) return []
      return [{ role: 'tool', tool_call_id: id, content: said }]
    })
    const tool_calls = ids.map((id) => ({
      id,
      type: 'function',
      function: { name: 'f', arguments: '{"a":1}' },
    }))
    return [{ role: 'assistant', content: said, tool_calls }, ...following]
  })

/** Any conversation. */
const anyConversation: fc.Arbitrary<object[]> = fc
  .array(fc.oneof(spoken, round), { minLength: 1, maxLength: 8 })
  .map((rounds) => rounds.flat())

/** A provider and model to send conversations to. */
interface AnyConversationOptions {
  /** Who takes it; by default the model. */
  readonly title?: string
  readonly plugin: ProviderPlugin
  readonly options: (url: string) => object
  readonly model: string
  /** The vendor's published form of a request. */
  readonly schema: v.GenericSchema
}

/** Tests that any conversation becomes a body of the vendor's form, in which every word of it arrives. */
export function testAnyConversation(given: AnyConversationOptions): void {
  const { plugin, options, model, schema, title = model } = given
  it(`any conversation becomes one that ${title} takes, with every word of it`, async () => {
    await using upstream = await startUpstream()
    await using setup = await setUp(plugin, options(upstream.url))
    const property = fc.asyncProperty(anyConversation, async (messages) => {
      const before = upstream.requests.length
      // The vendor answers with an error: only the request counts.
      const input = { messages: messages as never, tools: TOOLS }
      const error = await setup.ask(input, { model }).then(
        () => undefined,
        (thrown: unknown) => thrown,
      )
      const sent = upstream.requests[before]
      if (!sent) throw error
      const { issues = [] } = v.safeParse(schema, sent.json)
      expect(issues.map(({ message }) => message)).toEqual([])
      expect(
        lostIn({ messages, tools: TOOLS }, { json: sent.json, text: String(sent.body) }),
      ).toEqual([])
    })
    await fc.assert(property, { numRuns: runs(25) })
  })
}

const TOOLS = [{ type: 'function', function: { name: 'f' } }]
