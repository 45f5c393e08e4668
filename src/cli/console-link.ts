/** `console`: a link into the console of a running gateway. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Admin } from './admin.ts'
import { CommandError, type Arguments } from './command.ts'
import { print } from './output.ts'

const OPENERS: Readonly<Partial<Record<NodeJS.Platform, readonly string[]>>> = {
  darwin: ['open'],
  // The first text in quotes would be the title of a window.
  win32: ['cmd', '/c', 'start', '""'],
}
const OPENER = ['xdg-open']

/** Prints a link that signs in once, and with `--open` opens it. @throws CommandError with `--data`, which serves no pages */
export async function showConsole(admin: Admin, args: Arguments): Promise<void> {
  if (args.text.data !== undefined) {
    throw new CommandError('The console is a page of a running gateway: use --url, not --data.', 2)
  }
  const { data } = await admin.ask('POST', '/session/once', {})
  const base = data.public_url ?? admin.url
  const link = { url: `${base}/console#token=${data.token}`, expires_at: data.expires_at }
  print(args, link, () => `${link.url}\nIt signs in once, until ${link.expires_at}.\n`)
  if (args.on.has('open')) await open(link.url)
}

/** @throws CommandError where no browser can be opened */
async function open(url: string): Promise<void> {
  const [command = '', ...before] = OPENERS[process.platform] ?? OPENER
  const child = spawn(command, [...before, url], { stdio: 'ignore', detached: true })
  child.unref()
  try {
    await once(child, 'spawn')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new CommandError(`No browser could be opened (${command}: ${code}). Open the link above.`)
  }
}
