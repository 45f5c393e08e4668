/** Commands that show and change one account or key of a running gateway. */
import { ACCOUNT_SETTINGS } from '../server/admin/resources/account.ts'
import { KEY_SETTINGS } from '../server/admin/resources/key.ts'
import type { Admin } from './admin.ts'
import { CommandError, type Arguments } from './command.ts'
import { card, print } from './output.ts'
import { capOf, keyCard, segment, settingsIn } from './settings.ts'

const NOUNS = {
  accounts: { settings: ACCOUNT_SETTINGS, cardOf: accountCard },
  keys: { settings: KEY_SETTINGS, cardOf: keyCard },
}

const asking =
  (
    noun: keyof typeof NOUNS,
    method: 'GET' | 'PATCH' | 'DELETE',
    bodyOf: (args: Arguments) => object | undefined = () => undefined,
  ) =>
  async (admin: Admin, args: Arguments): Promise<void> => {
    const { data } = await admin.ask(method, `/${noun}/${segment(args)}`, bodyOf(args))
    print(args, data, () => NOUNS[noun].cardOf(data))
  }

/** Changes the settings that options name. @throws CommandError if none is given */
const updating = (noun: keyof typeof NOUNS) =>
  asking(noun, 'PATCH', (args) => {
    const change = settingsIn(args, NOUNS[noun].settings)
    if (Object.values(change).some((value) => value !== undefined)) return change
    throw new CommandError(`Nothing to change: "${noun} update --help" lists the settings.`, 2)
  })

export const updateAccount = updating('accounts')
export const disableAccount = asking('accounts', 'PATCH', () => ({ disabled: true }))
export const enableAccount = asking('accounts', 'PATCH', () => ({ disabled: false }))
export const archiveAccount = asking('accounts', 'DELETE')
export const showKey = asking('keys', 'GET')
export const updateKey = updating('keys')
export const disableKey = asking('keys', 'PATCH', () => ({ disabled: true }))
export const enableKey = asking('keys', 'PATCH', () => ({ disabled: false }))
export const archiveKey = asking('keys', 'DELETE')

function accountCard(account: any): string {
  const { limits: _, spend, spend_cap, ...members } = account
  return card({ ...members, spend_month: spend.month, cap: capOf({ spend_cap }) })
}
