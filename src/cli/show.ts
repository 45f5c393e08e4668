/** Commands that show what a gateway does with policies and settings. */
import type { Admin } from './admin.ts'
import type { Arguments } from './command.ts'
import { print, table } from './output.ts'
import { readPolicyFile } from './settings.ts'

/** `policy diff`: a row for each member that differs. */
export async function diffPolicies(admin: Admin, args: Arguments): Promise<void> {
  const [from = '', to = ''] = args.positionals
  const policies = { from: readPolicyFile(from), to: readPolicyFile(to) }
  const { data } = await admin.ask('POST', '/policies/diff', policies)
  print(args, data, () => {
    const rows = data.members
      .filter(({ order }: any) => order !== 'equal')
      .map((one: any) => [one.member, one.order, shown(one.from), shown(one.to)])
    if (rows.length === 0) return 'They forbid the same.\n'
    return table(['MEMBER', 'ORDER', 'FROM', 'TO'], rows)
  })
}

/** `config show`: the settings of the running gateway; those that are not written anywhere with `--all` only. */
export async function showConfig(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', '/config')
  const found = args.on.has('all')
    ? data
    : data.filter(({ origin }: any) => origin.from !== 'default')
  print(args, found, () => {
    const rows = found.map(({ path, value, origin }: any) => {
      const where = [origin.from, origin.file ?? origin.name].filter((one) => one !== undefined)
      return [path, shown(value), where.join(' ')]
    })
    return table(['SETTING', 'VALUE', 'FROM'], rows)
  })
}

function shown(value: unknown): unknown {
  if (JSON.isRawJSON(value)) return value
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : value
}
