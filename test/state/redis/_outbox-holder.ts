/** `node _outbox-holder.ts <folder>`: leaves three settlements in an outbox, and keeps it until it is killed. */
import { OutboxFile } from '../../../src/state/redis/outbox.ts'
import type { UsageRow } from '../../../src/state/ledger/ledger.ts'

const usage: UsageRow = { at: 0, endpoint: 'chat', model: 'm', outcome: 'completed', lines: [] }
const file = OutboxFile.open(process.argv[2]!)
for (const cost of [1n, 2n, 3n]) {
  const lease = { account: 'acct', key: 'key', request: `req_${cost}` }
  await file.append({ settlement: { ...lease, day: '20260101', cost, usage } }, null)
}
process.stdout.write('written\n')
// The timer below keeps a reference to the outbox, so that it is not collected and closed.
setInterval(() => file.summary(), 60_000)
