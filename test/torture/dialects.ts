/**
 * `npm run torture -- dialects`: 5,000 mixed requests in all forms of chat; what clients were told of costs is held against the
 * ledger. `--count <n>`, `--seed <n>`; `--short` asks 1,000 times.
 */
import { parseArgs } from 'node:util'
import { askMixed } from './_mixed.ts'

const { values } = parseArgs({
  options: {
    short: { type: 'boolean', default: false },
    count: { type: 'string' },
    seed: { type: 'string' },
  },
})
const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31))
const count = Number(values.count ?? (values.short ? 1000 : 5000))
const { outcomes, faults } = await askMixed(count, seed)
process.stdout.write(`${JSON.stringify({ seed, count, outcomes }, null, 2)}\n`)
for (const fault of faults.slice(0, 20)) process.stderr.write(`${fault}\n`)
process.exit(faults.length > 0 ? 1 : 0)
