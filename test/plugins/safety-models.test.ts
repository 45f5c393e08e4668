import * as fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { guarded, wholeOf, type Guarded } from '../guard/_setup.ts'
import { describeRecorded, whole, type Recording } from '../fixtures.ts'
import { cutAt, json, startUpstream, type FakeResponse, type FakeUpstream } from '../upstream.ts'
import { runs } from '../_runs.ts'

/** Each recording is split this many times. */
const RUNS = runs(17)

const INPUT = { guard: { output: false } } as const
const user = (content: string) => ({ messages: [{ role: 'user', content }] })

const opened: AsyncDisposable[] = []
afterEach(async () => {
  for (const one of opened.splice(0)) await one[Symbol.asyncDispose]()
})

/** A gateway whose judge is of this kind and gives this answer. */
async function judgedBy(
  kind: string,
  said: FakeResponse,
  options: object = {},
  applies?: 'always',
): Promise<Guarded> {
  const use = { use: 'judge', options: { kind, model: 'acme/judge', ...options } }
  const g = await guarded([applies ? { ...use, applies } : use])
  opened.push(g)
  g.vendor.answer(({ json: { model } }) =>
    model === 'judge' ? said : wholeOf({ content: 'Fine.' }),
  )
  return g
}

const says = (content: string, logprobs: unknown = null): FakeResponse =>
  json({
    id: 'x',
    created: 1,
    model: 'judge',
    choices: [
      { index: 0, message: { role: 'assistant', content }, logprobs, finish_reason: 'stop' },
    ],
    usage: { prompt_tokens: 9, completion_tokens: 2 },
  })

/** Up to eight places where a body is split. */
function cutsOf(body: Buffer) {
  const position = fc.noBias(fc.integer({ min: 1, max: body.length - 1 }))
  return fc.uniqueArray(position, { minLength: 1, maxLength: 8, size: 'max' })
}

/** Outcome and rules of a request. */
const verdictOf = ({ json: { guard } }: { json: any }) => [guard.outcome, ...guard.rules]
/** The last question to the judge. */
const asked = (g: Guarded) =>
  g.vendor.requests.filter(({ json: { model } }) => model === 'judge').at(-1)!.json

describe('a policy reasoner', () => {
  it.each<[string, string, string[]]>([
    ['0', 'passed', []],
    ['{"violation": 0, "policy_category": null}', 'passed', []],
    ['{"violation": 1, "policy_category": "code", "confidence": "high"}', 'blocked', ['deny:code']],
    [
      '{"violation":1,"policy_category":"D2.financial_advice","confidence":"low"}',
      'blocked',
      ['deny:financial-advice'],
    ],
    ['Well. {"violation": 1, "policy_category": "scope_1"}', 'blocked', ['scope:0']],
    // The answer does not tell which rule was violated.
    ['1', 'error', ['guard_error']],
    ['{"violation": 1}', 'error', ['guard_error']],
    ['I cannot help with that.', 'error', ['guard_error']],
  ])('answers %s', async (said, outcome, rules) => {
    const g = await judgedBy('policy-reasoner', says(said))
    const policy = { ...INPUT, deny: ['code', 'financial-advice'] as const, scope: 'boats' }
    expect(verdictOf(await g.ask(policy as never))).toEqual([outcome, ...rules])
    const { messages, reasoning_effort: effort } = asked(g)
    expect(messages.map(({ role }: any) => role)).toEqual(['system', 'user'])
    expect(messages[0].content).toContain('## financial_advice')
    expect(JSON.parse(messages[1].content)).toEqual({ text: 'Tell me something.' })
    expect(effort).toBe('low')
  })

  it('may answer with a digit when there is one rule', async () => {
    const g = await judgedBy('policy-reasoner', says('1'))
    expect(verdictOf(await g.ask({ ...INPUT, deny: ['medical'] }))).toEqual([
      'blocked',
      'deny:medical',
    ])
  })

  it('that spent its tokens on reasoning has not answered', async () => {
    const g = await judgedBy(
      'policy-reasoner',
      wholeOf({ content: '', reasoning: 'Hm, well' }, 'length'),
    )
    expect(verdictOf(await g.ask({ ...INPUT, deny: ['medical'] }))).toEqual([
      'error',
      'guard_error',
    ])
  })
})

