/** The guard of the page, and its cases. */
import { cpSync } from 'node:fs'

for (const name of ['my-check.ts', 'my-check.cases']) {
  cpSync(`docs/examples/${name}`, name, { recursive: true })
}
