/** Commands that change the limits of keys, teams and accounts of a running gateway. */
import { Refused, type Admin } from './admin.ts'
import type { Arguments } from './command.ts'
import { limitsText } from './shown.ts'
import { cell, print } from './output.ts'
import { lookUp } from './look-up.ts'
import { limitKind } from './settings.ts'

/** Status of a change of what another change has changed meanwhile. */
const CHANGED = 412

/** Sets or removes one entry of the list of an owner. @param value absent to remove it */
async function change(admin: Admin, args: Arguments, value: string | undefined): Promise<void> {
  const [, name = ''] = args.positionals
  const { path } = await lookUp(admin, 'owner', args)
  const { data } = await admin.ask('GET', path)
  const kind = limitKind(name)
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
  try {
    await admin.ask(
      'PATCH',
      path,
      { limits: limits.length > 0 ? limits : null },
      Number(cell(data.revision)),
    )
  } catch (error) {
    // The list is another one now: it is read again.
    if (error instanceof Refused && error.status === CHANGED) return change(admin, args, value)
    throw error
  }
  const answer = await admin.ask('GET', `${path}/limits`)
  print(args, answer.data, () => limitsText(answer))
}

export function setLimit(admin: Admin, args: Arguments): Promise<void> {
  return change(admin, args, args.positionals[2] ?? '')
}

export function clearLimit(admin: Admin, args: Arguments): Promise<void> {
  return change(admin, args, undefined)
}
