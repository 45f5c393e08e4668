/** Commands over people: tokens of the admin API, and sessions. */
import { asked, calledOf, cardOf, changed, list, secretBelow, whole } from '../asked.ts'
import { CommandError, type Group } from '../command.ts'
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
      final: (one) => `Token ${calledOf(one)} and its sessions end for good. End it?`,
      ask: (_, path) => ['DELETE', path],
      show: ({ data }) => `The token ${data.name} and its sessions have ended.\n`,
    }),
    asked('sessions list', 'List who is signed in.', {
      options: { subject: SUBJECT },
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
      ask: (args, path) => {
        const [session] = args.positionals
        if ((session === undefined) !== args.on.has('all')) {
          throw new CommandError('Name a session, or --all with --subject <id>.', 2)
        }
        const all = withQuery('/sessions', args, ['subject'])
        return ['DELETE', session === undefined ? all : `/sessions${path}`]
      },
      show: ({ data }) => `Sessions that have ended: ${data.ended.length}.\n`,
    }),
    asked('whoami', 'Show the name, the role and the rights of your token.', {
      ask: () => '/session',
      show: cardOf(({ rights }) => ({ rights: rights.join(', ') })),
    }),
  ],
}
