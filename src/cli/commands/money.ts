/** Commands over accounts, teams and their money. */
import { ACCOUNT_SETTINGS } from '../../server/admin/resources/account.ts'
import { TEAM_SETTINGS } from '../../server/admin/resources/team.ts'
import { asked, calledOf, cardOf, changed, connected, list, whole } from '../asked.ts'
import type { Group, OptionSpecs } from '../command.ts'
import { card, cell } from '../output.ts'
import { capOf, changeIn, optionsOf, required, settingsIn, withQuery } from '../settings.ts'
import { statementText } from '../shown.ts'

const REFERENCE: OptionSpecs = {
  reference: { value: 'text', help: 'your own reference; one that exists is not booked again' },
}
const ID: OptionSpecs = { id: { value: 'id', help: 'its id (default: a generated one)' } }
const TEAM_OPTIONS: OptionSpecs = {
  name: { value: 'text', help: 'what it is called' },
  ...optionsOf(TEAM_SETTINGS),
}
const ACCOUNT_OPTIONS: OptionSpecs = {
  name: { value: 'text', help: 'its name' },
  ...optionsOf(ACCOUNT_SETTINGS),
}

const ofAccount = { arguments: ['account'], of: 'account' } as const
const ofTeam = { arguments: ['team'], of: 'team' } as const
const accountCard = cardOf(({ spend, ...account }) => ({
  spend: undefined,
  spend_cap: undefined,
  spend_month: spend.month,
  cap: capOf(account),
}))
const teamCard = cardOf(({ spend, limits, new_keys, ...team }) => ({
  spend: undefined,
  spend_cap: undefined,
  limits: limits && JSON.stringify(limits),
  new_keys: new_keys && JSON.stringify(new_keys),
  spend_month: spend.month,
  cap: capOf(team),
}))

/** The line of a booking, with the balance after it. */
const booked = (nothing: string) =>
  function text({ data }: any): string {
    const twice = data.duplicate
      ? `This reference was booked before; nothing was ${nothing}.\n`
      : ''
    return twice + card(data)
  }

