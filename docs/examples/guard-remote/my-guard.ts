/** Asks a made-up classifier: `POST <url>` with `{ "text" }` answers `{ "score" }`, from 0 to 1. */
import * as v from 'valibot'
import { defineGuard } from 'sluicegate'

export default defineGuard({
  name: 'my-guard',
  options: v.strictObject({
    url: v.pipe(v.string(), v.url()),
    apiKey: v.string(),
    threshold: v.optional(v.number(), 0.8),
  }),
  setup({ url, apiKey, threshold }, host) {
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
    return {
      enforces: ['x:my-guard/insult'],
      execution: 'remote',
      async check(text, { signal }) {
        const body = host.json({ text })
        const response = await host.request({ url, headers, body, signal })
        const { score } = await host.readJson(response)
        if (typeof score !== 'number') throw host.fail('upstream_error')
        return score < threshold ? undefined : { score }
      },
    }
  },
})
