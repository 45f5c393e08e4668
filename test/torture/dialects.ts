/**
 * `npm run torture -- dialects`: 5,000 mixed requests to all endpoints of texts; what clients were told of costs is held against the
 * ledger. `--count <n>`, `--seed <n>`; `--short` asks 1,000 times.
 */
import { parseArgs } from 'node:util'
import { formatPico } from '../../src/money/money.ts'
import { askMixed } from './_mixed.ts'
import { SEED } from '../_seed.ts'

const { values } = parseArgs({
  options: {
    short: { type: 'boolean', default: false },
    count: { type: 'string' },
    seed: { type: 'string' },
  },
})
const seed = Number(values.seed ?? SEED)
const count = Number(values.count ?? (values.short ? 1000 : 5000))
const { outcomes, money, faults } = await askMixed(count, seed)
const dollars = Object.entries(money).map(([name, pico]) => [name, formatPico(pico)])
const report = { seed, count, outcomes, money: Object.fromEntries(dollars) }
process.stdout.write(`${JSON.stringify(report, null, 2)}\n`)
for (const fault of faults.slice(0, 20)) process.stderr.write(`${fault}\n`)
process.exit(faults.length > 0 ? 1 : 0)
