/**
 * `node test/torture/ledger.ts [--steps 100000] [--requests 10000]`: longer runs of two tests. Every ledger engine takes a
 * random walk beside the model of its rules (`test/conformance/ledger.ts`), and a gateway answers requests of every kind
 * whose costs have to add up (`test/state/ledger/money.test.ts`).
 */
import { spawnSync } from 'node:child_process'
import { parseArgs } from 'node:util'

const { values } = parseArgs({
  options: {
    steps: { type: 'string', default: '100000' },
    requests: { type: 'string', default: '10000' },
  },
})
const tests = ['run', 'test/state', '-t', 'random steps|requests of every kind']
const { status } = spawnSync('node_modules/.bin/vitest', tests, {
  env: { ...process.env, LEDGER_STEPS: values.steps, MONEY_REQUESTS: values.requests },
  stdio: 'inherit',
})
process.exitCode = status ?? 1
