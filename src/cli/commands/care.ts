/** Commands that look after a gateway: its state, alerts, changes, settings and ledger. */
import { asked, cardOf, connected, list, RANGE } from '../asked.ts'
import { CommandError, type Group } from '../command.ts'
import { card, cell, table } from '../output.ts'
import { required, shown, withQuery } from '../settings.ts'
import { CHANGE, entryCommands, outcome } from './managed.ts'
import { sumOf } from './policies.ts'

const DAY = 86_400
const LINES = list(
  {
    AT: 'at',
    ACTOR: 'actor',
    ACTION: 'action',
    OBJECT: 'object',
    MEMBER: 'member',
    BEFORE: ({ before }) => shown(before),
    AFTER: ({ after }) => shown(after),
  },
  ['OBJECT'],
)
const SETTINGS = list({
  SETTING: 'path',
  VALUE: ({ value }) => shown(value),
  FROM: ({ origin: { from, file, name } }) => [from, file ?? name].filter(Boolean).join(' '),
})
const ALERTS = list(
  {
    SINCE: 'since',
    UNTIL: ({ ended_at }) => ended_at ?? 'active',
    ALERT: 'kind',
    OBJECT: 'object',
    MESSAGE: 'message',
    'MUTED UNTIL': 'muted_until',
    ID: 'id',
  },
  ['OBJECT', 'MUTED UNTIL', 'UNTIL'],
)

