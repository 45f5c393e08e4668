/** Every command there is. What runs them is imported when it is needed: `--help` should not start a gateway. */
import type { Arguments, Command, OptionSpecs } from './command.ts'

const CONFIG: OptionSpecs = {
  config: {
    value: 'file',
    help: 'the configuration (default: gateway.config.* here or in config/)',
  },
}
const JSON_OUTPUT: OptionSpecs = { json: { help: 'print JSON' } }
const LOCAL: OptionSpecs = { ...CONFIG, ...JSON_OUTPUT }
/** Commands that talk to a running gateway. */
const REMOTE: OptionSpecs = {
  ...JSON_OUTPUT,
  url: { value: 'url', help: 'where the gateway answers (default: as configured)' },
  token: {
    value: 'token',
    help: 'the admin token (default: SLUICEGATE_ADMIN_TOKEN, else as configured)',
  },
  ...CONFIG,
}
/** Settings of a key. */
const SETTINGS: OptionSpecs = {
  rpm: { value: 'n', help: 'requests per minute; "none" for the default' },
  concurrency: { value: 'n', help: 'calls at once; "none" for the default' },
  cap: { value: 'usd[/day|/month]', help: 'spend cap such as 5.00/month, or for good; "none"' },
  expires: { value: 'date', help: 'when it ends, such as 2027-01-31T00:00:00Z; "none"' },
  models: { value: 'ids', help: 'models it may use, separated by commas; "none" for all' },
  policy: { value: 'file', help: 'a JSON file with its policy; "none"' },
}

export const COMMANDS: readonly Command[] = [
  {
    name: 'serve',
    help: 'Start the gateway.',
    options: {
      port: { value: 'n', help: 'listen there instead of where the configuration says' },
      host: { value: 'address', help: 'the address to listen on' },
      ...CONFIG,
    },
    run: async (args) => (await import('./serve.ts')).serve(args),
  },
  {
    name: 'check',
    help: 'Validate configuration and plugins, and print the models.',
    options: LOCAL,
    run: async (args) => (await import('./local.ts')).check(args),
  },
  {
    name: 'init',
    help: 'Write a gateway.config.yaml to start from, and an admin token into .env.',
    options: { force: { help: 'overwrite what is there' }, ...JSON_OUTPUT },
    run: async (args) => (await import('./local.ts')).init(args),
  },
  remote('accounts list', 'List the accounts.', 'listAccounts'),
  remote('accounts create', 'Create an account.', 'createAccount', ['name'], {
    id: { value: 'id', help: 'its id; one is made without' },
  }),
  remote('accounts show', 'Show an account.', 'showAccount', ['account']),
  remote('keys list', 'List the keys.', 'listKeys', [], {
    account: { value: 'id', help: 'only those of one account' },
  }),
  remote('keys create', 'Create a key, and print it once.', 'createKey', ['account'], {
    name: { value: 'text', help: 'what it is for (required)' },
    ...SETTINGS,
  }),
  remote('keys show', 'Show a key.', 'showKey', ['key']),
  remote('keys update', 'Change a key.', 'updateKey', ['key'], {
    name: { value: 'text', help: 'what it is for' },
    ...SETTINGS,
  }),
  remote('keys disable', 'Refuse a key from now on.', 'disableKey', ['key']),
  remote('keys enable', 'Accept a disabled key again.', 'enableKey', ['key']),
  remote('credits add', 'Put money on an account.', 'addCredits', ['account', 'usd'], {
    reference: { value: 'text', help: 'of your own: the same one is never booked twice' },
    note: { value: 'text', help: 'kept with the booking' },
  }),
  remote('credits show', 'Show balance and last bookings.', 'showCredits', ['account']),
  remote('models', 'List the models with their deployments and how these are.', 'listModels'),
  remote(
    'policy test',
    'Try a policy on texts: what every rule says, and where.',
    'testPolicy',
    ['policy'],
    {
      input: { value: 'text', help: 'what a user might ask; "@file" reads a file' },
      output: { value: 'text', help: 'what a model might answer; "@file" reads a file' },
      ask: { help: 'ask models and services, too, at the operator’s expense' },
    },
  ),
  remote('ledger verify', 'Add the ledger up again and compare.', 'verifyLedger'),
  remote(
    'ledger orphans',
    'List calls that were never settled, to compare with bills.',
    'listOrphans',
    [],
    {
      account: { value: 'id', help: 'only those of one account' },
    },
  ),
  remote('ledger outbox', 'Show what the ledger has not confirmed yet.', 'showOutbox'),
  {
    name: 'ledger export',
    help: 'Write accounts, keys and ledger as lines of JSON, while no gateway runs.',
    options: { out: { value: 'file', help: 'write there instead of printing' }, ...LOCAL },
    run: async (args) => (await import('./ledger.ts')).exportLedger(args),
  },
  {
    name: 'ledger import',
    help: 'Take such lines in, while no gateway runs; twice does no harm.',
    arguments: ['file'],
    options: LOCAL,
    run: async (args) => (await import('./ledger.ts')).importLedger(args),
  },
  {
    name: 'provider test',
    help: 'Test a provider plugin against a vendor of this machine.',
    arguments: ['plugin'],
    options: {
      transcripts: { value: 'folder', help: 'what its vendor says, and what should come of it' },
      options: { value: 'file or JSON', help: 'its options; by default the address and a key' },
      'base-url-option': {
        value: 'name',
        help: 'the option that holds the address (default: baseURL, url or endpoint)',
      },
      seed: { value: 'n', help: 'repeats what was random' },
      ...JSON_OUTPUT,
    },
    run: async (args) => (await import('./provider.ts')).testOne(args),
  },
]

/** Names of functions in `remote.ts` that run commands. */
type RemoteName = Exclude<keyof typeof import('./remote.ts'), 'connect'>

function remote(
  name: string,
  help: string,
  run: RemoteName,
  names: readonly string[] = [],
  options: OptionSpecs = {},
): Command {
  return {
    name,
    help,
    arguments: names,
    options: { ...options, ...REMOTE },
    run: async (args: Arguments) => {
      const commands = await import('./remote.ts')
      await commands[run](await commands.connect(args), args)
    },
  }
}
