/** A sink, and faults in it. */
import { alone, mutant, type Family } from './play.ts'

const code = `import * as v from 'valibot'
import { defineSink } from 'sluicegate'

export default defineSink({
  name: 'acme',
  options: v.strictObject({ url: v.pipe(v.string(), v.url()), apiKey: v.string() }),
  setup({ url, apiKey }: any, host: any) {
    return {
      takes: ['alert', 'call.ended'],
      batch: 50,
      async send(events: any, signal: AbortSignal) {
        const lines = events.map(({ id, event, data }: any) => ({ id, event, text: data.message ?? data.id }))
        const headers = { 'content-type': 'application/json', authorization: 'Bearer ' + apiKey }
        const body = JSON.stringify({ lines, count: lines.length })
        const response = await host.request({ url, headers, body, signal })
        if (response.status > 299) throw await host.failure(response)
        await response.text()
      },
      close() {},
    }
  },
})
`

const FAILURE = 'throw await host.failure(response)'

export const SINKS: Family = {
  original: {
    code,
    cases: {
      'two.json': JSON.stringify({
        events: [{ event: 'alert', data: { message: 'The disk is full.' } }, { event: 'alert' }],
        expect: { sent: { count: 2 }, requests: 1 },
      }),
    },
  },
  mutants: [
    mutant('takes what there is not', 'set up', "'call.ended']", "'call.begun']"),
    mutant('has a batch of nothing', 'set up', 'batch: 50', 'batch: 0'),
    mutant('has no send', 'set up', 'async send(', 'async sends('),
    alone(
      'does not wait',
      'events | errors | cancel',
      'const response = await host',
      'host',
      'if (response.status > 299) throw await host.failure(response)',
      '',
      'await response.text()',
      '',
    ),
    mutant(
      'drops calls',
      'events',
      'const headers =',
      "if (events[0].event === 'call.ended') return\n        const headers =",
    ),
    mutant('sends one of two', 'events', 'events.map(', 'events.slice(0, 1).map('),
    mutant(
      'fails for names of later versions',
      'events',
      'const headers =',
      "if (!['alert', 'call.ended'].includes(events[0].event)) throw new Error('what?')\n        const headers =",
    ),
    mutant(
      'changes events',
      'events',
      'const headers =',
      'events[0].seen = true\n        const headers =',
    ),
    mutant('takes 204 for a failure', 'events', 'response.status > 299', 'response.status !== 200'),
    mutant(
      'takes any status for success',
      'errors',
      'if (response.status > 299) throw',
      'if (response.status > 999) throw',
    ),
    mutant(
      'takes a redirect for success',
      'errors',
      'response.status > 299',
      'response.status > 399',
    ),
    mutant(
      'throws an error of its own',
      'errors',
      FAILURE,
      "throw new Error('status ' + response.status)",
    ),
    mutant(
      'drops events while the receiver is busy',
      'errors',
      FAILURE,
      "throw host.fail('bad_request')",
    ),
    mutant('repeats what is refused', 'errors', FAILURE, "throw host.fail('upstream_rate')"),
    mutant(
      'tries again itself',
      'errors',
      'if (response.status > 299)',
      'if (response.status === 500) await host.request({ url, headers, body, signal })\n        if (response.status > 299)',
    ),
    mutant(
      'gives no signal',
      'cancel',
      'body, signal }',
      'body, signal: new AbortController().signal }',
    ),
    mutant(
      'remembers what it has tried',
      'repeat',
      'const headers =',
      'if (events.every((one: any) => tried.has(one.id))) return\n        for (const one of events) tried.add(one.id)\n        const headers =',
      'export default',
      'const tried = new Set()\nexport default',
    ),
    mutant(
      'quotes the key',
      'secrets',
      FAILURE,
      "throw host.fail('upstream_error', 'refused ' + apiKey)",
    ),
    mutant(
      'logs the key',
      'secrets',
      'const headers =',
      'host.log.info(apiKey)\n        const headers =',
    ),
    mutant('does not close', 'close', 'close() {}', 'close() { return new Promise(() => {}) }'),
  ],
}
