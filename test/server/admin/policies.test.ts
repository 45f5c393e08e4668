import { spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { call } from '../../_cli.ts'
import { folder } from '../../_folder.ts'
import { guardPlugin, wordGuard } from '../../guard/_doubles.ts'
import { guarded, type Guarded } from '../../guard/_setup.ts'
import type { Guard, Verdict } from '../../../src/plugin.ts'

const TOKEN = 'a-token-of-the-operator'
const asked: string[] = []
let g: Guarded

beforeAll(async () => {
  const remote = wordGuard('anything', {
    enforces: ['deny:math'],
    execution: 'remote',
    checkInput: (units) => units.map(({ text }) => (asked.push(text), { action: 'pass' as const })),
  })
  g = await guarded(
    [
      guardPlugin('words', wordGuard('forbidden')),
      guardPlugin('far', remote),
      { use: guardPlugin('tickets', wordGuard('TCK-', ownRules('local'))), applies: 'selected' },
      { use: guardPlugin('manners', wordGuard('TCK-', ownRules('remote'))), applies: 'selected' },
    ],
    {},
    { admin: { token: TOKEN } },
  )
})
afterAll(() => g[Symbol.asyncDispose]())

/** Members of a guard with two rules that no policy contains, which blocks for the first. */
function ownRules(execution: Guard['execution']): Partial<Guard> {
  const found = (text: string): Verdict =>
    text.includes('TCK-')
      ? { action: 'block', rule: 'x:tickets/number', spans: [{ start: 0, end: 4 }] }
      : { action: 'pass' }
  return {
    enforces: ['x:tickets/number', 'x:tickets/name'],
    execution,
    checkInput: (items) => items.map(({ text }) => found(text)),
    checkOutput: ({ text }) => found(text),
  }
}

function evaluate(body: object) {
  const headers = { authorization: `Bearer ${TOKEN}` }
  return g.t.ask('POST', '/admin/policies/evaluate', { key: null, headers, body })
}

describe('POST /admin/policies/evaluate', () => {
  const policy = {
    version: 1,
    scope: 'Gardens.',
    deny: ['code', 'math'],
    bannedPatterns: ['heron', 'bittern'],
  }

  it('says of every rule what it finds, and where', async () => {
    const { status, json } = await evaluate({
      policy,
      input: 'A forbidden HERON.',
      output: 'Fine.',
    })
    expect(status).toBe(200)
    expect(json.data.verdicts).toEqual([
      {
        rule: 'bannedPatterns[0]',
        side: 'input',
        guard: 'patterns',
        verdict: 'block',
        spans: [{ start: 12, end: 17, text: 'HERON' }],
        view: expect.any(String),
        ms: expect.any(Number),
      },
      {
        rule: 'bannedPatterns[1]',
        side: 'input',
        guard: 'patterns',
        verdict: 'pass',
        ms: expect.any(Number),
      },
      {
        rule: 'deny:code',
        side: 'input',
        guard: 'words',
        verdict: 'block',
        spans: [{ start: 2, end: 11, text: 'forbidden' }],
        ms: expect.any(Number),
      },
      { rule: 'deny:math', side: 'input', guard: 'far', verdict: 'not-asked' },
      {
        rule: 'bannedPatterns[0]',
        side: 'output',
        guard: 'patterns',
        verdict: 'pass',
        ms: expect.any(Number),
      },
      {
        rule: 'bannedPatterns[1]',
        side: 'output',
        guard: 'patterns',
        verdict: 'pass',
        ms: expect.any(Number),
      },
      {
        rule: 'deny:code',
        side: 'output',
        guard: 'words',
        verdict: 'pass',
        ms: expect.any(Number),
      },
      { rule: 'deny:math', side: 'output', guard: 'far', verdict: 'not-asked' },
    ])
    expect(json.data.blocked).toEqual(['input'])
    expect(json.data.refusal).toBe("I can't help with that here.")
    expect(json.data.warnings).toEqual([
      'nothing on this gateway judges the scope: the model is told about it, no more',
    ])
    expect(asked).toEqual([])
  })

  it('asks elsewhere only when it is told to', async () => {
    const { json } = await evaluate({ policy, input: 'Two and two.', ask: true })
    expect(asked).toEqual(['Two and two.'])
    expect(json.data.verdicts.at(-1)).toMatchObject({ guard: 'far', verdict: 'pass' })
    expect(json.data.cost_usd).toBe(0)
  })

  it('says what a guard finds by rules of its own, where the policy names it', async () => {
    const trial = (guard: string) => ({ version: 1, guard: { model: `guard/${guard}` } })
    const texts = { input: 'TCK-1', output: 'Fine.' }
    const own = async (guard: string, ask: boolean) =>
      (await evaluate({ policy: trial(guard), ...texts, ask })).json.data.verdicts.map(
        ({ side, rule, verdict }: any) => [side, rule, verdict],
      )
    const found = [
      ['input', 'x:tickets/number', 'block'],
      ['input', 'x:tickets/name', 'pass'],
      ['output', 'x:tickets/number', 'pass'],
      ['output', 'x:tickets/name', 'pass'],
    ]
    expect(await own('tickets', false)).toEqual(found)
    expect(await own('manners', true)).toEqual(found)
    const unasked = found.map(([side, rule]) => [side, rule, 'not-asked'])
    expect(await own('manners', false)).toEqual(unasked)
    expect((await evaluate({ policy: { version: 1 }, ...texts })).json.data.verdicts).toEqual([])
  })

  it.each([
    [
      'streamed',
      { chunk: 4 },
      'Ask about the ',
      'outcome=blocked; side=output; rules=bannedPatterns',
    ],
    ['whole', {}, '', 'outcome=blocked; side=output; rules=bannedPatterns'],
  ])('shows what a client would get of an answer: %s', async (_, chunk, text, header) => {
    const body = {
      policy: { version: 1, bannedPatterns: ['heron'] },
      output: 'Ask about the heron.',
    }
    const { data } = (await evaluate({ ...body, ...chunk })).json
    expect(data.shown).toEqual({
      text,
      refusal: "I can't help with that here.",
      header: expect.stringContaining(header),
    })
    const passed = (await evaluate({ ...body, ...chunk, output: 'Ask about herbs.' })).json.data
      .shown
    expect(passed).toEqual({ text: 'Ask about herbs.', header: 'outcome=passed' })
    const monitor = { ...body.policy, guard: { mode: 'monitor' } }
    const seen = (await evaluate({ ...body, ...chunk, policy: monitor })).json.data.shown
    expect(seen).toEqual({ text: body.output, header: 'outcome=monitored' })
    const refused = (await evaluate({ ...body, ...chunk, input: 'A heron?' })).json.data.shown
    expect(refused).toMatchObject({ text: '', header: expect.stringContaining('side=input') })
    expect((await evaluate({ ...body, chunk: 0 })).json.error.param).toBe('chunk')
  })

  it('refuses a policy that is none, and a trial without a text', async () => {
    const bad = await evaluate({ policy: { version: 2 }, input: 'a' })
    expect([bad.status, bad.json.error.param]).toEqual([400, 'policy.version'])
    expect((await evaluate({ policy })).json.error.param).toBe('input')
    expect((await evaluate({ policy, input: 'a', more: 1 })).status).toBe(400)
  })
})

describe('policy test', () => {
  it('says which cases have another verdict than expected', async () => {
    const path = await folder({
      'policy.json': '{"version":1,"bannedPatterns":["heron"]}',
      'cases.jsonl': ['heron', 'wren']
        .map((text) =>
          JSON.stringify({ side: 'input', text, rule: 'bannedPatterns', expected: 'block' }),
        )
        .join('\n'),
      'wrong.jsonl': '{"side":"input"}',
    })
    const [policy, cases, wrong] = ['policy.json', 'cases.jsonl', 'wrong.jsonl'].map((name) =>
      join(path, name),
    )
    const test = (file: string) =>
      call(['policy', 'test', policy!, '--cases', file, '--url', g.t.url, '--token', TOKEN])
    const { code, out, err } = await test(cases!)
    expect([code, err]).toEqual([
      1,
      expect.stringContaining('of the cases in another way than they expect'),
    ])
    expect(out).toMatch(/input +bannedPatterns +block +pass +"wren"/)
    expect(out).toContain('2 cases, 1 of them')
    const bad = await test(wrong!)
    expect([bad.code, bad.err]).toEqual([2, expect.stringContaining('line 1')])
  })

  it('prints a table', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'policy-'))
    try {
      const file = join(folder, 'policy.json')
      await writeFile(file, '{"version":1,"bannedPatterns":["heron"]}')
      await writeFile(join(folder, 'text.txt'), 'A heron.')
      const cli = new URL('../../../src/cli.ts', import.meta.url).pathname
      const text = `@${join(folder, 'text.txt')}`
      const args = ['policy', 'test', file, '--output', text, '--url', g.t.url, '--token', TOKEN]
      const child = spawn(process.execPath, [cli, ...args], { cwd: folder })
      const out = Buffer.concat(await child.stdout.toArray()).toString()
      expect(out).toMatch(/output +bannedPatterns\[0\] +patterns +block +"heron"/)
    } finally {
      await rm(folder, { recursive: true })
    }
  })
})
