/** Keeps certain names out of what goes in and of what comes back. */
import * as v from 'valibot'
import { defineGuard, type ScanStep, type Verdict } from '../../src/plugin.ts'

const RULE = 'x:my-guard/name'

export default defineGuard({
  name: 'my-guard',
  options: v.strictObject({ names: v.array(v.string()) }),
  setup({ names }, host) {
    const matcher = host.compile(names)
    const step = ({ safe, hit }: ScanStep) =>
      hit ? { safe, verdict: { action: 'block', rule: RULE, spans: [hit] } as Verdict } : { safe }
    return {
      answers: [RULE],
      cost: 'local',
      input: (units) =>
        units.map(({ text }): Verdict => {
          const hit = matcher.find(text)
          return hit ? { action: 'block', rule: RULE, spans: [hit] } : { action: 'pass' }
        }),
      outputStream() {
        const scan = matcher.scan()
        return { push: (text) => step(scan.push(text)), end: () => step(scan.end()) }
      },
    }
  },
})
