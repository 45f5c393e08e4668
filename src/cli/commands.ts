/** The table of all commands. Their code is imported when a command runs, so that `--help` is fast. */
import { ACCOUNT_SETTINGS } from '../server/admin/resources/account.ts'
import { KEY_SETTINGS } from '../server/admin/resources/key.ts'
import { REQUEST_FILTERS } from '../server/admin/resources/request.ts'
import type { Settings } from '../server/admin/resources/settings.ts'
import { TEAM_SETTINGS } from '../server/admin/resources/team.ts'
import { USAGE_FILTERS } from '../server/admin/resources/usage.ts'
import type { Admin } from './admin.ts'
import type { Arguments, Command, OptionSpecs } from './command.ts'
import type { Noun } from './managed.ts'
import { HEALTH } from './health-command.ts'

// The commands for authors of plugins.

const JSON_OUTPUT: OptionSpecs = { json: { help: 'print JSON' } }
const OPTIONS: OptionSpecs = {
  options: { value: 'file or JSON', help: 'its options (default: an address and a key)' },
}
/** Options of tests that have one name only. */
const TESTING: OptionSpecs = {
  requests: {
    value: 'module',
    help: 'the form of requests of its vendor, for the difficult conversations',
  },
  ...OPTIONS,
  seed: { value: 'n', help: 'repeats the random parts of an earlier test' },
}
const ADDRESS = {
  value: 'name',
  help: 'the option that holds the address (default: baseURL, url or endpoint)',
}
const CASES = {
  value: 'folder',
  help: 'answers of its vendor or service, and what is expected (default: the folder beside it with its name, as acme.cases of acme.ts)',
}

/** `plugin …`, and `provider test`, its name until 1.0. */
const PLUGIN_COMMANDS: readonly Command[] = [
  {
    name: 'plugin new',
    help: 'Write a provider, guard, search engine or sink that passes its kit, to start from.',
    arguments: ['kind', 'name'],
    options: {
      style: {
        value: 'name',
        help: 'provider: sse, lines, whole, tools or images; guard: check, stream or remote',
      },
      package: { help: 'a folder that can be published as a package' },
      js: { help: 'JavaScript in place of TypeScript' },
      dir: { value: 'folder', help: 'where to write (default: here)' },
    },
    run: async (args) => (await import('./plugin/new.ts')).newPlugin(args),
  },
  {
    name: 'plugin test',
    help: 'Test a plugin in a process of its own, against a vendor or service on this machine.',
    arguments: ['plugin'],
    options: {
      cases: CASES,
      address: ADDRESS,
      only: { value: 'check', help: 'run the checks of this name only' },
      watch: { help: 'again whenever the plugin or its cases change' },
      ...TESTING,
      ...JSON_OUTPUT,
    },
    run: async (args) => (await import('./plugin/test.ts')).testOne(args),
  },
  {
    name: 'plugin dev',
    help: 'Serve a plugin on this machine, anew whenever it changes, and show what each call does.',
    arguments: ['file'],
    options: {
      live: { help: 'ask its real vendor or service, not the answers of its cases' },
      port: { value: 'n', help: 'the port to listen on (default: a free one)' },
      cases: CASES,
      address: ADDRESS,
      ...OPTIONS,
      quiet: { help: 'show the end of each call only' },
      stack: { help: 'show the whole stack of an error' },
    },
    run: async (args) => (await import('./plugin/dev.ts')).developPlugin(args),
  },
  {
    name: 'plugin record',
    help: 'Ask a real vendor or service once through a plugin, and write the answer as a case.',
    arguments: ['file'],
    options: {
      request: { value: 'file', help: 'what to ask, as JSON: a chat request, a query, or a text' },
      case: { value: 'name', help: 'name of the case' },
      cases: CASES,
      ...OPTIONS,
    },
    run: async (args) => (await import('./plugin/record.ts')).recordCase(args),
  },
  {
    name: 'plugin list',
    help: 'List built-in plugins, and packages with plugins that are found from here.',
    options: {
      config: { value: 'file', help: 'the configuration whose plugins are marked as used' },
      ...JSON_OUTPUT,
    },
    run: async (args) => (await import('./plugin/list.ts')).listPlugins(args),
  },
  {
    name: 'plugin show',
    help: 'Show the methods and the options of a plugin.',
    arguments: ['plugin'],
    options: {
      ...OPTIONS,
      markdown: { help: 'print Markdown, for the README of a package' },
      ...JSON_OUTPUT,
    },
    run: async (args) => (await import('./plugin/show.ts')).showPlugin(args),
  },
  {
    name: 'provider test',
    help: 'The same as plugin test, until 1.0.',
    arguments: ['plugin'],
    options: {
      transcripts: CASES,
      'base-url-option': ADDRESS,
      ...TESTING,
      ...JSON_OUTPUT,
    },
    run: async (args) => (await import('./plugin/test.ts')).testOne(args),
  },
]

