/** Commands over the audit log of a gateway. */
import type { Admin } from './admin.ts'
import type { Arguments } from './command.ts'
import { printCsv } from './csv.ts'
import { print, table } from './output.ts'
import { queryOf, shown } from './settings.ts'

const FILTERS = ['actor', 'action', 'object', 'from', 'to']

/** `audit list`: newest first, a line for each member that changed. */
export async function listChanges(admin: Admin, args: Arguments): Promise<void> {
  const query = queryOf(args, FILTERS, { limit: args.text.limit ?? '50' })
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
