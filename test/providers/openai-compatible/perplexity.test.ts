/** Perplexity's chat: three roles that take turns, and no tools. */
import * as v from 'valibot'
import { expect, it } from 'vitest'
import openaiCompatible from '../../../providers/openai-compatible.ts'
import { setUp } from '../_chat.ts'
import { describeDifficult, type ConversationName, type DifficultOptions } from '../_difficult.ts'
import { file, image, JSON_OR_SCHEMA, OLDER_LIMIT, PENALTIES, sound } from './_forms.ts'

const text = v.strictObject({ type: v.literal('text'), text: v.string() })
const parts = v.pipe(v.array(v.union([text, image, file, sound])), v.minLength(1))
const said = v.union([v.string(), v.pipe(v.array(text), v.minLength(1))])
const messages = v.pipe(
  v.array(
    v.variant('role', [
      v.strictObject({ role: v.literal('system'), content: said }),
      v.strictObject({ role: v.literal('user'), content: v.union([v.string(), parts]) }),
      v.strictObject({ role: v.literal('assistant'), content: said }),
    ]),
  ),
  v.minLength(1),
  v.check(
    (all) => all.every(({ role }, i) => role !== all[i + 1]?.role),
    'neighbours have different roles',
  ),
  v.check((all) => all.every(({ role }, i) => role !== 'system' || i === 0), 'system comes first'),
)
const body = v.strictObject({
  model: v.string(),
  messages,
  ...Object.fromEntries(
    Object.entries({
      ...OLDER_LIMIT,
      ...PENALTIES,
      temperature: v.number(),
      top_p: v.number(),
      top_k: v.number(),
      stop: v.union([v.string(), v.array(v.string())]),
      response_format: JSON_OR_SCHEMA,
      reasoning_effort: v.picklist(['minimal', 'low', 'medium', 'high']),
    }).map(([name, schema]) => [name, v.optional(schema)]),
  ),
})

const WITH_TOOLS: readonly ConversationName[] = [
  'system message after a tool result',
  'two calls at once',
  'results out of order',
  'result and a question',
  'steps of calls',
  'call without a result',
  'calls without any result',
  'call at the end',
  'result for a call that was never made',
  'second result for a call',
  'empty result',
  'blank result',
  'result of empty parts',
  'result in parts',
  'failed result',
  'result that is a JSON list',
  'text beside a call',
  'empty text beside a call',
  'call without arguments',
  'arguments that are not JSON',
  'arguments that are a list',
  'arguments with a large number',
  'ids of another vendor',
  'the same id twice',
  'calls of tools with odd names',
  'earlier functions',
  'earlier function chosen',
  'result of a function that was never called',
  'tool without a description',
  'tool with an empty description',
  'tool with a long name',
  'custom tool',
  'custom tool with a grammar',
  'custom tool with the format text',
  'call of a custom tool',
  'custom tool chosen',
  'image as the result of a call',
  'only an image as the result of a call',
  'answer under a schema, with tools',
  'answer as any JSON, with tools',
  'strict tool',
  'loose tool with a map',
  'strict tool with a map',
  'tool with references',
  'tool without parameters',
  'tool choice auto',
  'tool choice required',
  'tool chosen by name',
  'allowed tools',
  'allowed tools after calls of others',
  'allowed tools, required',
  'one call at a time',
  'tool choice required, with reasoning',
  'tool choice required, with a budget of reasoning',
  'reasoning in a step of calls whose reasoning is lost',
  'cache markers',
]

const refused: NonNullable<DifficultOptions['refused']> = {
  ...Object.fromEntries(WITH_TOOLS.map((name) => [name, ['unsupported_parameter', 'tools']])),
  'image of an assistant': ['unsupported_parameter', 'messages[1].content[1]'],
  'image in a system message': ['unsupported_parameter', 'messages[0].content[1]'],
  'PDF as the result of a call': ['unsupported_parameter', 'messages[2].content[0]'],
  'several answers': ['unsupported_parameter', 'n'],
  'log probabilities': ['unsupported_parameter', 'logprobs'],
}

describeDifficult(
  {
    title: 'difficult conversations with perplexity',
    setUp: (baseURL, download) =>
      setUp(openaiCompatible, { baseURL, quirks: 'perplexity' }, download),
    model: 'sonar',
    schema: body,
    refused,
  },
  (translate) => {
    it('has calls and results of other models in the text of their turns', async () => {
      expect(await translate('calls of tools that are no longer offered')).toMatchObject({
        body: {
          messages: [
            { role: 'user', content: 'Weather?' },
            { role: 'assistant', content: '[called weather {"city":"Oslo"}]' },
            { role: 'user', content: '[result Rain.]\n\nThanks.' },
          ],
        },
      })
      const { body } = (await translate('tool choice none after calls')) as { body: any }
      expect(body).toEqual({
        model: 'sonar',
        messages: [
          { role: 'user', content: 'Weather?' },
          { role: 'assistant', content: '[called weather {"city":"Oslo"}]' },
          { role: 'user', content: '[result Rain.]' },
        ],
      })
    })
  },
)