const CONFIG: OptionSpecs = {
  config: {
    value: 'file',
    help: 'the configuration (default: gateway.config.* here or in config/)',
  },
}
const DATA: OptionSpecs = {
  data: { value: 'folder', help: 'the data folder (default: SLUICEGATE_DATA, else as configured)' },
}
const LOCAL: OptionSpecs = { ...CONFIG, ...JSON_OUTPUT }
/** Options of commands that talk to a running gateway, or open a data folder themselves. */
const REMOTE: OptionSpecs = {
  ...JSON_OUTPUT,
  url: { value: 'url', help: 'address of the gateway (default: as configured)' },
  token: {
    value: 'token',
    help: 'the admin token (default: SLUICEGATE_ADMIN_TOKEN, else as configured, else that of the data folder)',
  },
  data: {
    value: 'folder',
    help: 'open this data folder, while no gateway runs on it, instead of asking a gateway',
  },
  ...CONFIG,
}
const RANGE: OptionSpecs = {
  from: { value: 'moment', help: 'from this day or moment on, UTC' },
  to: { value: 'moment', help: 'before this day or moment, UTC' },
}
const CSV: OptionSpecs = { csv: { help: 'print CSV' } }
const ASK: OptionSpecs = { ask: { help: 'use remote guards too; the operator pays for them' } }
const SETTINGS = optionsOf(KEY_SETTINGS)
const LIMIT_VALUE = ['owner', 'limit', 'value']
const OF_MODELS: OptionSpecs = {
  models: { value: 'ids', help: 'the models that it is for, separated by commas (default: all)' },
}
const TEAM_OPTIONS: OptionSpecs = {
  name: { value: 'text', help: 'what it is called' },
  ...optionsOf(TEAM_SETTINGS),
}

const ACCOUNT_OPTIONS: OptionSpecs = {
  name: { value: 'text', help: 'its name' },
  ...optionsOf(ACCOUNT_SETTINGS),
}

const { key, account, model, status } = REQUEST_FILTERS

const TABLES = {
  value: 'folder',
  help: 'exports of its tables (.csv, .json, .jsonl), each known by its columns',
} as const
/** Options of every take-over of another gateway. */
const MIGRATION: OptionSpecs = {
  prices: {
    value: 'list',
    help: 'take prices that are missing from a public list: "fetch", a file or an https address',
  },
  out: {
    value: 'folder',
    help: 'write gateway.config.yaml, models.yaml and .env into this folder',
  },
  apply: { help: 'create the accounts and keys in a running gateway' },
  credits: { value: 'usd', help: 'with --apply: put so much on each account, once' },
  accept: {
    value: 'fields',
    help: 'restrictions, separated by commas, without which keys may be used',
  },
  all: { help: 'name what has no effect, too' },
  ...JSON_OUTPUT,
  url: REMOTE.url!,
  token: REMOTE.token!,
}

const EXPIRES = {
  value: 'date',
  help: 'its end: a date such as 2027-01-31, or a time from now on such as 30d; "none" removes it',
} as const
const SUBJECT = {
  value: 'id',
  help: 'only those of one actor, such as token:tok_0123456789abcdef',
} as const

