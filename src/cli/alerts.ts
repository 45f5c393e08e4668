/** Commands over the alerts of a gateway. */
import type { Admin } from './admin.ts'
import type { Arguments } from './command.ts'
import { print, table } from './output.ts'
import { segment } from './settings.ts'

export async function listAlerts(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', '/alerts')
  print(args, data, () => {
    const rows = data.map((one: any) => [
      one.since,
      one.ended_at ?? 'active',
      one.kind,
      one.object,
      one.message,
      one.muted_until,
      one.id,
    ])
    const headings = ['SINCE', 'UNTIL', 'ALERT', 'OBJECT', 'MESSAGE', 'MUTED UNTIL', 'ID']
    return rows.length > 0 ? table(headings, rows) : 'There are none.\n'
  })
}

export async function muteAlert(admin: Admin, args: Arguments): Promise<void> {
  const seconds = Number(args.text.seconds ?? DAY)
  const { data } = await admin.ask('POST', `/alerts/${segment(args)}/mute`, { seconds })
  print(args, data, () => `Nothing is told of ${data.id} until ${data.muted_until}.\n`)
}

const DAY = 86_400
