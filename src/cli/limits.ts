/** Commands that change the limits of keys, teams and accounts of a running gateway. */
import type { Admin } from './admin.ts'
import { CommandError, type Arguments } from './command.ts'
import { limitsText } from './shown.ts'
import { cell, print } from './output.ts'
import { momentIn, ownerPath, required } from './settings.ts'

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
  const path = ownerPath(args.positionals[0] ?? '')
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
  const answer = await admin.ask('GET', `${path}/limits`)
  print(args, answer.data, () => limitsText(answer))
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
    `${ownerPath(args.positionals[0] ?? '')}/limits/${encodeURIComponent(name)}/raise`,
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
  const reason = required(args, 'reason', 'A reset says why the count begins anew')
  const { reference } = args.text
  const { data } = await admin.ask(
    'POST',
    `${ownerPath(args.positionals[0] ?? '')}/limits/${encodeURIComponent(name)}/reset`,
    { reason, reference },
  )
  print(args, data, () => `${cell(data.counted)} of ${name} do not count any more.\n`)
}