export const MONEY: Group = {
  name: 'Accounts and money',
  page: 'keys-and-money',
  commands: [
    asked('accounts list', 'List the accounts.', {
      csv: true,
      all: true,
      ask: () => '/accounts',
      show: list(
        {
          ID: 'id',
          NAME: 'name',
          'BALANCE USD': 'balance_usd',
          TIER: ({ free_tier }) => (free_tier ? 'free' : 'paid'),
          KEYS: 'key_count',
        },
        ['TIER', 'KEYS'],
      ),
    }),
    asked('accounts create', 'Create an account.', {
      arguments: ['name'],
      options: ID,
      begins: true,
      example: 'accounts create "Acme Ltd" --id acme',
      ask: ({ positionals: [name], text: { id } }) => ['POST', '/accounts', { name, id }],
      show: ({ data }) => `Account ${calledOf(data)} created.\n`,
    }),
    asked('accounts show', 'Show an account.', {
      ...ofAccount,
      ask: (_, path) => path,
      show: accountCard,
    }),
    asked('accounts update', 'Change an account.', {
      ...ofAccount,
      options: ACCOUNT_OPTIONS,
      example: 'accounts update acme --cap 100/month',
      ask: (args, path) => ['PATCH', path, changeIn(args, ACCOUNT_SETTINGS, 'accounts update')],
      show: changed('Account', 'updated'),
    }),
    asked('accounts disable', 'Refuse all keys of an account.', {
      ...ofAccount,
      ask: (_, path) => ['PATCH', path, { disabled: true }],
      show: changed('Account', 'disabled'),
    }),
    asked('accounts enable', 'Accept the keys of a disabled account.', {
      ...ofAccount,
      ask: (_, path) => ['PATCH', path, { disabled: false }],
      show: changed('Account', 'enabled'),
    }),
    asked('accounts archive', 'Refuse an account and its keys for good; its history stays.', {
      ...ofAccount,
      final: (one) => `Account ${calledOf(one)} and its keys are refused for good. Archive it?`,
      ask: (_, path) => ['DELETE', path],
      show: changed('Account', 'archived'),
    }),
    asked('answers purge', 'Make all stored answers of an account unreadable.', {
      ...ofAccount,
      ask: (_, path) => ['DELETE', `${path}/answers`],
      show: changed('Stored answers of account', 'purged'),
    }),
    asked('teams list', 'List the teams.', {
      options: { account: { value: 'id', help: 'only those of one account' } },
      ask: (args) => withQuery('/teams', args, ['account']),
      show: list(
        {
          ID: 'id',
          ACCOUNT: 'account_id',
          NAME: 'name',
          STATE: 'state',
          KEYS: 'key_count',
          'SPEND THIS MONTH': 'spend.month',
        },
        ['KEYS'],
      ),
    }),
    asked('teams create', 'Create a team of an account.', {
      ...ofAccount,
      options: { ...ID, ...TEAM_OPTIONS },
      example: 'teams create acme --name Research',
      ask: (args, path) => {
        required(args, 'name', 'A team has a name')
        const body = { id: args.text.id, ...settingsIn(args, TEAM_SETTINGS) }
        return ['POST', `${path}/teams`, body]
      },
      show: ({ data }) => `Team ${calledOf(data)} created in account ${cell(data.account_id)}.\n`,
    }),
    asked('teams show', 'Show a team.', { ...ofTeam, ask: (_, path) => path, show: teamCard }),
    asked('teams update', 'Change a team.', {
      ...ofTeam,
      options: TEAM_OPTIONS,
      ask: (args, path) => ['PATCH', path, changeIn(args, TEAM_SETTINGS, 'teams update')],
      show: changed('Team', 'updated'),
    }),
    asked('teams disable', 'Refuse the keys of a team.', {
      ...ofTeam,
      ask: (_, path) => ['PATCH', path, { disabled: true }],
      show: changed('Team', 'disabled'),
    }),
    asked('teams enable', 'Accept the keys of a disabled team.', {
      ...ofTeam,
      ask: (_, path) => ['PATCH', path, { disabled: false }],
      show: changed('Team', 'enabled'),
    }),
    asked('teams archive', 'Refuse a team and its keys for good.', {
      ...ofTeam,
      final: (one) => `Team ${calledOf(one)} and its keys are refused for good. Archive it?`,
      ask: (_, path) => ['DELETE', path],
      show: changed('Team', 'archived'),
    }),
    asked('credits add', 'Put money on an account.', {
      arguments: ['account', 'usd'],
      of: 'account',
      options: {
        promo: { help: 'promotional credit, which was not paid for' },
        expires: {
          value: 'date',
          time: 'later',
          help: 'when what is left of it expires, such as 90d or 2027-01-31',
        },
        unlock: { help: 'with --promo: the account may use every model, as after a payment' },
        ...REFERENCE,
        note: { value: 'text', help: 'kept with the booking' },
      },
      example: 'credits add acme 25.00 --reference "invoice 17"',
      ask: ({ positionals: [, usd], text, on }, path) => {
        const { reference, note, expires: expires_at } = text
        const promo = on.has('promo') && { kind: 'promotional' }
        const unlock = on.has('unlock') && { unlock: true }
        return [
          'POST',
          `${path}/credits`,
          { usd, ...promo, expires_at, ...unlock, reference, note },
        ]
      },
      show: booked('added'),
    }),
    asked('credits adjust', 'Correct a balance.', {
      arguments: ['account', 'usd'],
      of: 'account',
      options: {
        reason: { value: 'text', help: 'why, kept with the booking (required)' },
        from: {
          value: 'block',
          help: 'of an amount below 0: the credit that it takes first, such as promo:spring',
        },
        ...REFERENCE,
      },
      example: 'credits adjust acme -2.50 --reason "charged twice"',
      final: (one, { positionals: [, usd = ''] }) =>
        usd.startsWith('-') ? `${usd.slice(1)} USD leave ${calledOf(one)}. Book it?` : undefined,
      ask: (args, path) => {
        const reason = required(args, 'reason', 'A correction says why')
        const { reference, from: takes_from } = args.text
        const body = { usd: args.positionals[1], reference, reason, takes_from }
        return ['POST', `${path}/adjust`, body]
      },
      show: booked('changed'),
    }),
    connected(
      'credits show',
      'Show the balance and the last rows of the ledger.',
      { arguments: ['account'] },
      async (admin, args) => (await import('../credits.ts')).showCredits(admin, args),
    ),
    asked('statement', 'Show a month of an account: bookings, usage, balances.', {
      ...ofAccount,
      csv: true,
      json: whole,
      options: { month: { value: 'month', help: 'such as 2026-10 (default: this one)' } },
      ask: (args, path) => withQuery(`${path}/statement`, args, ['month']),
      show: statementText,
    }),
  ],
}
