import { archiveConformance } from '../../conformance/archive.ts'
import { open, openInMemory } from '../../state/sqlite/_engine.ts'
import { folder } from '../../_folder.ts'
import { runs } from '../../_runs.ts'

archiveConformance('memory', (clock) => openInMemory({ now: () => clock.now() }).ledger, {
  runs: runs(10),
})
archiveConformance(
  'sqlite',
  async (clock) => (await open(await folder({}), () => clock.now())).ledger,
  { runs: runs(2) },
)
