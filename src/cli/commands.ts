/** The table of all commands. Their code is imported when a command runs, so that `--help` is fast. */
import type { Command, Group } from './command.ts'
import { CALLS } from './commands/calls.ts'
import { CARE } from './commands/care.ts'
import { KEYS } from './commands/keys.ts'
import { MODELS } from './commands/models.ts'
import { MONEY } from './commands/money.ts'
import { MOVE } from './commands/move.ts'
import { PEOPLE } from './commands/people.ts'
import { PLUGINS } from './commands/plugins.ts'
import { POLICIES } from './commands/policies.ts'
import { RUN } from './commands/run.ts'

const COMPLETION: Command = {
  name: 'completion',
  help: 'Print a script that completes commands and options in a shell.',
  arguments: ['bash|zsh'],
  example: 'completion bash',
  run: async ({ positionals: [shell = ''] }) => {
    const { completion } = await import('./help.ts')
    process.stdout.write(completion(shell, COMMANDS))
  },
}

export const GROUPS: readonly Group[] = [
  { ...RUN, commands: [...RUN.commands, COMPLETION] },
  MONEY,
  KEYS,
  CALLS,
  MODELS,
  POLICIES,
  PEOPLE,
  CARE,
  MOVE,
  PLUGINS,
]

export const COMMANDS: readonly Command[] = GROUPS.flatMap(({ commands }) => commands)
