import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { streamViolations, usageViolations, type StreamForm } from '../../src/testing.ts'

const EXAMPLES = new URL('../wire/examples/', import.meta.url)
const STREAMS = readdirSync(new URL('streams/', EXAMPLES))
  .filter((file) => /^chat-.*\.sse$/.test(file) && !file.includes('error'))
  .map((file) => [file, payloadsOf(read(`streams/${file}`))] as const)

describe('the example streams', () => {
  it.each(STREAMS.filter(([file]) => !file.includes('BAD')))('%s obeys the rules', (_, chunks) => {
    expect(streamViolations(chunks, formOf(chunks))).toEqual([])
  })

  it('interleaved calls are found', () => {
    const [, chunks] = STREAMS.find(([file]) => file.includes('interleaved'))!
    expect(streamViolations(chunks, formOf(chunks))).toEqual([
      'chunk 4: tool calls are interleaved',
    ])
  })

  it.each(readdirSync(new URL('chat-completion-chunk/', EXAMPLES)))('chunk %s', (file) => {
    const chunk: unknown = JSON.parse(read(`chat-completion-chunk/${file}`))
    const shape = streamViolations([chunk], { usage: 'last' }).filter((found) =>
      /expected/.test(found),
    )
    const emptyChoices = file.includes('empty-choices')
    expect(shape.length > 0, shape.join()).toBe(file.startsWith('bad-') && !emptyChoices)
  })
})

const OPENS = { role: 'assistant', content: '', refusal: null }
const chunk = (delta: object, more: object = {}) => ({
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'a/b',
  choices: [{ index: 0, delta, logprobs: null, finish_reason: null, ...more }],
})
const END = chunk({}, { finish_reason: 'stop' })
const call = (index: number, more: object = {}) => ({ tool_calls: [{ index, ...more }] })
const opened = (index: number) =>
  call(index, { id: `call_${index}`, type: 'function', function: { name: 'f', arguments: '' } })
const thought = (more: object, index = 0) => ({
  content: '',
  reasoning_details: [{ type: 'reasoning.text', index, ...more }],
})
const cited = { content: '', annotations: [] }
const tokens = { content: [], refusal: null }

describe('a violation', () => {
  it.each<[what: string, violation: string, chunks: object[], form?: Partial<StreamForm>]>([
    [
      'another id',
      'id differs from that of the first chunk',
      [chunk(OPENS), { ...END, id: 'chatcmpl-2' }],
    ],
    ['no choices', 'choices is empty', [chunk(OPENS), { ...chunk({}), choices: [] }, END]],
    ['text before the role', 'something other than its role', [chunk({ content: 'a' }), END]],
    [
      'the role twice',
      'the role is repeated',
      [chunk(OPENS), chunk({ role: 'assistant', content: 'a' }), END],
    ],
    ['the second choice first', 'choice 1 opens out of order', [chunk(OPENS, { index: 1 })]],
    ['nothing', 'there is no choice', []],
    ['empty text', 'a chunk has no content', [chunk(OPENS), chunk({ content: '' }), END]],
    [
      'half a character',
      'half of a surrogate pair',
      [chunk(OPENS), chunk({ content: '\ud83d' }), END],
    ],
    [
      'a call without an id',
      'the first fragment of a tool call has no id, type or name',
      [chunk(OPENS), chunk(call(0, { function: { name: 'f' } })), END],
    ],
    [
      'a name twice',
      'a tool call repeats id, type or name',
      [chunk(OPENS), chunk(opened(0)), chunk(opened(0)), END],
    ],
    ['a gap', 'the index of a tool call is skipped', [chunk(OPENS), chunk(opened(1)), END]],
    [
      'two calls at once',
      'tool calls are interleaved',
      [chunk(OPENS), chunk(opened(0)), chunk(opened(1)), chunk(call(0, { function: {} })), END],
    ],
    [
      'reasoning without details',
      'reasoning has no reasoning_details',
      [chunk(OPENS), chunk({ content: '', reasoning: 'a' }), END],
    ],
    [
      'a format twice',
      'a reasoning block repeats id or format',
      [chunk(OPENS), chunk(thought({ format: 'x' })), chunk(thought({ format: 'x' })), END],
    ],
    [
      'a signature in the middle',
      'follows the signature of its reasoning block',
      [chunk(OPENS), chunk(thought({ signature: 'x' })), chunk(thought({ text: 'a' })), END],
    ],
    [
      'annotations twice',
      'annotations are repeated',
      [chunk(OPENS), chunk(cited), chunk(cited), END],
    ],
    [
      'text after annotations',
      'content follows them',
      [chunk(OPENS), chunk(cited), chunk({ content: 'a' }), END],
    ],
    ['no end', 'choice 0 has no finish_reason', [chunk(OPENS), chunk({ content: 'a' })]],
    ['two ends', 'a chunk follows the finish_reason of choice 0', [chunk(OPENS), END, END]],
    [
      'an end with content',
      'a chunk with a finish_reason has content',
      [chunk(OPENS), chunk({ content: 'a' }, { finish_reason: 'stop' })],
    ],
    ['no usage', 'there is no usage', [chunk(OPENS), END], { usage: 'last' }],
    [
      'null without a request for usage',
      '"usage": null is present',
      [{ ...chunk(OPENS), usage: null }, END],
    ],
    [
      'no null with a request for usage',
      '"usage": null is absent',
      [chunk(OPENS), END],
      { usage: 'apart' },
    ],
    [
      'log probabilities without a request',
      'logprobs were not requested',
      [chunk(OPENS), chunk({ content: 'a' }, { logprobs: tokens }), END],
    ],
  ])('%s: %s', (_what, violation, chunks, form) => {
    const found = streamViolations(chunks, { usage: 'none', ...form })
    expect(found.join('\n')).toContain(violation)
  })

  it('is not found in a plain answer', () => {
    expect(
      streamViolations([chunk(OPENS), chunk({ content: 'a' }), END], { usage: 'none' }),
    ).toEqual([])
  })
})

describe('counts', () => {
  it.each([
    [{ prompt_tokens: 1, completion_tokens: 1 }, /^$/],
    [{ prompt_tokens: -1, completion_tokens: 1 }, /prompt is -1/],
    [{ prompt_tokens: 1.5, completion_tokens: 1 }, /prompt is 1\.5/],
    [
      { prompt_tokens: 9, prompt_tokens_details: { cached_tokens: 5, cache_write_tokens: 5 } },
      /cached_tokens \+ cache_write_tokens 10 is more than prompt_tokens 9/,
    ],
    [
      { completion_tokens: 3, completion_tokens_details: { reasoning_tokens: 4 } },
      /reasoning_tokens 4 is more than completion_tokens 3/,
    ],
  ])('%j', (usage, problem) => {
    expect(usageViolations(usage).join()).toMatch(problem)
  })
})

function formOf(chunks: readonly any[]): StreamForm {
  return { usage: chunks.some(({ choices }) => choices.length === 0) ? 'apart' : 'last' }
}

function read(path: string): string {
  return readFileSync(new URL(path, EXAMPLES), 'utf8')
}

function payloadsOf(text: string): any[] {
  return text
    .split('\n\n')
    .filter((event) => event.startsWith('data: {'))
    .map((event) => JSON.parse(event.slice(6)))
}
