/** Commands over people: tokens of the admin API, sessions, and members of accounts. */
import { asked, calledOf, changed, list, secretBelow, switches, whole } from '../asked.ts'
import { CommandError, type Group } from '../command.ts'
import { card } from '../output.ts'
import { momentIn, required, withQuery } from '../settings.ts'

const EXPIRES = {
  value: 'date',
  time: 'later',
  help: 'its end: a date such as 2027-01-31, or a time from now on such as 30d; "none" removes it',
} as const
const SUBJECT = {
  value: 'id',
  help: 'only those of one actor, such as token:tok_0123456789abcdef',
} as const
const ROLES = 'admin, operator, billing or viewer'

const ofMember = { arguments: ['member'], of: 'member' } as const

/** A sentence with the link of an invitation below it. */
function linkBelow(sentence: string, { link, expires_at }: any): string {
  return `${sentence}The link works once, until ${expires_at}:\n\n  ${link}\n`
}

export const PEOPLE: Group = {
  name: 'People',
  page: 'operate/sign-in',
  commands: [
    asked('tokens list', 'List the tokens of the admin API, without their secrets.', {
      ask: () => '/tokens',
      show: list(
        {
          ID: 'id',
          NAME: 'name',
          ROLE: 'role',
          FROM: 'source',
          TOKEN: 'start',
          'MADE BY': 'created_by',
          EXPIRES: 'expires_at',
          'LAST USED': 'used_at',
        },
        ['MADE BY', 'FROM', 'LAST USED', 'TOKEN', 'EXPIRES'],
      ),
    }),
    asked('tokens create', 'Make a token of the admin API and print it; it is shown only once.', {
      arguments: ['name'],
      json: whole,
      options: { role: { value: 'role', help: `${ROLES} (required)` }, expires: EXPIRES },
      example: 'tokens create ci --role viewer --expires 30d',
      ask: (args) => {
        const role = required(args, 'role', `A token has one of the roles ${ROLES}`)
        const body = { name: args.positionals[0], role, expires_at: momentIn(args, 'expires') }
        return ['POST', '/tokens', body]
      },
      show: (answer) => secretBelow(changed('Token', 'created')(answer), answer.token),
    }),
    asked('tokens update', 'Change a token.', {
      arguments: ['token'],
      of: 'token',
      options: {
        name: { value: 'text', help: 'its name' },
        role: { value: 'role', help: ROLES },
        expires: EXPIRES,
      },
      example: 'tokens update ci --role operator',
      ask: (args, path) => {
        const { name, role } = args.text
        const body = { name, role, expires_at: momentIn(args, 'expires') }
        if (Object.values(body).some((value) => value !== undefined)) return ['PATCH', path, body]
        throw new CommandError('Nothing to change: "tokens update --help" lists the settings.', 2)
      },
      show: changed('Token', 'updated'),
    }),
    asked('tokens end', 'Refuse a token and its sessions from now on.', {
      arguments: ['token'],
      of: 'token',
      example: 'tokens end ci',
      final: (one) => `Token ${calledOf(one)} and its sessions end for good. End it?`,
      ask: (_, path) => ['DELETE', path],
      show: ({ data }) => `The token ${data.name} and its sessions have ended.\n`,
    }),
    asked('sessions list', 'List who is signed in.', {
      options: { subject: SUBJECT },
      example: 'sessions list --subject token:tok_0123456789abcdef',
      ask: (args) => withQuery('/sessions', args, ['subject']),
      show: list(
        {
          ID: 'id',
          WHO: 'subject',
          BY: 'how',
          SINCE: 'created_at',
          'LAST USED': 'seen_at',
          ENDS: 'ends_at',
          ADDRESS: 'address',
          BROWSER: 'agent',
        },
        ['BROWSER', 'ADDRESS', 'ENDS', 'BY'],
      ),
    }),
    asked('sessions end', 'End a session, or all sessions of one person.', {
      optional: 'session',
      options: {
        all: { help: 'all sessions of --subject, by default your own' },
        subject: SUBJECT,
      },
      example: 'sessions end --all --subject token:tok_0123456789abcdef',
      ask: (args, path) => {
        const [session] = args.positionals
        const isOne = session !== undefined
        if (isOne === args.on.has('all') || (isOne && args.text.subject !== undefined)) {
          throw new CommandError('Name a session, or --all with --subject <id>.', 2)
        }
        const all = withQuery('/sessions', args, ['subject'])
        return ['DELETE', isOne ? `/sessions${path}` : all]
      },
      show: ({ data }) => `Sessions that have ended: ${data.ended.length}.\n`,
    }),
    asked('members list', 'List the members of all accounts, or of one.', {
      options: {
        account: { value: 'id', help: 'only those of this account and its teams' },
        team: { value: 'id', help: 'only those of this team' },
      },
      example: 'members list --account acme',
      ask: (args) => withQuery('/members', args, ['account', 'team']),
      show: list(
        {
          ID: 'id',
          NAME: 'name',
          ACCOUNT: 'account_id',
          TEAM: 'team_id',
          'E-MAIL': 'email',
          MANAGES: 'manages',
          DISABLED: 'disabled',
          CREATED: 'created_at',
        },
        ['CREATED', 'E-MAIL', 'TEAM'],
      ),
    }),
    asked('members invite', 'Make a member of an account and print a link to sign in with.', {
      arguments: ['account'],
      of: 'account',
      json: whole,
      options: {
        name: { value: 'text', help: 'its name (required)' },
        team: { value: 'id', help: 'a team of the account' },
        email: { value: 'address', help: 'for the first sign-in by OpenID Connect' },
        manages: { help: 'it sees the whole account or team and manages its members' },
      },
      example: 'members invite acme --name Ada --email ada@example.com',
      ask: (args, path) => {
        const name = required(args, 'name', 'A member has a name')
        const { team, email } = args.text
        const manages = args.on.has('manages') || undefined
        const account = decodeURIComponent(path.split('/').at(-1)!)
        return ['POST', '/members', { account, name, team, email, manages }]
      },
      show: (answer) => linkBelow(changed('Member', 'created')(answer), answer),
    }),
    asked('members link', 'Print a new link for a member; an unused one ends.', {
      ...ofMember,
      json: whole,
      example: 'members link Ada',
      ask: (_, path) => ['POST', `${path}/link`, {}],
      show: (answer) => linkBelow('', answer),
    }),
    ...switches('member', 'Ada', {
      disable: 'Sign a member out and disable its keys.',
      enable: 'Let a member sign in again; its keys stay disabled.',
    }),
    asked('members remove', 'Remove a member and disable its keys.', {
      ...ofMember,
      options: { 'keep-keys': { help: 'its keys go on' } },
      example: 'members remove Ada --keep-keys',
      final: (one) => `Member ${calledOf(one)} is removed for good. Remove it?`,
      ask: ({ on }, path) => ['DELETE', on.has('keep-keys') ? `${path}?keys=keep` : path],
      show: changed('Member', 'removed'),
    }),
    asked('whoami', 'Show the name, the role and the rights of your token.', {
      ask: () => '/session',
      show: ({ data: { name, role, rights, how, expires_at, ends_at } }) => {
        const end = expires_at ?? ends_at
        return card({ name, role, rights: rights.join(', '), how, ...(end && { until: end }) })
      },
    }),
  ],
}
