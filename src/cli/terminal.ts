/** Questions at the terminal, and secrets that no argument holds: other users of a machine read arguments. */
import { text as textOf } from 'node:stream/consumers'
import { CommandError, type Arguments } from './command.ts'

/**
 * Asks whether something final is to be done.
 * @param question the question with what it is done to, and its consequence
 * @throws CommandError for another answer than yes
 */
export async function confirm({ on }: Arguments, question: string): Promise<void> {
  if (on.has('yes')) return
  const answer = await askedFor(`${question} [y/N] `, false)
  if (!/^y(es)?$/i.test(answer.trim())) throw new CommandError('Nothing was changed.')
}

/** @throws CommandError without a terminal, where `--yes` is missing */
export function needYes({ on }: Arguments, command: string): void {
  if (on.has('yes') || process.stdin.isTTY) return
  throw new CommandError(`"${command}" is final: without a terminal it needs --yes.`, 2)
}

/** A secret from the terminal, which shows nothing of it, else from the standard input. */
export async function hiddenText(name: string): Promise<string> {
  return process.stdin.isTTY ? askedFor(`${name}: `, true) : (await textOf(process.stdin)).trim()
}

/** A line that is typed at the terminal. @param isHidden whether the terminal shows nothing of it */
export async function askedFor(prompt: string, isHidden: boolean): Promise<string> {
  const { stdin, stderr } = process
  stderr.write(prompt)
  stdin.setRawMode(isHidden)
  let text = ''
  try {
    for await (const chunk of stdin.iterator({ destroyOnReturn: false })) {
      for (const one of String(chunk)) {
        if (one === '\r' || one === '\n') return text
        if (one === '\u0003') throw new CommandError('Nothing was changed.')
        text = one === '\u007f' ? text.slice(0, -1) : text + one
      }
    }
    return text
  } finally {
    stdin.setRawMode(false)
    stdin.pause()
    if (isHidden) stderr.write('\n')
  }
}
