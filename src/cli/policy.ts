/** Commands over policies: try one, compare two, replay kept calls. */
import { readFileSync } from 'node:fs'
import type { Admin } from './admin.ts'
import { CommandError, type Arguments } from './command.ts'
import { cell, print, table } from './output.ts'
import { readPolicyFile } from './settings.ts'

/**
 * `policy test`: the verdict of every rule of a policy on the given texts, or whether each case has the expected
 * one.
 * @throws CommandError with status 1 when one has not
 */
export async function testPolicy(admin: Admin, args: Arguments): Promise<void> {
  const [file = ''] = args.positionals
  const policy = readPolicyFile(file)
  const ask = args.on.has('ask')
  if (args.text.cases !== undefined) return testCases(admin, args, { policy, ask })
  const { data } = await admin.ask('POST', '/policies/evaluate', {
    policy,
    input: args.text.input === undefined ? undefined : readText(args.text.input),
    output: args.text.output === undefined ? undefined : readText(args.text.output),
    ask,
  })
  const rows = data.verdicts.map((one: any) => [
    one.side,
    one.rule,
    one.guard,
    one.error ? `${one.verdict} (${one.error})` : one.verdict,
    one.spans?.map((span: any) => JSON.stringify(span.text)).join(' ') ?? one.reason,
  ])
  print(args, data, () => {
    const summary =
      rows.length > 0 ? table(HEADINGS, rows) : 'With this policy nothing checks the text.\n'
    const warnings = data.warnings.map((warning: string) => `warning: ${warning}\n`).join('')
    return summary + warnings
  })
}

const HEADINGS = ['SIDE', 'RULE', 'GUARD', 'VERDICT', 'FOUND']

interface Case {
  readonly side: 'input' | 'output'
  readonly text: string
  readonly rule: string
  readonly expected: 'block' | 'pass'
}

async function testCases(
  admin: Admin,
  args: Arguments,
  { policy, ask }: { readonly policy: unknown; readonly ask: boolean },
): Promise<void> {
  const cases = readCases(args.text.cases!)
  const results: (Case & { readonly verdict: string })[] = []
  for (const one of cases) {
    const body = { policy, ask, [one.side]: one.text }
    const { data } = await admin.ask('POST', '/policies/evaluate', body)
    const ofRule = data.verdicts.filter(
      ({ rule, side }: any) => side === one.side && rule.replace(/\[\d+\]$/, '') === one.rule,
    )
    const blocks = ofRule.some(({ verdict }: any) => verdict === 'block')
    results.push({ ...one, verdict: blocks ? 'block' : 'pass' })
  }
  const wrong = results.filter(({ expected, verdict }) => expected !== verdict)
  print(args, results, () => {
    const rows = wrong.map(({ side, rule, expected, verdict, text }) => {
      return [side, rule, expected, verdict, JSON.stringify(text.slice(0, 60))]
    })
    const summary = `${results.length} cases, ${wrong.length} of them with another verdict.\n`
    if (rows.length === 0) return summary
    return table(['SIDE', 'RULE', 'EXPECTED', 'VERDICT', 'TEXT'], rows) + summary
  })
  if (wrong.length > 0)
    throw new CommandError(
      `The policy decides ${wrong.length} of the cases in another way than they expect.`,
    )
}

function readCases(path: string): Case[] {
  const lines = readFile(path).split('\n')
  return lines.flatMap((line, index) => {
    if (line.trim() === '') return []
    try {
      const one = JSON.parse(line) as Case
      const isCase =
        ['input', 'output'].includes(one.side) &&
        ['block', 'pass'].includes(one.expected) &&
        [one.text, one.rule].every((value) => typeof value === 'string')
      if (isCase) return [one]
    } catch {
      // It is told below.
    }
    const expected = '{"side": "input", "text": …, "rule": …, "expected": "block"}'
    throw new CommandError(`--cases: expected line ${index + 1} of ${path} to be ${expected}.`, 2)
  })
}

/** `policy replay`: the effect of a policy on calls whose contents were kept. */
export async function replayPolicy(admin: Admin, args: Arguments): Promise<void> {
  const [file = ''] = args.positionals
  const { key, from, to, limit } = args.text
  const { data } = await admin.ask('POST', '/policies/replay', {
    policy: readPolicyFile(file),
    key,
    from,
    to,
    limit: limit === undefined ? undefined : Number(limit),
    ask: args.on.has('ask'),
  })
  print(args, data, () => {
    const { changed } = data
    const [contents, calls, before, after] = [
      data.contents,
      data.calls,
      data.blocked.before,
      data.blocked.after,
    ].map((one) => cell(one))
    if (contents === '0') return 'No contents are kept.\n'
    const rows = changed.map((one: any) => [
      one.id,
      one.side,
      one.from,
      one.to,
      one.rules.join(','),
    ])
    const summary =
      `${calls} calls with content, ${changed.length} with another verdict; ` +
      `${before} were blocked, ${after} would be.\n`
    return rows.length === 0
      ? summary
      : table(['REQUEST', 'SIDE', 'FROM', 'TO', 'RULES'], rows) + summary
  })
}

/** A text as it is, or with `@` the content of a file. */
function readText(value: string): string {
  return value.startsWith('@') ? readFile(value.slice(1)) : value
}

function readFile(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new CommandError(`${path} cannot be read: ${(error as Error).message}`, 2)
  }
}
