/** Commands over the people of a running gateway: tokens of the admin API, and sessions. */
import type { Admin } from './admin.ts'
import { CommandError, type Arguments } from './command.ts'
import { card, print, table } from './output.ts'
import { momentIn, segment } from './settings.ts'

const NONE = 'There are none.\n'

export async function listTokens(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', '/tokens')
  print(args, data, () => {
    const rows = data.map((one: any) => [
      one.id,
      one.name,
      one.role,
      one.source,
      one.start,
      one.created_by,
      one.expires_at,
      one.used_at,
    ])
    const headings = ['ID', 'NAME', 'ROLE', 'FROM', 'TOKEN', 'MADE BY', 'EXPIRES', 'LAST USED']
    return rows.length > 0 ? table(headings, rows) : NONE
  })
}

/** `tokens create`: prints the secret, which cannot be read later. @throws CommandError without `--role` */
export async function createToken(admin: Admin, args: Arguments): Promise<void> {
  const [name] = args.positionals
  const { role } = args.text
  if (role === undefined) {
    const roles = 'admin, operator, billing or viewer'
    throw new CommandError(`A token needs a role: --role ${roles}.`, 2)
  }
  const body = { name, role, expires_at: momentIn(args, 'expires') }
  const answer = await admin.ask('POST', '/tokens', body)
  print(args, answer, () => {
    const shown = 'The token is shown only now:'
    return `${tokenCard(answer.data)}\n${shown}\n\n  ${answer.token}\n`
  })
}

/** `tokens update`. @throws CommandError where nothing is to be changed */
export async function updateToken(admin: Admin, args: Arguments): Promise<void> {
  const { name, role } = args.text
  const body = { name, role, expires_at: momentIn(args, 'expires') }
  if (Object.values(body).every((value) => value === undefined)) {
    throw new CommandError('Nothing to change: "tokens update --help" lists the settings.', 2)
  }
  const { data } = await admin.ask('PATCH', `/tokens/${segment(args)}`, body)
  print(args, data, () => tokenCard(data))
}

export async function endToken(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('DELETE', `/tokens/${segment(args)}`)
  print(args, data, () => `The token ${data.name} and its sessions have ended.\n`)
}

export async function listSessions(admin: Admin, args: Arguments): Promise<void> {
  const { subject } = args.text
  const query = subject === undefined ? '' : `?${new URLSearchParams({ subject })}`
  const { data } = await admin.ask('GET', `/sessions${query}`)
  print(args, data, () => {
    const rows = data.map((one: any) => [
      one.id,
      one.subject,
      one.how,
      one.created_at,
      one.seen_at,
      one.ends_at,
      one.address,
      one.agent,
    ])
    const headings = ['ID', 'WHO', 'BY', 'SINCE', 'LAST USED', 'ENDS', 'ADDRESS', 'BROWSER']
    return rows.length > 0 ? table(headings, rows) : NONE
  })
}

/** `sessions end`: one, or with `--all` those of a subject. @throws CommandError where neither is named */
export async function endSessions(admin: Admin, args: Arguments): Promise<void> {
  const [session] = args.positionals
  const { subject } = args.text
  if ((session === undefined) !== args.on.has('all')) {
    throw new CommandError('Name a session, or --all with --subject <id>.', 2)
  }
  const all = subject === undefined ? '' : `?${new URLSearchParams({ subject })}`
  const path = session === undefined ? all : `/${segment(args)}`
  const { data } = await admin.ask('DELETE', `/sessions${path}`)
  print(args, data, () => `Sessions that have ended: ${data.ended.length}.\n`)
}

/** `whoami`: the name, the role and the rights of the token. */
export async function showSelf(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', '/session')
  const { name, role, rights } = data
  print(args, { name, role, rights }, () => card({ name, role, rights: rights.join(', ') }))
}

function tokenCard({ id, name, role, start, expires_at, created_by }: any): string {
  return card({ id, name, role, start, expires_at, created_by })
}
