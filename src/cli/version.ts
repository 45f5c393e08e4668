/** `version`: the running versions, for reports of faults and for images that check their runtime. */
import { DatabaseSync } from 'node:sqlite'
import { packageVersion } from '../gateway/version.ts'
import type { Arguments } from './command.ts'
import { print } from './output.ts'

export function version(args: Arguments): void {
  const database = new DatabaseSync(':memory:')
  const row = database.prepare('SELECT sqlite_version() AS version').get() as { version: string }
  database.close()
  const versions = { version: packageVersion(), node: process.versions.node, sqlite: row.version }
  const { version: own, node, sqlite } = versions
  print(args, versions, () => `sluicegate ${own} (node ${node}, sqlite ${sqlite})\n`)
}
