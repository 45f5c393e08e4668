/**
 * `node test/torture/laws.ts [--steps 100000] [--requests 10000] [--cuts 10000] [--calls 1000] [--times 30]`: longer runs of tests that
 * `npm test` runs briefly. Every ledger engine takes a random walk beside the model of its rules, a gateway answers requests
 * of every kind whose costs have to add up, guarded answers are cut in random places, and a thousand calls are answered
 * while deployments fail. Other random tests run thirty times as often.
 */
import { spawnSync } from 'node:child_process'
import { parseArgs } from 'node:util'

const { values } = parseArgs({
  options: {
    steps: { type: 'string', default: '100000' },
    requests: { type: 'string', default: '10000' },
    cuts: { type: 'string', default: '10000' },
    calls: { type: 'string', default: '1000' },
    times: { type: 'string', default: '30' },
  },
})
const runs: readonly (readonly string[])[] = [
  ['test/state', '-t', 'random steps|requests of every kind'],
  ['test/guard/leaks.test.ts'],
  ['test/pipeline/stages/route.test.ts', '-t', 'calls are answered'],
  [
    'test/answers/repeats.test.ts',
    'test/cli/archive',
    'test/config/layers.test.ts',
    'test/endpoints/chat/conversation.test.ts',
    'test/endpoints/chat/dialects/labels.test.ts',
    'test/endpoints/chat/dialects/messages/events.test.ts',
    'test/endpoints/chat/dialects/shared/media.test.ts',
    'test/endpoints/chat/events.test.ts',
    'test/endpoints/chat/interleaved.test.ts',
    'test/endpoints/chat/normalize.test.ts',
    'test/endpoints/chat/request.test.ts',
    'test/endpoints/chat/unwritable.test.ts',
    'test/endpoints/shared/multipart.test.ts',
    'test/gateway/managed.test.ts',
    'test/guard/audit.test.ts',
    'test/guard/chat-codec.test.ts',
    'test/guard/screen',
    'test/masking',
    'test/models/resolving.test.ts',
    'test/money',
    'test/openapi',
    'test/patterns',
    'test/plugins/categories.test.ts',
    'test/plugins/pii.test.ts',
    'test/plugins/safety-models.test.ts',
    'test/plugins/search.test.ts',
    'test/policy',
    'test/providers',
    'test/server/admin/api.test.ts',
    'test/server/admin/people.test.ts',
    'test/server/members.test.ts',
    'test/state/ledger/outcomes.test.ts',
    'test/state/ledger/verified.test.ts',
    'test/state/ledger/windows.test.ts',
    'test/state/sqlite/damage.test.ts',
    'test/import/no-wider.test.ts',
    'test/import/source-limits.test.ts',
    'test/observe/usage/chain.test.ts',
    'test/payments/payments.test.ts',
    'test/selling/bills.test.ts',
    'test/stream',
  ],
]
const vitest = ['node_modules/vitest/vitest.mjs', 'run']
const env = {
  ...process.env,
  LEDGER_STEPS: values.steps,
  MONEY_REQUESTS: values.requests,
  LEAK_RUNS: values.cuts,
  FAILOVER_CALLS: values.calls,
  RUNS_TIMES: values.times,
}
for (const tests of runs) {
  const { status } = spawnSync(process.execPath, [...vitest, ...tests], { env, stdio: 'inherit' })
  if (status !== 0) process.exitCode = status ?? 1
}
