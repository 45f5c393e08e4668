/** Says at the end of a run why tests were skipped: one line for each reason. */
import type { Reporter, TestModule } from 'vitest/node'

const REASONS: readonly (readonly [RegExp, string])[] = [
  [/recorded|fixtures/, 'need recorded traffic of vendors, which is not in this repository'],
  [/^$/, 'need a program or a file that is not on this machine'],
]

export default class Skipped implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const counts = new Map<string, number>()
    for (const test of modules.flatMap(({ children }) => [...children.allTests('skipped')])) {
      const { note = '' } = test.result() as { readonly note?: string }
      const reason = REASONS.find(([pattern]) => pattern.test(note))?.[1] ?? `were skipped: ${note}`
      counts.set(reason, (counts.get(reason) ?? 0) + 1)
    }
    for (const [reason, count] of counts) {
      process.stdout.write(`${count} ${count === 1 ? 'test' : 'tests'} ${reason}.\n`)
    }
  }
}
