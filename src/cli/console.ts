/** A link into the console of a running gateway. */
import type { Admin } from './admin.ts'
import { CommandError, type Arguments } from './command.ts'
import { print } from './output.ts'

/** `console`: prints a link that signs in once. @throws CommandError with `--data`, which serves no pages */
export async function showConsole(admin: Admin, args: Arguments): Promise<void> {
  if (args.text.data !== undefined) {
    throw new CommandError('The console is a page of a running gateway: use --url, not --data.', 2)
  }
  const { data } = await admin.ask('POST', '/session/once', {})
  const link = { url: `${admin.url}/console#token=${data.token}`, expires_at: data.expires_at }
  print(args, link, () => `${link.url}\nIt signs in once, until ${link.expires_at}.\n`)
}