export const CARE: Group = {
  name: 'Look after it',
  page: 'operate/runbook',
  commands: [
    asked('gateways', 'List the gateways that share the state.', {
      ask: () => '/gateways',
      show: list(
        {
          ID: 'id',
          VERSION: 'version',
          SINCE: 'started_at',
          RUNNING: 'running',
          LEDGER: ({ ledger }) => (ledger.ok ? 'books' : 'cannot book'),
          LAG: 'usage_lag_rows',
          LOGGED: 'log.rows',
          DROPPED: ({ log }) => sumOf(Object.values(log?.dropped ?? {})),
        },
        ['LAG', 'LOGGED', 'VERSION'],
      ),
    }),
    asked('alerts list', 'List what is wrong, and what was.', {
      ask: () => '/alerts',
      show: ({ data, looked }) => {
        const text = data.length > 0 || looked.complete ? ALERTS({ data }) : ''
        if (looked.complete) return text
        return `${text}Still looking: ${cell(looked.done)} of ${cell(looked.of)} accounts and keys were looked at since the start.\n`
      },
    }),
    asked('alerts mute', 'Send nothing about an active alert for a while.', {
      arguments: ['alert'],
      of: 'alert',
      options: {
        for: { value: 'time', time: 'length', help: 'for how long, at most 30d (default: 1d)' },
        seconds: { value: 'n', time: 'length', help: 'the same, until 1.0' },
      },
      example: 'alerts mute al_0123 --for 4h',
      ask: ({ text }, path) => [
        'POST',
        `${path}/mute`,
        { seconds: Number(text.for ?? text.seconds ?? DAY) },
      ],
      show: ({ data }) => `Alert ${cell(data.id)} is muted until ${data.muted_until}.\n`,
    }),
    asked('audit list', 'List what was changed by the admin API, newest first.', {
      csv: true,
      options: {
        actor: { value: 'name', help: 'only changes by this token' },
        action: { value: 'action', help: 'only these, such as key.update' },
        object: { value: 'object', help: 'only those of one object, such as key:key_1' },
        ...RANGE,
        limit: { value: 'n', help: 'how many, from 1 to 200 (default: 50)' },
      },
      example: 'audit list --action key.update --from 7d',
      ask: (args) =>
        withQuery('/audit', args, ['actor', 'action', 'object', 'from', 'to'], {
          limit: args.text.limit ?? '50',
        }),
      show: ({ data }) =>
        LINES({
          data: data.flatMap(({ changes, ...entry }: any) =>
            changes.map((one: any, at: number) => (at === 0 ? { ...entry, ...one } : one)),
          ),
        }),
    }),
    asked('config show', 'Show the settings of the running gateway.', {
      options: { all: { help: 'those with their default too' } },
      ask: () => '/config',
      json: ({ data }, { on }) => settingsIn(data, on),
      show: ({ data }, { on }) => SETTINGS({ data: settingsIn(data, on) }),
    }),
    connected(
      'config export',
      'Print what was set up at run time as a configuration file.',
      {},
      async (admin, args) => (await import('../managed.ts')).exportConfig(admin, args),
    ),
    asked('config history', 'List the changes of what is set up at run time.', {
      ask: () => '/managed/history',
      show: list({ REVISION: 'revision', AT: 'at', BY: 'by', WHAT: 'summary' }),
    }),
    asked('config revert', 'Set up what was set up at a revision.', {
      arguments: ['revision'],
      options: { 'dry-run': CHANGE['dry-run']! },
      example: 'config revert 1 --dry-run',
      ask: ({ positionals: [to = ''], on }) => {
        if (!/^\d{1,15}$/.test(to))
          throw new CommandError(`A revision is a number, not ${JSON.stringify(to)}.`, 2)
        return ['POST', '/managed/revert', { to: Number(to), dry_run: on.has('dry-run') }]
      },
      show: outcome,
    }),
    asked('secret show', 'Show which key seals the secrets of the store, never the key.', {
      ask: () => '/secret',
      show: cardOf(),
    }),
    asked('secret rotate', 'Seal the secrets of the store with a new key.', {
      ask: () => ['POST', '/secret/rotate'],
      show: cardOf(),
    }),
    ...entryCommands('sinks', 'sink'),
    connected(
      'ledger verify',
      'Recompute all sums of the ledger and compare.',
      {
        options: {
          prices: { help: 'price every row again too, from its quantities' },
          chain: {
            help: 'recompute the chain of every account, and compare it with the seals of months',
          },
          export: {
            value: 'file',
            help: 'with --chain: the rows of an export instead of those of the ledger',
          },
          archive: {
            value: 'folder',
            help: 'with --chain: also the rows in an archive, which were folded since',
          },
          root: {
            value: 'hex',
            help: 'with --chain: a root of a month that was noted elsewhere',
          },
        },
        example: 'ledger verify --chain --archive archive',
      },
      async (admin, args) => (await import('../verify.ts')).verifyLedger(admin, args),
    ),
    asked('ledger orphans', 'List calls that were never settled, to compare with invoices.', {
      all: true,
      options: { account: { value: 'id', help: 'only those of one account' } },
      example: 'ledger orphans --account acme',
      ask: (args) => withQuery('/ledger/orphans', args, ['account']),
      show: list({ AT: 'at', ACCOUNT: 'account_id', KEY: 'key_id', REQUEST: 'request_id' }, [
        'ACCOUNT',
      ]),
    }),
    asked('ledger state', 'Show which ledger this is, and whether it is the one used until now.', {
      ask: () => '/ledger/state',
      show: ({ data: { doubt, missing, ...rest } }) => {
        const rows = missing.map((one: any) => [one.account_id, one.credits_usd, one.costs_usd])
        const lost =
          rows.length > 0 ? `\n${table(['LACKS', 'CREDITS USD', 'COSTS USD'], rows)}` : ''
        return card({ ...rest, doubt: doubt ? doubt.message : 'none' }) + lost
      },
    }),
    connected(
      'ledger missing',
      'Print bookings that the ledger has lost, for "ledger import".',
      {},
      async (admin, args) => (await import('../verify.ts')).printMissing(admin, args),
    ),
    connected(
      'ledger accept',
      'Go on with a ledger that is older, empty or another one.',
      { options: { yes: { help: 'do it without a question' } } },
      async (admin, args) => (await import('../verify.ts')).acceptLedger(admin, args),
    ),
    asked('ledger outbox', 'Show settlements that the ledger has not confirmed yet.', {
      ask: () => '/ledger/outbox',
      show: ({ data: { quarantined, ...counts } }) => {
        if (quarantined.length === 0) return card(counts)
        return `${card(counts)}\nQuarantined, for "ledger book" or "ledger drop":\n${QUARANTINED({ data: quarantined })}`
      },
    }),
    asked('ledger book', 'Book a quarantined settlement, which was not booked before.', {
      arguments: ['request'],
      example: 'ledger book req_01M836W9288QQ0XZ5GCMSVB8JC',
      ask: (_, path) => ['POST', `/ledger/outbox${path}/book`, {}],
      show: ({ data }, _, { id }) =>
        `${cell(id)} ${data.state === 'duplicate' ? 'was booked before' : 'is booked'}, with ${cell(data.cost_usd)} USD.\n`,
    }),
    asked('ledger drop', 'Give up a quarantined settlement, which was booked before.', {
      arguments: ['request'],
      options: { reason: { value: 'text', help: 'for the audit log (required)' } },
      example: 'ledger drop req_01M836W9288QQ0XZ5GCMSVB8JC --reason "booked before"',
      final: ({ id }) => `The settlement of ${id} is given up. Drop it?`,
      ask: (args, path) => {
        const reason = required(args, 'reason', 'Say why')
        return ['DELETE', `/ledger/outbox${path}`, { reason }]
      },
      show: (_, __, { id }) => `${cell(id)} is dropped; the log of the gateway has it.\n`,
    }),
  ],
}

const QUARANTINED = list({
  AT: 'at',
  ACCOUNT: 'account_id',
  REQUEST: 'request_id',
  COST: 'cost_usd',
})

function settingsIn(data: readonly any[], on: ReadonlySet<string>): readonly any[] {
  return on.has('all') ? data : data.filter(({ origin }) => origin.from !== 'default')
}
