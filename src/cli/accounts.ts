/** Commands that change accounts of a running gateway. */
import { ACCOUNT_SETTINGS } from '../server/admin/resources/account.ts'
import type { Admin } from './admin.ts'
import { CommandError, type Arguments } from './command.ts'
import { card, print } from './output.ts'
import { capOf, segment, settingsIn } from './settings.ts'

/** `accounts update` @throws CommandError if no setting is given */
export async function updateAccount(admin: Admin, args: Arguments): Promise<void> {
  const change = settingsIn(args, ACCOUNT_SETTINGS)
  if (Object.values(change).every((value) => value === undefined)) {
    throw new CommandError('Nothing to change: "accounts update --help" lists the settings.', 2)
  }
  await changeAccount(admin, args, change)
}

/** `accounts disable` */
export async function disableAccount(admin: Admin, args: Arguments): Promise<void> {
  await changeAccount(admin, args, { disabled: true })
}

/** `accounts enable` */
export async function enableAccount(admin: Admin, args: Arguments): Promise<void> {
  await changeAccount(admin, args, { disabled: false })
}

/** `accounts archive` */
export async function archiveAccount(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('DELETE', `/accounts/${segment(args)}`)
  print(args, data, () => accountCard(data))
}

async function changeAccount(admin: Admin, args: Arguments, change: object): Promise<void> {
  const { data } = await admin.ask('PATCH', `/accounts/${segment(args)}`, change)
  print(args, data, () => accountCard(data))
}

function accountCard(account: any): string {
  const { limits: _, spend, spend_cap, ...members } = account
  return card({ ...members, spend_month: spend.month, cap: capOf({ spend_cap }) })
}
