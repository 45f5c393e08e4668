/** The one command that runs every few seconds: it loads no package, and the table of the others loads some. */
import type { Command } from './command.ts'

export const HEALTH: Command = {
  name: 'health',
  help: 'Ask a running gateway whether it is ready; for supervisors.',
  options: {
    live: { help: 'only whether it answers' },
    url: {
      value: 'url',
      help: 'its address (default: SLUICEGATE_URL, else http://127.0.0.1:8787)',
    },
    timeout: { value: 'time', time: 'length', help: 'how long to wait (default: 5s)' },
  },
  example: 'health --timeout 2s',
  run: async (args) => (await import('./health.ts')).health(args),
}
