/** Commands over the audit log of a gateway. */
import type { Admin } from './admin.ts'
import type { Arguments } from './command.ts'
import { printCsv } from './csv.ts'
import { print, table } from './output.ts'

const FILTERS = ['actor', 'action', 'object', 'from', 'to']

/** `audit list`: newest first, a line for each member that changed. */
export async function listChanges(admin: Admin, args: Arguments): Promise<void> {
  const query = new URLSearchParams({ limit: args.text.limit ?? '50' })
  for (const name of FILTERS) {
    const value = args.text[name]
    if (value !== undefined) query.set(name, value)
  }
  if (args.on.has('csv')) return printCsv(admin, `/audit?${query}`)
  const { data } = await admin.ask('GET', `/audit?${query}`)
  print(args, data, () => {
    const rows = data.flatMap(({ at, actor, action, object, changes }: any) =>
      changes.map(({ member, before, after }: any, index: number) => [
        ...(index === 0 ? [at, actor, action, object] : ['', '', '', '']),
        member,
        shown(before),
        shown(after),
      ]),
    )
    const headings = ['AT', 'ACTOR', 'ACTION', 'OBJECT', 'MEMBER', 'BEFORE', 'AFTER']
    return rows.length > 0 ? table(headings, rows) : 'There are none.\n'
  })
}

function shown(value: unknown): unknown {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : value
}
