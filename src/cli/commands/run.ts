/** Commands that start a gateway, and ask whether it is well. */
import { CONFIG, connected, DATA, LOCAL } from '../asked.ts'
import type { Command, Group } from '../command.ts'
import { HEALTH } from '../health-command.ts'

const COMMANDS: readonly Command[] = [
  {
    name: 'serve',
    help: 'Start the gateway; the same without a command.',
    options: {
      port: { value: 'n', help: 'the port to listen on (default: as configured)' },
      host: { value: 'address', help: 'the address to listen on (default: as configured)' },
      ...DATA,
      ...CONFIG,
      demo: {
        value: 'seed',
        optional: true,
        help: 'with a month of invented calls, in a folder that goes with the process',
      },
      'print-key': { help: 'print the first key also where the output is no terminal' },
    },
    example: 'serve --port 8080',
    run: async (args) => (await import('../serve.ts')).serve(args),
  },
  HEALTH,
  {
    name: 'version',
    help: 'Print the versions of the gateway, Node.js and SQLite; also --version.',
    options: { json: LOCAL.json! },
    run: async (args) => (await import('../version.ts')).version(args),
  },
  {
    name: 'check',
    help: 'Validate configuration and plugins, and print the models.',
    options: {
      strict: { help: 'fail if there are warnings' },
      models: { help: 'a line for each model that comes with the key of a vendor, too' },
      ...LOCAL,
    },
    run: async (args) => (await import('../local.ts')).check(args),
  },
  {
    name: 'init',
    help: 'Write a gateway.config.yaml to start from, and an admin token into .env.',
    options: { force: { help: 'overwrite an existing file' }, json: LOCAL.json! },
    run: async (args) => (await import('../local.ts')).init(args),
  },
  {
    name: 'docs',
    help: 'List the pages of the manual, those with a word, or print one.',
    optional: 'page or word',
    options: { json: LOCAL.json! },
    example: 'docs quickstart',
    run: async (args) => (await import('../manual.ts')).showDocs(args),
  },
  connected(
    'console',
    'Print a link that signs in to the console once.',
    { options: { open: { help: 'open it in the browser of this machine, too' } } },
    async (admin, args) => (await import('../console-link.ts')).showConsole(admin, args),
  ),
]

export const RUN: Group = { name: 'Run', page: 'quickstart', commands: COMMANDS }
