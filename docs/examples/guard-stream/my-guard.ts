/** Blocks requests and answers that contain one of the configured names. */
import * as v from 'valibot'
import { defineGuard, type ScanProgress, type Verdict } from 'sluicegate'

const RULE = 'x:my-guard/name'

export default defineGuard({
  name: 'my-guard',
  options: v.strictObject({ names: v.optional(v.array(v.string()), ['Acme Corp']) }),
  setup({ names }, host) {
    const matcher = host.compilePatterns(names)
    const toProgress = ({ safeOffset, match }: ScanProgress) =>
      match
        ? { safeOffset, verdict: { action: 'block', rule: RULE, spans: [match] } as Verdict }
        : { safeOffset }
    return {
      enforces: [RULE],
      execution: 'local',
      checkInput: (items) =>
        items.map(({ text }): Verdict => {
          const match = matcher.find(text)
          return match ? { action: 'block', rule: RULE, spans: [match] } : { action: 'pass' }
        }),
      streamOutput() {
        const scan = matcher.scan()
        return { push: (text) => toProgress(scan.push(text)), end: () => toProgress(scan.end()) }
      },
    }
  },
})
