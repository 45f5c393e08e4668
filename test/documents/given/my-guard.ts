/** The guard of the page, and its cases. */
import { cpSync } from 'node:fs'

for (const name of ['my-guard.ts', 'my-guard.cases']) {
  cpSync(`docs/examples/guard-check/${name}`, name, { recursive: true })
}
