/** Commands over the limits of keys, teams and accounts of a running gateway, and over teams. */
import type { Admin } from './admin.ts'
import { TEAM_SETTINGS } from '../server/admin/resources/team.ts'
import { CommandError, type Arguments } from './command.ts'
import { card, cell, print, table } from './output.ts'
import { capOf, filterOf, momentIn, segment, settingsIn } from './settings.ts'

const KINDS: ReadonlySet<string> = new Set(['key', 'team', 'account'])

/** The path of an owner such as `key:key_1`. A bare id is that of a key. @throws CommandError */
function pathOf([owner = '']: readonly string[]): string {
  const colon = owner.indexOf(':')
  const [kind, id] = colon === -1 ? ['key', owner] : [owner.slice(0, colon), owner.slice(colon + 1)]
  if (!KINDS.has(kind) || id === '') {
    throw new CommandError(
      `Name the owner as key:<id>, team:<id> or account:<id>, not ${JSON.stringify(owner)}.`,
      2,
    )
  }
  return `/${kind}s/${encodeURIComponent(id)}`
}

export async function showLimits(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', `${pathOf(args.positionals)}/limits`)
  const rows = data.map((one: any) => [
    one.limit,
    one.models ? `${cell(one.value)} for ${one.models.join(', ')}` : one.value,
    one.source,
    one.used,
    one.held,
    one.left,
    one.resets_at,
    one.raised ? `raised from ${cell(one.raised.from)} until ${one.raised.until}` : '',
  ])
  const headings = ['LIMIT', 'VALUE', 'FROM', 'USED', 'HELD', 'LEFT', 'RESETS AT', '']
  print(args, data, () => (rows.length > 0 ? table(headings, rows) : 'There are none.\n'))
}

/** Unit and window of a name such as `cap.week`. @throws CommandError */
function kindOf(name: string) {
  const [head = '', window] = name.split('.')
  if (name === 'rpm') return { unit: 'requests', window: 'minute' }
  if (name === 'concurrency') return { unit: 'concurrent' }
  const unit = { cap: 'usd', requests: 'requests', tokens: 'tokens' }[head]
  if (unit && window) return { unit, window }
  throw new CommandError(
    `Name the limit as rpm, concurrency, cap.<window>, requests.<window> or tokens.<window>, not ${JSON.stringify(name)}.`,
    2,
  )
}

/** Sets or removes one entry of the list of an owner. @param value absent to remove it */
async function change(admin: Admin, args: Arguments, value: string | undefined): Promise<void> {
  const [, name = ''] = args.positionals
  const path = pathOf(args.positionals)
  const { data } = await admin.ask('GET', path)
  const kind = kindOf(name)
  const models = args.text.models?.split(',').map((id) => id.trim())
  const isSame = (one: any) =>
    one.unit === kind.unit &&
    one.window === kind.window &&
    String(one.models?.toSorted()) === String(models?.toSorted())
  const entry = {
    ...kind,
    value: kind.unit === 'usd' ? value : Number(value),
    ...(models && { models }),
  }
  const former = (data.limits ?? []).map((one: any) => ({ ...one, raised: undefined }))
  const at = former.findIndex(isSame)
  const others = former.filter((one: any) => !isSame(one))
  const limits =
    value === undefined ? others : others.toSpliced(at === -1 ? others.length : at, 0, entry)
  await admin.ask('PATCH', path, { limits: limits.length > 0 ? limits : null })
  await showLimits(admin, args)
}

export function setLimit(admin: Admin, args: Arguments): Promise<void> {
  return change(admin, args, args.positionals[2] ?? '')
}

export function clearLimit(admin: Admin, args: Arguments): Promise<void> {
  return change(admin, args, undefined)
}

/** `limits raise key:key_1 cap.week 10.00 --until 6h`; `none` in place of the value ends a raise. */
export async function raiseLimit(admin: Admin, args: Arguments): Promise<void> {
  const [, name = '', value = ''] = args.positionals
  const isMoney = kindOf(name).unit === 'usd'
  const { data } = await admin.ask(
    'POST',
    `${pathOf(args.positionals)}/limits/${encodeURIComponent(name)}/raise`,
    {
      value: value === 'none' ? null : isMoney ? value : Number(value),
      until: momentIn(args, 'until'),
      reason: args.text.reason,
    },
  )
  print(
    args,
    data,
    () =>
      `${name} of ${args.positionals[0]} is ${value === 'none' ? 'as before' : `raised to ${value}`}.\n`,
  )
}

export async function resetLimit(admin: Admin, args: Arguments): Promise<void> {
  const [, name = ''] = args.positionals
  const { reason, reference } = args.text
  if (reason === undefined) throw new CommandError('--reason says why the count begins anew.', 2)
  const { data } = await admin.ask(
    'POST',
    `${pathOf(args.positionals)}/limits/${encodeURIComponent(name)}/reset`,
    { reason, reference },
  )
  print(
    args,
    data,
    () => `${String(JSON.stringify(data.counted))} of ${name} do not count any more.\n`,
  )
}

// Teams.

export async function listTeams(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', `/teams${filterOf(args)}`)
  const rows = data.map((one: any) => [
    one.id,
    one.account_id,
    one.name,
    one.state,
    one.key_count,
    one.spend.month,
  ])
  const headings = ['ID', 'ACCOUNT', 'NAME', 'STATE', 'KEYS', 'SPEND THIS MONTH']
  print(args, data, () => (rows.length > 0 ? table(headings, rows) : 'There are none.\n'))
}

export async function createTeam(admin: Admin, args: Arguments): Promise<void> {
  const { name } = args.text
  if (name === undefined) throw new CommandError('--name says what the team is called.', 2)
  const body = { id: args.text.id, ...settingsIn(args, TEAM_SETTINGS) }
  const { data } = await admin.ask('POST', `/accounts/${segment(args)}/teams`, body)
  print(args, data, () => teamCard(data))
}

export async function showTeam(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', `/teams/${segment(args)}`)
  print(args, data, () => teamCard(data))
}

export function updateTeam(admin: Admin, args: Arguments): Promise<void> {
  return patchTeam(admin, args, settingsIn(args, TEAM_SETTINGS))
}

export function disableTeam(admin: Admin, args: Arguments): Promise<void> {
  return patchTeam(admin, args, { disabled: true })
}

export function enableTeam(admin: Admin, args: Arguments): Promise<void> {
  return patchTeam(admin, args, { disabled: false })
}

export async function archiveTeam(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('DELETE', `/teams/${segment(args)}`)
  print(args, data, () => teamCard(data))
}

async function patchTeam(admin: Admin, args: Arguments, change: object): Promise<void> {
  const { data } = await admin.ask('PATCH', `/teams/${segment(args)}`, change)
  print(args, data, () => teamCard(data))
}

function teamCard(team: any): string {
  const { limit_status: _, spend, spend_cap, limits, new_keys, ...members } = team
  const lists = {
    limits: limits && JSON.stringify(limits),
    new_keys: new_keys && JSON.stringify(new_keys),
  }
  return card({ ...members, ...lists, spend_month: spend.month, cap: capOf({ spend_cap }) })
}
