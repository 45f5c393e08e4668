/** Commands over accounts and teams. */
import { ACCOUNT_SETTINGS } from '../../server/admin/resources/account.ts'
import { TEAM_SETTINGS } from '../../server/admin/resources/team.ts'
import { asked, calledOf, cardOf, changed, list, switches } from '../asked.ts'
import type { Command, OptionSpecs } from '../command.ts'
import { cell } from '../output.ts'
import { changeIn, limitsOf, optionsOf, required, settingsIn, withQuery } from '../settings.ts'

const ID: OptionSpecs = { id: { value: 'id', help: 'its id (default: a generated one)' } }
const TEAM_OPTIONS: OptionSpecs = {
  name: { value: 'text', help: 'what it is called' },
  ...optionsOf(TEAM_SETTINGS),
}
const ACCOUNT_OPTIONS: OptionSpecs = {
  name: { value: 'text', help: 'its name' },
  ...optionsOf(ACCOUNT_SETTINGS),
}

export const ofAccount = { arguments: ['account'], of: 'account' } as const
const ofTeam = { arguments: ['team'], of: 'team' } as const
const accountCard = cardOf(({ spend, ...account }) => ({
  spend: undefined,
  spend_cap: undefined,
  spend_month: spend.month,
  limits: limitsOf(account),
}))
const teamCard = cardOf(({ spend, new_keys, ...team }) => ({
  spend: undefined,
  spend_cap: undefined,
  new_keys: new_keys && JSON.stringify(new_keys),
  spend_month: spend.month,
  limits: limitsOf(team),
}))

export const ACCOUNTS: readonly Command[] = [
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
    example: 'accounts show acme',
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
  ...switches(
    'account',
    'trial',
    {
      disable: 'Refuse all keys of an account.',
      enable: 'Accept the keys of a disabled account.',
      archive: 'Refuse an account and its keys for good; its history stays.',
    },
    'and its keys are refused for good',
  ),
  asked('answers purge', 'Make all stored answers of an account unreadable.', {
    ...ofAccount,
    example: 'answers purge acme',
    ask: (_, path) => ['DELETE', `${path}/answers`],
    show: changed('Stored answers of account', 'purged'),
  }),
  asked('teams list', 'List the teams.', {
    options: { account: { value: 'id', help: 'only those of one account' } },
    example: 'teams list --account acme',
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
  asked('teams show', 'Show a team.', {
    ...ofTeam,
    example: 'teams show research',
    ask: (_, path) => path,
    show: teamCard,
  }),
  asked('teams update', 'Change a team.', {
    ...ofTeam,
    options: TEAM_OPTIONS,
    example: 'teams update research --cap 50/month',
    ask: (args, path) => ['PATCH', path, changeIn(args, TEAM_SETTINGS, 'teams update')],
    show: changed('Team', 'updated'),
  }),
  ...switches(
    'team',
    'research',
    {
      disable: 'Refuse the keys of a team.',
      enable: 'Accept the keys of a disabled team.',
      archive: 'Refuse a team and its keys for good.',
    },
    'and its keys are refused for good',
  ),
]
