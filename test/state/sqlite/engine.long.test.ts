/** The examples of the rules of a ledger, for the one in a file: each opens a thread. */
import { folder } from '../../_folder.ts'
import { ledgerConformance } from '../../conformance/ledger.ts'
import { open } from './_engine.ts'

ledgerConformance(
  'sqlite',
  async (clock) => (await open(await folder({}), () => clock.now())).ledger,
  { only: 'examples' },
)