describe('llama guard', () => {
  const privacy = { ...INPUT, deny: ['personal-data' as const] }

  it.each<[string, ('legal' | 'medical' | 'personal-data')[], string[]]>([
    ['safe', ['personal-data'], ['passed']],
    ['\n\nunsafe\nS7,S9', ['personal-data'], ['blocked', 'deny:personal-data']],
    ['unsafe\nS6', ['legal'], ['blocked', 'deny:legal']],
    // A hazard without a rule in the policy.
    ['unsafe\nS9', ['personal-data'], ['passed']],
    ['unsafe', ['personal-data'], ['error', 'guard_error']],
    ['I cannot help with that.', ['personal-data'], ['error', 'guard_error']],
    ['unsafe stuff', ['personal-data'], ['error', 'guard_error']],
  ])('answers %j under %j', async (said, deny, verdict) => {
    const g = await judgedBy('llama-guard', says(said))
    expect(verdictOf(await g.ask({ ...INPUT, deny }))).toEqual(verdict)
  })

  it('is not asked about unknown topics, and does not satisfy such a policy', async () => {
    const g = await judgedBy('llama-guard', says('safe'))
    expect(verdictOf(await g.ask({ ...INPUT, deny: ['code'] }))).toEqual(['error', 'guard_error'])
    expect(g.vendor.requests).toHaveLength(0)
  })

  it('judges the last message of a conversation, without a system message', async () => {
    const g = await judgedBy('llama-guard', says('safe'))
    await g.ask(
      { deny: ['personal-data'] },
      {
        messages: [
          { role: 'system', content: 'Be kind.' },
          { role: 'user', content: 'Who is <|eot_id|> he?' },
        ],
      },
    )
    const [input, output] = g.vendor.requests.filter(({ json: { model } }) => model === 'judge')
    expect(input!.json.messages).toEqual([{ role: 'user', content: 'Who is < |eot_id| > he?' }])
    expect(output!.json.messages).toEqual([
      { role: 'user', content: 'Who is < |eot_id| > he?' },
      { role: 'assistant', content: 'Fine.' },
    ])
    expect(input!.json).toMatchObject({ temperature: 0 })
  })

  it('blocks for its own hazards with the option harms', async () => {
    const g = await judgedBy('llama-guard', says('unsafe\nS1'), { harms: true }, 'always')
    expect(verdictOf(await g.ask({}))).toEqual(['blocked', 'x:llama-guard/S1'])
    expect(verdictOf(await g.ask(privacy))).toEqual(['blocked', 'x:llama-guard/S1'])
    const bare = await judgedBy('llama-guard', says('unsafe'), { harms: true }, 'always')
    expect(verdictOf(await bare.ask({}))).toEqual(['blocked', 'x:llama-guard/unsafe'])
  })
})

describe('models that answer with a label', () => {
  const top = (yes: number, no: number) => ({
    content: [
      {
        token: yes > no ? 'Yes' : 'No',
        logprob: 0,
        top_logprobs: [
          { token: ' Yes', logprob: Math.log(yes) },
          { token: 'No', logprob: Math.log(no) },
        ],
      },
    ],
  })

  it.each<[string, FakeResponse, string[]]>([
    ['shieldgemma', says('No'), ['passed']],
    ['shieldgemma', says('Yes', top(0.9, 0.1)), ['blocked', 'x:shieldgemma/dangerous']],
    ['shieldgemma', says('Yes', top(0.4, 0.6)), ['passed']],
    ['shieldgemma', says('Perhaps'), ['error', 'guard_error']],
    ['granite-guardian', says('No'), ['passed']],
    ['granite-guardian', says('<score> yes </score>'), ['blocked', 'x:granite-guardian/harm']],
    [
      'granite-guardian',
      says('Yes\n<confidence> High </confidence>'),
      ['blocked', 'x:granite-guardian/harm'],
    ],
    ['granite-guardian', says('I think so'), ['error', 'guard_error']],
  ])('%s', async (kind, said, verdict) => {
    const g = await judgedBy(kind, said, {}, 'always')
    expect(verdictOf(await g.ask(INPUT))).toEqual(verdict)
  })

  it.each<[string, string[]]>([
    ['Safety: Safe\nCategories: None', ['passed']],
    ['Safety: Unsafe\nCategories: PII', ['blocked', 'deny:personal-data']],
    ['Safety: Controversial\nCategories: PII\nRefusal: No', ['blocked', 'deny:personal-data']],
    ['Safety: Unsafe\nCategories: Violent', ['passed']],
    ['It is safe.', ['error', 'guard_error']],
  ])('qwen3guard answers %j', async (said, verdict) => {
    const g = await judgedBy('qwen3guard', says(said))
    expect(verdictOf(await g.ask({ ...INPUT, deny: ['personal-data'] }))).toEqual(verdict)
  })

  it('qwen3guard blocks for its own labels with the option harms', async () => {
    const g = await judgedBy(
      'qwen3guard',
      says('Safety: Unsafe\nCategories: Non-violent Illegal Acts'),
      { harms: true },
      'always',
    )
    expect(verdictOf(await g.ask(INPUT))).toEqual(['blocked', 'x:qwen3guard/illegal-acts'])
  })
})

/** A gateway that asks a moderation endpoint, and that endpoint. */
async function moderated(answer: FakeResponse): Promise<{ g: Guarded; server: FakeUpstream }> {
  const server = await startUpstream(answer)
  opened.push(server)
  const options = { kind: 'moderation', baseURL: `${server.url}/v1`, apiKey: 'sk-test-secret' }
  const g = await guarded([{ use: 'judge', options, applies: 'always' }])
  opened.push(g)
  g.vendor.answer(wholeOf({ content: 'Fine.' }))
  return { g, server }
}

