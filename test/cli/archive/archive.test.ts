import { MemoryLedger } from '../../../src/state/ledger/memory.ts'
import { archiveConformance } from '../../conformance/archive.ts'
import { open } from '../../state/sqlite/_engine.ts'
import { folder } from '../../_folder.ts'

archiveConformance('memory', (clock) => new MemoryLedger({ now: () => clock.now() }), { runs: 100 })
archiveConformance(
  'embedded',
  async (clock) => (await open(await folder({}), () => clock.now())).ledger,
  { runs: 10 },
)
