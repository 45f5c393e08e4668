/** Keeps certain names out of what goes in and of what comes back. */
import * as v from 'valibot'
import { defineGuard, type ScanProgress, type Verdict } from '../../src/plugin.ts'

const RULE = 'x:my-guard/name'

export default defineGuard({
  name: 'my-guard',
  options: v.strictObject({ names: v.array(v.string()) }),
  setup({ names }, host) {
    const matcher = host.compilePatterns(names)
    const step = ({ safeOffset, match }: ScanProgress) =>
      match
        ? { safeOffset, verdict: { action: 'block', rule: RULE, spans: [match] } as Verdict }
        : { safeOffset }
    return {
      enforces: [RULE],
      execution: 'local',
      checkInput: (units) =>
        units.map(({ text }): Verdict => {
          const hit = matcher.find(text)
          return hit ? { action: 'block', rule: RULE, spans: [hit] } : { action: 'pass' }
        }),
      streamOutput() {
        const scan = matcher.scan()
        return { push: (text) => step(scan.push(text)), end: () => step(scan.end()) }
      },
    }
  },
})