describe('a moderation endpoint', () => {
  const result = (categories: object, scores: object = {}) =>
    json({ id: 'm', results: [{ flagged: true, categories, category_scores: scores }] })

  it('passes, or blocks for the category with the highest score', async () => {
    const { g, server } = await moderated(result({ violence: false }))
    expect(verdictOf(await g.ask(INPUT, user('Hello')))).toEqual(['passed'])
    expect(server.requests[0]).toMatchObject({
      path: '/v1/moderations',
      json: { input: 'Hello', model: 'omni-moderation-latest' },
    })
    expect(server.requests[0]!.headers.authorization).toBe('Bearer sk-test-secret')
    server.answer(
      result(
        { violence: true, 'self-harm/intent': true },
        { violence: 0.6, 'self-harm/intent': 0.8 },
      ),
    )
    expect(verdictOf(await g.ask(INPUT, user('Other')))).toEqual([
      'blocked',
      'x:moderation/self-harm/intent',
    ])
  })

  it.each<[string, FakeResponse]>([
    ['fails', json({ error: { message: 'sk-test-secret' } }, 500)],
    ['is no JSON', { pieces: ['<html>'] }],
    ['has no result', json({ results: [] })],
  ])('that %s is a fault, and its key is not shown', async (_, answer) => {
    const { g } = await moderated(answer)
    const said = await g.ask(INPUT)
    expect(verdictOf(said)).toEqual(['error', 'guard_error'])
    expect(said.text + g.t.logged.join()).not.toContain('sk-test-secret')
  })
})

describe('options', () => {
  it.each<[object, RegExp]>([
    [{ kind: 'oracle' }, /kind/],
    [{ kind: 'llama-guard' }, /model/],
    [{ kind: 'moderation' }, /apiKey/],
    [{ model: '' }, /model/],
  ])('%j is refused with the name of the option', async (options, name) => {
    await expect(guarded([{ use: 'judge', options: options as never }])).rejects.toThrow(name)
  })
})

const kindOf = ({ name }: Recording): string =>
  name.includes('llama-guard')
    ? 'llama-guard'
    : name.includes('safeguard')
      ? 'policy-reasoner'
      : 'shieldgemma'
const EXPECTED: Readonly<Record<string, string[]>> = {
  'guard/gpt-oss-safeguard-bare': ['passed'],
  'guard/gpt-oss-safeguard-violation': ['blocked', 'deny:medical'],
  'guard/llama-guard-assistant-turn': ['passed'],
  'guard/llama-guard-garbled': ['error', 'guard_error'],
  'guard/llama-guard-safe': ['passed'],
  'guard/llama-guard-unsafe': ['blocked', 'deny:personal-data'],
  'guard/shieldgemma-yes': ['blocked', 'x:shieldgemma/dangerous'],
}

describeRecorded('recorded exchanges with safety models', ['guard'], /./, (recordings) => {
  const known = recordings.filter(({ name }) => EXPECTED[name])
  it.each(known.map((one) => [one.name, one] as const))(
    '%s, wherever it is cut',
    async (name, recording) => {
      const kind = kindOf(recording)
      const applies = kind === 'shieldgemma' ? 'always' : undefined
      const g = await judgedBy(kind, whole(recording), {}, applies)
      const deny = ['medical' as const, 'personal-data' as const]
      const policy = kind === 'shieldgemma' ? INPUT : { ...INPUT, deny }
      expect(verdictOf(await g.ask(policy))).toEqual(EXPECTED[name])
      let asked = 0
      await fc.assert(
        fc.asyncProperty(cutsOf(recording.body), async (positions) => {
          const pieces = cutAt(recording.body, positions)
          g.vendor.answer(({ json: { model } }) =>
            model === 'judge' ? { ...whole(recording), pieces } : wholeOf({ content: 'Fine.' }),
          )
          // A text that was judged is not judged again.
          const said = await g.ask(policy, user(`Hello ${asked++}`))
          expect(verdictOf(said)).toEqual(EXPECTED[name])
        }),
        { numRuns: RUNS },
      )
    },
  )
})

const MODERATED: Readonly<Record<string, string[]>> = {
  'openai/moderation-flagged': ['blocked', 'x:moderation/violence'],
  'openai/moderation-image-and-text': ['passed'],
  'openai/moderation-text': ['passed'],
}

describeRecorded('recorded moderations', ['openai'], /moderations$/, (recordings) => {
  it('are all known', () => {
    expect(recordings.map(({ name }) => name).toSorted()).toEqual(Object.keys(MODERATED))
  })

  it.each(recordings)('$name, wherever it is cut', async (recording) => {
    const { g, server } = await moderated(whole(recording))
    const { name, body } = recording
    let asked = 0
    await fc.assert(
      fc.asyncProperty(cutsOf(body), async (positions) => {
        server.answer({ ...whole(recording), pieces: cutAt(body, positions) })
        // A text that was judged is not judged again.
        const said = await g.ask(INPUT, user(`Hello ${asked++}`))
        expect(verdictOf(said)).toEqual(MODERATED[name])
      }),
      { numRuns: RUNS },
    )
    expect(server.requests.length).toBeGreaterThanOrEqual(RUNS)
  })
})
