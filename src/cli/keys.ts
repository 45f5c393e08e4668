/** Commands over the secret and the limits of a key of a running gateway. */
import type { Admin } from './admin.ts'
import { CommandError, type Arguments } from './command.ts'
import { print, table } from './output.ts'
import { keyCard, segment } from './settings.ts'

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 }

/** `keys rotate`: prints the new secret, which cannot be read later. */
export async function rotateKey(admin: Admin, args: Arguments): Promise<void> {
  const overlap = args.text.overlap === undefined ? undefined : secondsOf(args.text.overlap)
  const answer = await admin.ask('POST', `/keys/${segment(args)}/rotate`, { overlap })
  print(args, answer, () => {
    const shown = 'The new secret is shown only now:'
    const { until } = answer.data.previous_secret
    return `${keyCard(answer.data)}The secret before works until ${until}.\n${shown}\n\n  ${answer.key}\n`
  })
}

export async function showLimits(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', `/keys/${segment(args)}/limits`)
  const rows = data.map((one: any) => [
    one.limit,
    one.value,
    one.source,
    one.used,
    one.left,
    one.resets_at,
  ])
  print(args, data, () => table(['LIMIT', 'VALUE', 'FROM', 'USED', 'LEFT', 'RESETS AT'], rows))
}

/** @throws CommandError for a text that is not a number of seconds, nor one with s, m, h or d */
function secondsOf(text: string): number {
  const [, digits, unit = 's'] = /^(\d{1,9})([smhd])?$/.exec(text) ?? []
  if (digits !== undefined) return Number(digits) * SECONDS[unit]!
  const message = `--overlap takes a time such as 7d, 12h or 3600, not ${JSON.stringify(text)}.`
  throw new CommandError(message, 2)
}
