/** Commands that move a ledger, or take over another gateway. */
import { DATA, LOCAL, REMOTE } from '../asked.ts'
import type { Command, Group, OptionSpecs } from '../command.ts'

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
  json: REMOTE.json!,
  url: REMOTE.url!,
  token: REMOTE.token!,
}

const COMMANDS: readonly Command[] = [
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
    example: 'import litellm --config config.yaml --keys keys.csv --out gateway',
    run: async (args) => {
      const { default: source } = await import('../../../plugins/import/litellm.ts')
      await (await import('../import/command.ts')).importFrom(source, args)
    },
  },
  {
    name: 'import bifrost',
    help: 'Take over the providers and the virtual keys of Bifrost.',
    options: {
      config: { value: 'file', help: 'its config.json (required)' },
      ...MIGRATION,
    },
    example: 'import bifrost --config config.json --out gateway',
    run: async (args) => {
      const { default: source } = await import('../../../plugins/import/bifrost.ts')
      await (await import('../import/command.ts')).importFrom(source, args)
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
    example: 'import new-api --tables tables --out gateway',
    run: async (args) => {
      const { default: source } = await import('../../../plugins/import/new-api.ts')
      await (await import('../import/command.ts')).importFrom(source, args)
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
    example: 'ledger export --out ledger.jsonl',
    run: async (args) => (await import('../ledger.ts')).exportLedger(args),
  },
  {
    name: 'ledger import',
    help: 'Read an export, or what a log has, while no gateway runs. May be repeated.',
    arguments: ['file'],
    options: { ...DATA, ...LOCAL },
    example: 'ledger import ledger.jsonl',
    run: async (args) => (await import('../ledger.ts')).importLedger(args),
  },
  {
    name: 'ledger compact',
    help: 'Fold old rows and shrink the file of the ledger, while no gateway runs.',
    options: {
      before: {
        value: 'day',
        help: 'fold what is older than this day; default: state.retention. The last day folded is two days before',
      },
      yes: { help: 'do it without a question' },
      ...DATA,
      ...LOCAL,
    },
    example: 'ledger compact --before 2026-01-01',
    run: async (args) => (await import('../ledger.ts')).compactLedger(args),
  },
  {
    name: 'ledger unsent',
    help: 'Print what ended gateways left in the outbox, for "ledger import".',
    options: { ...DATA, ...LOCAL },
    run: async (args) => (await import('../ledger.ts')).unsentSettlements(args),
  },
  {
    name: 'ledger send',
    help: 'Deliver what gateways that have ended left in the outbox, and exit.',
    options: { ...DATA, ...LOCAL },
    run: async (args) => (await import('../ledger.ts')).sendOutbox(args),
  },
  {
    name: 'ledger new',
    help: 'Begin a new ledger where it is gone; what is there gets another name.',
    options: {
      discard: {
        value: 'identity',
        help: 'the ledger that is given up; the refused start names it',
      },
      ...DATA,
      ...LOCAL,
    },
    example: 'ledger new --discard ledger_0123456789abcdef01234567',
    run: async (args) => (await import('../ledger.ts')).newLedger(args),
  },
]

export const MOVE: Group = { name: 'Move', page: 'operate/backup', commands: COMMANDS }
