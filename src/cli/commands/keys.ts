/** Commands over keys and limits. */
import { KEY_SETTINGS } from '../../server/admin/resources/key.ts'
import { recordId } from '../../server/admin/resources/settings.ts'
import { asked, cardOf, changed, connected, list, secretBelow, switches, whole } from '../asked.ts'
import type { Group, OptionSpecs } from '../command.ts'
import {
  limitsOf,
  changeIn,
  limitKind,
  optionsOf,
  required,
  settingsIn,
  withQuery,
  momentIn,
} from '../settings.ts'
import { cell } from '../output.ts'
import { limitsText } from '../shown.ts'

/** Settings of a key, with the member who owns it. */
const OWNED = {
  ...KEY_SETTINGS,
  owner: {
    stored: 'owner',
    schema: recordId,
    option: { name: 'owner', value: 'id', help: 'the member who owns it; "none" for none' },
  },
} as const

const ofKey = { arguments: ['key'], of: 'key' } as const
const SETTINGS: OptionSpecs = {
  name: { value: 'text', help: 'its purpose' },
  ...optionsOf(OWNED),
}
const LIMIT_VALUE = ['owner', 'limit', 'value']
const OF_MODELS: OptionSpecs = {
  models: { value: 'ids', help: 'the models that it is for, separated by commas (default: all)' },
}

function stateOf({ disabled, expires_at }: any): string {
  if (disabled) return 'disabled'
  return expires_at && Date.parse(expires_at) <= Date.now() ? 'expired' : 'active'
}

export const KEYS: Group = {
  name: 'Keys',
  page: 'operate/keys',
  commands: [
    asked('keys list', 'List the keys.', {
      csv: true,
      all: true,
      options: { account: { value: 'id', help: 'only those of one account' } },
      example: 'keys list --account acme',
      ask: (args) => withQuery('/keys', args, ['account']),
      show: list(
        {
          ID: 'id',
          ACCOUNT: 'account_id',
          NAME: 'name',
          KEY: 'start',
          STATE: stateOf,
          'SPENT USD': 'spend_usd',
          LIMITS: limitsOf,
          MODELS: ({ models }) => models ?? 'all',
        },
        ['MODELS', 'LIMITS', 'ACCOUNT', 'SPENT USD'],
      ),
    }),
    asked('keys create', 'Create a key and print its secret, which is shown only once.', {
      arguments: ['account'],
      of: 'account',
      json: whole,
      options: {
        ...SETTINGS,
        name: { value: 'text', help: 'its purpose (required)' },
        id: { value: 'id', help: 'its id (default: a generated one)' },
        sha256: { value: 'hex', help: 'the SHA-256 of a secret that was made elsewhere' },
        start: { value: 'text', help: 'with --sha256: how that secret begins, for lists' },
      },
      example: 'keys create acme --name laptop --cap 5/month',
      ask: (args, path) => {
        required(args, 'name', 'The name of a key says its purpose')
        const { id, sha256, start } = args.text
        return ['POST', `${path}/keys`, { ...settingsIn(args, OWNED), id, sha256, start }]
      },
      show: (answer) => secretBelow(changed('Key', 'created')(answer), answer.key),
    }),
    asked('keys show', 'Show a key.', {
      ...ofKey,
      example: 'keys show laptop',
      ask: (_, path) => path,
      show: cardOf((key) => ({
        policy: key.policy && JSON.stringify(key.policy),
        models: key.models ?? 'all',
        spend_cap: undefined,
        limits: limitsOf(key),
      })),
    }),
    asked('keys update', 'Change a key.', {
      ...ofKey,
      options: SETTINGS,
      example: 'keys update laptop --cap 10/month --expires 30d',
      ask: (args, path) => ['PATCH', path, changeIn(args, OWNED, 'keys update')],
      show: changed('Key', 'updated'),
    }),
    asked('keys rotate', 'Give a key another secret, and print it.', {
      ...ofKey,
      json: whole,
      options: {
        overlap: {
          value: 'time',
          time: 'length',
          help: 'how long the secret before works, such as 7d (default: 1d)',
        },
        expires: {
          value: 'date',
          time: 'later',
          help: 'a new end of the key, such as 30d; "none" removes it',
        },
      },
      example: 'keys rotate laptop --overlap 7d',
      ask: (args, path) => {
        const { overlap } = args.text
        const expires_at = momentIn(args, 'expires')
        const body = { overlap: overlap === undefined ? undefined : Number(overlap), expires_at }
        return ['POST', `${path}/rotate`, body]
      },
      show: (answer) => {
        const { until } = answer.data.previous_secret
        const sentence = `${changed('Key', 'rotated')(answer)}The former secret works until ${until}.\n`
        return secretBelow(sentence, answer.key)
      },
    }),
    ...switches(
      'key',
      'laptop',
      {
        disable: 'Refuse a key from now on; "-" reads its secret.',
        enable: 'Accept a disabled key again.',
        archive: 'Refuse a key for good; its history stays.',
      },
      'is refused for good',
    ),
    asked('limits show', 'Show every limit of an owner and those above it, with their use.', {
      arguments: ['owner'],
      of: 'owner',
      example: 'limits show account:acme',
      ask: (_, path) => `${path}/limits`,
      show: limitsText,
    }),
    connected(
      'limits set',
      'Set a limit, such as cap.week to 5.00.',
      {
        arguments: LIMIT_VALUE,
        options: OF_MODELS,
        example: 'limits set key:laptop cap.week 5.00',
      },
      async (admin, args) => (await import('../limits.ts')).setLimit(admin, args),
    ),
    connected(
      'limits clear',
      'Remove a limit.',
      {
        arguments: ['owner', 'limit'],
        options: OF_MODELS,
        example: 'limits clear key:laptop cap.week',
      },
      async (admin, args) => (await import('../limits.ts')).clearLimit(admin, args),
    ),
    asked('limits raise', 'Let a limit be higher for a while; "none" ends it.', {
      arguments: LIMIT_VALUE,
      of: 'owner',
      options: {
        until: {
          value: 'date or time',
          time: 'later',
          help: 'its end, such as 6h or 2027-01-31T00:00:00Z',
        },
        reason: { value: 'text', help: 'why, for the audit log' },
      },
      example: 'limits raise key:laptop cap.week 9.00 --until 6h',
      ask: (args, path) => {
        const [, name = '', text = ''] = args.positionals
        const value = limitKind(name).unit === 'usd' ? text : Number(text)
        const until = momentIn(args, 'until')
        const body = { value: text === 'none' ? null : value, until, reason: args.text.reason }
        return ['POST', `${path}/limits/${encodeURIComponent(name)}/raise`, body]
      },
      show: (_, { positionals: [owner, name, value] }) =>
        `${name} of ${owner} is ${value === 'none' ? 'as before' : `raised to ${value}`}.\n`,
    }),
    asked('limits reset', 'Begin to count anew in the present window.', {
      arguments: ['owner', 'limit'],
      of: 'owner',
      options: {
        reason: { value: 'text', help: 'why, kept with the reset (required)' },
        reference: {
          value: 'text',
          help: 'your own reference; one that exists is not done again',
        },
      },
      example: 'limits reset key:laptop cap.week --reason "a test of ours"',
      ask: (args, path) => {
        const [, name = ''] = args.positionals
        const reason = required(args, 'reason', 'A reset says why the count begins anew')
        const { reference } = args.text
        return ['POST', `${path}/limits/${encodeURIComponent(name)}/reset`, { reason, reference }]
      },
      show: ({ data }, { positionals: [, name] }) =>
        `${cell(data.counted)} of ${name} do not count any more.\n`,
    }),
  ],
}
