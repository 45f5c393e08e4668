import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { breachesOf, impossibleCounts, type StreamForm } from '../../src/testing.ts'

const EXAMPLES = new URL('../wire/examples/', import.meta.url)
const STREAMS = readdirSync(new URL('streams/', EXAMPLES))
  .filter((file) => /^chat-.*\.sse$/.test(file) && !file.includes('error'))
  .map((file) => [file, payloadsOf(read(`streams/${file}`))] as const)

describe('the streams of the wire contract', () => {
  it.each(STREAMS.filter(([file]) => !file.includes('BAD')))(
    '%s is as it should be',
    (_, chunks) => {
      expect(breachesOf(chunks, formOf(chunks))).toEqual([])
    },
  )

  it('interleaved calls are noticed', () => {
    const [, chunks] = STREAMS.find(([file]) => file.includes('interleaved'))!
    expect(breachesOf(chunks, formOf(chunks))).toEqual(['chunk 4: tool calls are interleaved (S6)'])
  })

  it.each(readdirSync(new URL('chat-completion-chunk/', EXAMPLES)))('chunk %s', (file) => {
    const chunk: unknown = JSON.parse(read(`chat-completion-chunk/${file}`))
    const shape = breachesOf([chunk], { usage: 'last' }).filter((found) => /expected/.test(found))
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

describe('what breaks a rule', () => {
  it.each<[rule: string, what: string, chunks: object[], form?: Partial<StreamForm>]>([
    ['S1', 'another id', [chunk(OPENS), { ...END, id: 'chatcmpl-2' }]],
    ['S2', 'no choices', [chunk(OPENS), { ...chunk({}), choices: [] }, END]],
    ['S3', 'text before the role', [chunk({ content: 'a' }), END]],
    ['S3', 'the role twice', [chunk(OPENS), chunk({ role: 'assistant', content: 'a' }), END]],
    ['S3', 'the second choice first', [chunk(OPENS, { index: 1 })]],
    ['S3', 'nothing', []],
    ['S4', 'empty text', [chunk(OPENS), chunk({ content: '' }), END]],
    ['S4', 'half a character', [chunk(OPENS), chunk({ content: '\ud83d' }), END]],
    [
      'S5',
      'a call without an id',
      [chunk(OPENS), chunk(call(0, { function: { name: 'f' } })), END],
    ],
    ['S5', 'a name twice', [chunk(OPENS), chunk(opened(0)), chunk(opened(0)), END]],
    ['S5', 'a gap', [chunk(OPENS), chunk(opened(1)), END]],
    [
      'S6',
      'two calls at once',
      [chunk(OPENS), chunk(opened(0)), chunk(opened(1)), chunk(call(0, { function: {} })), END],
    ],
    [
      'S7',
      'reasoning without details',
      [chunk(OPENS), chunk({ content: '', reasoning: 'a' }), END],
    ],
    [
      'S7',
      'a format twice',
      [chunk(OPENS), chunk(thought({ format: 'x' })), chunk(thought({ format: 'x' })), END],
    ],
    [
      'S7',
      'a signature in the middle',
      [chunk(OPENS), chunk(thought({ signature: 'x' })), chunk(thought({ text: 'a' })), END],
    ],
    ['S8', 'annotations twice', [chunk(OPENS), chunk(cited), chunk(cited), END]],
    ['S8', 'text after annotations', [chunk(OPENS), chunk(cited), chunk({ content: 'a' }), END]],
    ['S9', 'no end', [chunk(OPENS), chunk({ content: 'a' })]],
    ['S9', 'two ends', [chunk(OPENS), END, END]],
    [
      'S9',
      'an end that says something',
      [chunk(OPENS), chunk({ content: 'a' }, { finish_reason: 'stop' })],
    ],
    ['S9', 'no usage', [chunk(OPENS), END], { usage: 'last' }],
    ['S9', 'null where no usage was asked for', [{ ...chunk(OPENS), usage: null }, END]],
    ['S9', 'no null where usage was asked for', [chunk(OPENS), END], { usage: 'apart' }],
    [
      'S11',
      'log probabilities nobody wants',
      [chunk(OPENS), chunk({ content: 'a' }, { logprobs: tokens }), END],
    ],
  ])('%s: %s', (rule, _what, chunks, form) => {
    const found = breachesOf(chunks, { usage: 'none', ...form })
    expect(found.join('\n')).toContain(`(${rule})`)
  })

  it('is nothing in a plain answer', () => {
    expect(breachesOf([chunk(OPENS), chunk({ content: 'a' }), END], { usage: 'none' })).toEqual([])
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
    expect(impossibleCounts(usage).join()).toMatch(problem)
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