// Vendors, models, search engines and sinks that are set up at run time.

const CHANGE: OptionSpecs = {
  'dry-run': { help: 'check everything, and change nothing' },
  note: { value: 'text', help: 'why, for the history' },
}
const ENTRY: OptionSpecs = {
  use: { value: 'plugin', help: 'a built-in plugin or a vendor, such as openai (required)' },
  set: { value: 'name=value', help: 'an option of it; may be repeated' },
  secret: {
    value: 'name=source',
    help: 'a secret option from standard input (=-), =env:NAME or =file:path; may be repeated',
  },
  ...CHANGE,
}
const MODEL: OptionSpecs = {
  deployment: { value: 'provider/model', help: 'where calls go; may be repeated' },
  price: {
    value: 'name=value',
    help: 'a price in USD per unit, such as prompt=0.0000025; may be repeated',
  },
  alias: { value: 'name', help: 'a further name; may be repeated' },
  name: { value: 'text', help: 'its name for people' },
  ...CHANGE,
}
const SERVED = {
  value: 'which',
  help: 'tests the vendor and serves its models: all, none, or names separated by commas',
} as const

/** The commands of one kind of entries. */
function entryCommands(noun: Noun, one: string): Command[] {
  const options = noun === 'models' ? MODEL : ENTRY
  const more: OptionSpecs = noun === 'providers' ? { models: SERVED } : {}
  const deployment = { deployment: { value: 'id', help: 'this one alone' } }
  return [
    ...(noun === 'models'
      ? []
      : [
          entry(
            `${noun} list`,
            `List each ${one} that was set up at run time.`,
            'listEntries',
            noun,
          ),
          entry(`${noun} show`, `Show one ${one}, without its secrets.`, 'showEntry', noun, [
            'name',
          ]),
        ]),
    entry(
      `${noun} add`,
      `Set up a ${one}: it serves at once, on all gateways.`,
      'addEntry',
      noun,
      ['name'],
      { ...options, ...more },
    ),
    entry(`${noun} update`, `Change a ${one}.`, 'updateEntry', noun, ['name'], options),
    entry(`${noun} remove`, `Remove a ${one}.`, 'removeEntry', noun, ['name'], CHANGE),
    entry(
      `${noun} test`,
      `Test a ${one}.`,
      'testEntry',
      noun,
      ['name'],
      noun === 'models' ? deployment : {},
    ),
  ]
}

type EntryCommand =
  | 'listEntries'
  | 'showEntry'
  | 'addEntry'
  | 'updateEntry'
  | 'removeEntry'
  | 'testEntry'

function entry(
  name: string,
  help: string,
  run: EntryCommand,
  noun: Noun,
  names: readonly string[] = [],
  options: OptionSpecs = {},
): Command {
  return connected(name, help, names, options, async (admin, args) =>
    (await import('./managed.ts'))[run](noun, admin, args),
  )
}

type LayerCommand =
  | 'listOffers'
  | 'exportConfig'
  | 'listHistory'
  | 'revertConfig'
  | 'showSecret'
  | 'rotateSecret'

function layer(
  name: string,
  help: string,
  run: LayerCommand,
  names: readonly string[] = [],
  options: OptionSpecs = {},
): Command {
  return connected(name, help, names, options, async (admin, args) =>
    (await import('./managed.ts'))[run](admin, args),
  )
}

