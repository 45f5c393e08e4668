/** Commands over policies and guards. */
import { asked, connected, RANGE } from '../asked.ts'
import type { Group, OptionSpecs } from '../command.ts'
import { cell, table } from '../output.ts'
import { readPolicyFile, shown, withQuery } from '../settings.ts'

const ASK: OptionSpecs = { ask: { help: 'use remote guards too; the operator pays for them' } }

export const POLICIES: Group = {
  name: 'Policies',
  page: 'policies',
  commands: [
    connected(
      'policy test',
      'Test a policy on texts: the verdict of every rule.',
      {
        arguments: ['policy'],
        options: {
          input: { value: 'text', help: 'a text of a user; "@file" reads a file' },
          output: { value: 'text', help: 'a text of a model; "@file" reads a file' },
          ...ASK,
          cases: { value: 'file', help: 'lines of JSON with texts and the verdicts to expect' },
        },
        example: 'policy test policy.json --input "My number is 4111 1111 1111 1111"',
      },
      async (admin, args) => (await import('../policy.ts')).testPolicy(admin, args),
    ),
    asked('policy diff', 'Compare two policies; "none" forbids nothing.', {
      arguments: ['from', 'to'],
      example: 'policy diff policy.json none',
      ask: ({ positionals: [from = '', to = ''] }) => [
        'POST',
        '/policies/diff',
        { from: readPolicyFile(from), to: readPolicyFile(to) },
      ],
      show: ({ data }) => {
        const rows = data.members
          .filter(({ order }: any) => order !== 'equal')
          .map((one: any) => [one.member, one.order, shown(one.from), shown(one.to)])
        if (rows.length === 0) return 'They forbid the same.\n'
        return table(['MEMBER', 'ORDER', 'FROM', 'TO'], rows)
      },
    }),
    connected(
      'policy replay',
      'Try a policy on calls whose contents were kept.',
      {
        arguments: ['policy'],
        options: {
          key: { value: 'id', help: 'only calls of this key' },
          ...RANGE,
          limit: { value: 'n', help: 'how many calls, up to 200 (default: 50)' },
          ...ASK,
        },
        example: 'policy replay policy.json --from 7d',
      },
      async (admin, args) => (await import('../policy.ts')).replayPolicy(admin, args),
    ),
    asked('guard', 'Show what guards decided, and how they work.', {
      options: {
        ...RANGE,
        account: { value: 'id', help: 'only for keys of this account' },
        key: { value: 'id', help: 'only for this key' },
      },
      example: 'guard --account acme --from 7d',
      ask: (args) => withQuery('/guard', args, ['from', 'to', 'account', 'key']),
      show: guardText,
    }),
  ],
}

function guardText({ data }: any): string {
  const sums = Map.groupBy(data.decisions, (one: any) =>
    [one.rule || '-', one.side, one.mode, one.outcome].join('\t'),
  )
  const decisions = [...sums].map(([of, days]) => [
    ...of.split('\t'),
    sumOf(days.map(({ calls }: any) => calls)),
  ])
  const guards = data.guards.map((one: any) => [
    one.guard,
    one.execution,
    one.mode,
    one.circuits.find(({ state }: any) => state !== 'closed')?.state ?? 'closed',
    sumOf(one.errors.map(({ count }: any) => count)),
    one.latency
      .map(({ side, p50_ms, p95_ms }: any) => `${side} ${cell(p50_ms)}/${cell(p95_ms)}`)
      .join(', '),
  ])
  const headings = ['GUARD', 'RUNS', 'MODE', 'CIRCUIT', 'ERRORS', 'P50/P95 MS']
  return (
    table(['RULE', 'SIDE', 'MODE', 'OUTCOME', 'CALLS'], decisions) +
    `\n${table(headings, guards, ['P50/P95 MS', 'RUNS'])}`
  )
}

/** The sum of counts: numbers of the API are the text that it sent. */
export function sumOf(counts: readonly unknown[]): number {
  return counts.reduce((sum: number, one) => sum + Number(cell(one)), 0)
}