export const COMMANDS: readonly Command[] = [
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
    run: async (args) => (await import('./serve.ts')).serve(args),
  },
  HEALTH,
  {
    name: 'version',
    help: 'Print the versions of the gateway, Node.js and SQLite; also --version.',
    options: JSON_OUTPUT,
    run: async (args) => (await import('./version.ts')).version(args),
  },
  {
    name: 'check',
    help: 'Validate configuration and plugins, and print the models.',
    options: {
      strict: { help: 'fail if there are warnings' },
      models: { help: 'a line for each model that comes with the key of a vendor, too' },
      ...LOCAL,
    },
    run: async (args) => (await import('./local.ts')).check(args),
  },
  {
    name: 'init',
    help: 'Write a gateway.config.yaml to start from, and an admin token into .env.',
    options: { force: { help: 'overwrite an existing file' }, ...JSON_OUTPUT },
    run: async (args) => (await import('./local.ts')).init(args),
  },
  remote('accounts list', 'List the accounts.', 'listAccounts', [], CSV),
  remote('accounts create', 'Create an account.', 'createAccount', ['name'], {
    id: { value: 'id', help: 'its id (default: a generated one)' },
  }),
  remote('accounts show', 'Show an account.', 'showAccount', ['account']),
  remote('accounts update', 'Change an account.', 'updateAccount', ['account'], ACCOUNT_OPTIONS),
  remote('accounts disable', 'Refuse all keys of an account.', 'disableAccount', ['account']),
  remote('accounts enable', 'Accept the keys of a disabled account.', 'enableAccount', ['account']),
  remote(
    'accounts archive',
    'Refuse an account and its keys for good; its history stays.',
    'archiveAccount',
    ['account'],
  ),
  remote('keys list', 'List the keys.', 'listKeys', [], {
    account: { value: 'id', help: 'only those of one account' },
    ...CSV,
  }),
  remote(
    'keys create',
    'Create a key and print its secret, which is shown only once.',
    'createKey',
    ['account'],
    {
      name: { value: 'text', help: 'its purpose (required)' },
      ...SETTINGS,
    },
  ),
  remote('keys show', 'Show a key.', 'showKey', ['key']),
  remote('keys update', 'Change a key.', 'updateKey', ['key'], {
    name: { value: 'text', help: 'its purpose' },
    ...SETTINGS,
  }),
  remote('keys disable', 'Refuse a key from now on.', 'disableKey', ['key']),
  remote('keys enable', 'Accept a disabled key again.', 'enableKey', ['key']),
  remote('keys rotate', 'Give a key another secret, and print it.', 'rotateKey', ['key'], {
    overlap: { value: 'time', help: 'how long the secret before works, such as 7d (default: 1d)' },
  }),
  remote('keys archive', 'Refuse a key for good; its history stays.', 'archiveKey', ['key']),
  remote(
    'limits show',
    'Show every limit of an owner and those above it, with their use.',
    'showLimits',
    ['owner'],
  ),
  remote(
    'limits set',
    'Set a limit, such as cap.week to 5.00.',
    'setLimit',
    LIMIT_VALUE,
    OF_MODELS,
  ),
  remote('limits clear', 'Remove a limit.', 'clearLimit', ['owner', 'limit'], OF_MODELS),
  remote(
    'limits raise',
    'Let a limit be higher for a while; "none" ends it.',
    'raiseLimit',
    LIMIT_VALUE,
    {
      until: { value: 'date or time', help: 'its end, such as 6h or 2027-01-31T00:00:00Z' },
      reason: { value: 'text', help: 'why, for the audit log' },
    },
  ),
  remote(
    'limits reset',
    'Begin to count anew in the present window.',
    'resetLimit',
    ['owner', 'limit'],
    {
      reason: { value: 'text', help: 'why, kept with the reset (required)' },
      reference: { value: 'text', help: 'your own reference; one that exists is not done again' },
    },
  ),
  remote('teams list', 'List the teams.', 'listTeams', [], {
    account: { value: 'id', help: 'only those of one account' },
  }),
  remote('teams create', 'Create a team of an account.', 'createTeam', ['account'], {
    id: { value: 'id', help: 'its id (default: a generated one)' },
    ...TEAM_OPTIONS,
  }),
  remote('teams show', 'Show a team.', 'showTeam', ['team']),
  remote('teams update', 'Change a team.', 'updateTeam', ['team'], TEAM_OPTIONS),
  remote('teams disable', 'Refuse the keys of a team.', 'disableTeam', ['team']),
  remote('teams enable', 'Accept the keys of a disabled team.', 'enableTeam', ['team']),
  remote('teams archive', 'Refuse a team and its keys for good.', 'archiveTeam', ['team']),
  remote('credits add', 'Put money on an account.', 'addCredits', ['account', 'usd'], {
    reference: { value: 'text', help: 'your own reference; one that exists is not booked again' },
    note: { value: 'text', help: 'kept with the booking' },
  }),
  remote('credits adjust', 'Correct a balance.', 'adjustCredits', ['account', 'usd'], {
    reason: { value: 'text', help: 'why, kept with the booking (required)' },
    reference: { value: 'text', help: 'your own reference; one that exists is not booked again' },
  }),
  remote('credits show', 'Show the balance and the last rows of the ledger.', 'showCredits', [
    'account',
  ]),
  {
    name: 'vendors',
    help: 'List the vendors that are known by name, and the variables of their keys.',
    options: JSON_OUTPUT,
    run: async (args) => (await import('./vendors.ts')).listVendors(args),
  },
  remote('models', 'List the models with their deployments and their health.', 'listModels', [], {
    vendor: { value: 'names', help: 'only those of these vendors, separated by commas' },
    find: { value: 'text', help: 'only those with this text in their id or another name' },
    used: { value: 'days', help: 'only those that were called lately, such as 30d' },
  }),
  remote('models show', 'Show a model, by any of its names.', 'showModel', ['model']),
  remote(
    'models unserved',
    'List names that clients ask for and that are not served, and what changes it.',
    'listUnserved',
  ),
  {
    name: 'models discover',
    help: 'Ask the vendors for their models, and compare them with those that are served.',
    optional: 'vendor',
    repeated: true,
    options: LOCAL,
    run: async (args) => (await import('./discover.ts')).discoverModels(args),
  },
  {
    name: 'models lint',
    help: 'Look for mistakes in the prices of the configuration, or of a price list.',
    optional: 'file',
    options: { strict: { help: 'fail if there are warnings' }, ...LOCAL },
    run: async (args) => (await import('./models.ts')).lintModels(args),
  },
  {
    name: 'models price',
    help: 'Show what a call would cost, line by line.',
    arguments: ['model'],
    options: {
      prompt: { value: 'n', help: 'tokens of the prompt' },
      cached: { value: 'n', help: 'tokens of it that are read from a cache' },
      completion: { value: 'n', help: 'tokens of the answer' },
      units: { value: 'n', help: 'images, pages, characters or seconds, as the model counts' },
      at: { value: 'time', help: 'when the call enters, such as "2027-01-31T00:00:00Z"' },
      ...LOCAL,
    },
    run: async (args) => (await import('./models.ts')).showPrice(args),
  },
  {
    name: 'models import',
    help: 'Compare prices.json with public price lists; with --write take their prices over.',
    options: {
      from: { value: 'list', help: 'a list by name, a file or an https address; may be repeated' },
      format: { value: 'name', help: 'the form of a file (default: what it looks like)' },
      only: { value: 'models', help: 'only these, such as "openai/*"; may be repeated' },
      accept: {
        value: 'model[:price]',
        help: 'take over what was held back; may be repeated',
      },
      output: { value: 'file', help: 'the list to change (default: prices.json)' },
      write: { help: 'write the list; without it nothing is changed' },
      ...LOCAL,
    },
    run: async (args) => (await import('./import-prices.ts')).importPrices(args),
  },
  remote(
    'policy test',
    'Test a policy on texts: the verdict of every rule.',
    'testPolicy',
    ['policy'],
    {
      input: { value: 'text', help: 'a text of a user; "@file" reads a file' },
      output: { value: 'text', help: 'a text of a model; "@file" reads a file' },
      ...ASK,
      cases: { value: 'file', help: 'lines of JSON with texts and the verdicts to expect' },
    },
  ),
  remote('policy diff', 'Compare two policies.', 'diffPolicies', ['from', 'to']),
  remote(
    'policy replay',
    'Try a policy on calls whose contents were kept.',
    'replayPolicy',
    ['policy'],
    {
      key: { value: 'id', help: 'only calls of this key' },
      ...RANGE,
      limit: { value: 'n', help: 'how many calls, up to 200 (default: 50)' },
      ...ASK,
    },
  ),
  remote('guard', 'Show what guards decided, and how they work.', 'showGuard', [], {
    ...RANGE,
    account: { value: 'id', help: 'only for keys of this account' },
    key: { value: 'id', help: 'only for this key' },
  }),
  remote('gateways', 'List the gateways that share the state.', 'listGateways'),
  remote('config show', 'Show the settings of the running gateway.', 'showConfig', [], {
    all: { help: 'those with their default too' },
  }),
  layer(
    'config export',
    'Print what was set up at run time as a configuration file.',
    'exportConfig',
  ),
  layer('config history', 'List the changes of what is set up at run time.', 'listHistory'),
  layer('config revert', 'Set up what was set up at a revision.', 'revertConfig', ['revision'], {
    'dry-run': CHANGE['dry-run']!,
  }),
  ...entryCommands('providers', 'provider'),
  layer('providers offers', 'List the models of a vendor, with their prices.', 'listOffers', [
    'name',
  ]),
  ...entryCommands('models', 'model'),
  ...entryCommands('engines', 'search engine'),
  ...entryCommands('sinks', 'sink'),
  layer(
    'secret show',
    'Show which key seals the secrets of the store, never the key.',
    'showSecret',
  ),
  layer('secret rotate', 'Seal the secrets of the store with a new key.', 'rotateSecret'),
  remote('requests list', 'List the last calls, newest first.', 'listRequests', [], {
    ...REQUEST_FILTERS,
    ...RANGE,
    limit: { value: 'n', help: 'how many, from 1 to 200 (default: 50)' },
    csv: { help: 'print all of them that have ended, as CSV' },
  }),
  remote(
    'requests show',
    'Show everything that is known of one call.',
    'showRequest',
    ['request'],
    {
      bill: { help: 'which quantity was charged at which price' },
    },
  ),
  remote('requests tail', 'Print a line for each call that ends.', 'tailRequests', [], {
    key,
    account,
    model,
    status,
  }),
  remote('requests end', 'End a running call.', 'endRequest', ['request']),
  remote('usage', 'Show who used what: calls, cost and tokens.', 'showUsage', [], {
    from: { value: 'moment', help: 'from this day or moment on, UTC (default: seven days ago)' },
    to: { value: 'moment', help: 'before this day or moment, UTC' },
    by: { value: 'groups', help: 'up to two of account, key, model, deployment, tag, user, …' },
    rollup: { value: 'span', help: 'hour, day or month' },
    metric: { value: 'name', help: 'what groups are ranked by (default: cost_usd)' },
    top: { value: 'n', help: 'groups that are kept apart (default: 20)' },
    ...USAGE_FILTERS,
    ...CSV,
  }),
  remote('usage verify', 'Add usage up again, and compare it with the ledger.', 'verifyUsage'),
  remote('usage rebuild', 'Make usage anew from the ledger.', 'rebuildUsage'),
  remote(
    'statement',
    'Show a month of an account: bookings, usage, balances.',
    'showStatement',
    ['account'],
    {
      month: { value: 'month', help: 'such as 2026-10 (default: this one)' },
      ...CSV,
    },
  ),
  remote('console', 'Print a link that signs in to the console once.', 'showConsole', [], {
    open: { help: 'open it in the browser of this machine, too' },
  }),
  remote('tokens list', 'List the tokens of the admin API, without their secrets.', 'listTokens'),
  remote(
    'tokens create',
    'Make a token of the admin API and print it; it is shown only once.',
    'createToken',
    ['name'],
    {
      role: { value: 'role', help: 'admin, operator, billing or viewer (required)' },
      expires: EXPIRES,
    },
  ),
  remote('tokens update', 'Change a token.', 'updateToken', ['token'], {
    name: { value: 'text', help: 'its name' },
    role: { value: 'role', help: 'admin, operator, billing or viewer' },
    expires: EXPIRES,
  }),
  remote('tokens end', 'Refuse a token and its sessions from now on.', 'endToken', ['token']),
  remote('sessions list', 'List who is signed in.', 'listSessions', [], { subject: SUBJECT }),
  {
    ...remote('sessions end', 'End a session, or all sessions of one person.', 'endSessions', [], {
      all: { help: 'all sessions of --subject, by default your own' },
      subject: SUBJECT,
    }),
    optional: 'session',
  },
  remote('whoami', 'Show the name, the role and the rights of your token.', 'showSelf'),
  remote('alerts list', 'List what is wrong, and what was.', 'listAlerts'),
  remote('alerts mute', 'Tell nothing of an active alert for a while.', 'muteAlert', ['alert'], {
    seconds: { value: 'n', help: 'for how long, at most 2592000 (default: a day)' },
  }),
  remote('audit list', 'List what was changed by the admin API, newest first.', 'listChanges', [], {
    actor: { value: 'name', help: 'only changes by this token' },
    action: { value: 'action', help: 'only these, such as key.update' },
    object: { value: 'object', help: 'only those of one object, such as key:key_1' },
    ...RANGE,
    limit: { value: 'n', help: 'how many, from 1 to 200 (default: 50)' },
    csv: { help: 'print all of them as CSV' },
  }),
  remote('ledger verify', 'Recompute all sums of the ledger and compare.', 'verifyLedger', [], {
    prices: { help: 'price every row again too, from its quantities' },
    chain: {
      help: 'recompute the chain of every account, and compare it with the seals of months',
    },
    export: {
      value: 'file',
      help: 'with --chain: the rows of an export instead of those of the ledger',
    },
    root: { value: 'hex', help: 'with --chain: a root of a month that was noted elsewhere' },
  }),
  remote(
    'ledger orphans',
    'List calls that were never settled, to compare with invoices.',
    'listOrphans',
    [],
    {
      account: { value: 'id', help: 'only those of one account' },
    },
  ),
  remote(
    'ledger state',
    'Show which ledger this is, and whether it is the one used until now.',
    'showLedger',
  ),
  remote(
    'ledger missing',
    'Print bookings that the ledger has lost and this gateway knows, as a file for "ledger import".',
    'printMissing',
  ),
  remote(
    'ledger accept',
    'Go on with a ledger that is older, empty or another one.',
    'acceptLedger',
  ),
  remote('ledger outbox', 'Show settlements that the ledger has not confirmed yet.', 'showOutbox'),
  remote(
    'ledger book',
    'Book a settlement that is quarantined in the outbox: it was not booked before.',
    'bookWaiting',
    ['request'],
  ),
  remote(
    'ledger drop',
    'Give up a settlement that is quarantined in the outbox: it was booked before.',
    'dropWaiting',
    ['request'],
    { reason: { value: 'text', help: 'for the audit log (required)' } },
  ),
  {
    name: 'import litellm',
    help: 'Take over the configuration and the keys of a LiteLLM proxy.',
    options: {
      config: { value: 'file', help: 'its configuration, as YAML or JSON (required)' },
      tables: TABLES,
      keys: { value: 'file', help: 'an export of its table of keys: .csv, .json or .jsonl' },
      teams: { value: 'file', help: 'an export of its table of teams' },
      organizations: { value: 'file', help: 'an export of its table of organizations' },
      users: { value: 'file', help: 'an export of its table of users' },
      groups: { value: 'file', help: 'an export of its table of access groups' },
      budgets: { value: 'file', help: 'an export of its table of budgets' },
      ...MIGRATION,
    },
    run: async (args) => {
      const { default: source } = await import('../../plugins/import/litellm.ts')
      await (await import('./import/command.ts')).importFrom(source, args)
    },
  },
  {
    name: 'import bifrost',
    help: 'Take over the providers and the virtual keys of Bifrost.',
    options: {
      config: { value: 'file', help: 'its config.json (required)' },
      ...MIGRATION,
    },
    run: async (args) => {
      const { default: source } = await import('../../plugins/import/bifrost.ts')
      await (await import('./import/command.ts')).importFrom(source, args)
    },
  },
  {
    name: 'import new-api',
    help: 'Take over the channels, users and tokens of new-api or one-api.',
    options: {
      tables: TABLES,
      channels: { value: 'file', help: 'an export of its table of channels' },
      tokens: { value: 'file', help: 'an export of its table of tokens' },
      users: { value: 'file', help: 'an export of its table of users' },
      options: { value: 'file', help: 'an export of its table of options' },
      ...MIGRATION,
    },
    run: async (args) => {
      const { default: source } = await import('../../plugins/import/new-api.ts')
      await (await import('./import/command.ts')).importFrom(source, args)
    },
  },
  {
    name: 'ledger export',
    help: 'Write accounts, keys and ledger as lines of JSON, while no gateway runs.',
    options: {
      out: { value: 'file', help: 'write to this file instead of standard output' },
      format: { value: 'n', help: '1 for what releases before schema 9 read (default: 2)' },
      ...DATA,
      ...LOCAL,
    },
    run: async (args) => (await import('./ledger.ts')).exportLedger(args),
  },
  {
    name: 'ledger import',
    help: 'Read an export, while no gateway runs. May be repeated.',
    arguments: ['file'],
    options: { ...DATA, ...LOCAL },
    run: async (args) => (await import('./ledger.ts')).importLedger(args),
  },
  {
    name: 'ledger compact',
    help: 'Fold old rows into daily totals and shrink the file, while no gateway runs. It needs as much free room as the file takes.',
    options: {
      before: {
        value: 'day',
        help: 'fold what is older than this day; default: state.retention. The last day folded is two days before',
      },
      ...DATA,
      ...LOCAL,
    },
    run: async (args) => (await import('./ledger.ts')).compactLedger(args),
  },
  {
    name: 'ledger unsent',
    help: 'Print what gateways that have ended left in the outbox, as a file for "ledger import".',
    options: { ...DATA, ...LOCAL },
    run: async (args) => (await import('./ledger.ts')).unsentSettlements(args),
  },
  {
    name: 'ledger send',
    help: 'Deliver what gateways that have ended left in the outbox, and exit.',
    options: { ...DATA, ...LOCAL },
    run: async (args) => (await import('./ledger.ts')).sendOutbox(args),
  },
  {
    name: 'ledger new',
    help: 'Begin a new ledger in a folder whose ledger is gone. What is there is kept under another name.',
    options: {
      discard: {
        value: 'identity',
        help: 'the ledger that is given up; the refused start names it',
      },
      ...DATA,
      ...LOCAL,
    },
    run: async (args) => (await import('./ledger.ts')).newLedger(args),
  },
  ...PLUGIN_COMMANDS,
]

type RemoteName = keyof typeof import('./remote.ts')

function remote(
  name: string,
  help: string,
  run: RemoteName,
  names: readonly string[] = [],
  options: OptionSpecs = {},
): Command {
  const begins = run === 'createAccount'
  return connected(
    name,
    help,
    names,
    options,
    async (admin, args) => (await import('./remote.ts'))[run](admin, args),
    begins,
  )
}

/** A command that asks a gateway. @param begins whether it begins a ledger where there is none */
function connected(
  name: string,
  help: string,
  names: readonly string[],
  options: OptionSpecs,
  run: (admin: Admin, args: Arguments) => Promise<void>,
  begins = false,
): Command {
  return {
    name,
    help,
    arguments: names,
    options: { ...options, ...REMOTE },
    run: async (args) => {
      const admin = await (await import('./admin.ts')).connect(args, begins)
      try {
        await run(admin, args)
      } finally {
        await admin.close()
      }
    },
  }
}

function optionsOf(settings: Settings): OptionSpecs {
  const options = Object.values(settings).flatMap(({ option }) => option ?? [])
  return Object.fromEntries(options.map(({ name, value, help }) => [name, { value, help }]))
}
