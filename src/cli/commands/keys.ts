/** Commands over keys and limits. */
import { KEY_SETTINGS } from '../../server/admin/resources/key.ts'
import { recordId } from '../../server/admin/resources/settings.ts'
import { asked, calledOf, cardOf, changed, connected, list, secretBelow, whole } from '../asked.ts'
import type { Group, OptionSpecs } from '../command.ts'
import {
  capOf,
  changeIn,
  optionsOf,
  required,
  ownerPath,
  settingsIn,
  withQuery,
  momentIn,
} from '../settings.ts'
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
          CAP: capOf,
          MODELS: ({ models }) => models ?? 'all',
        },
        ['MODELS', 'CAP', 'ACCOUNT', 'SPENT USD'],
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
        cap: capOf(key),
      })),
    }),
    asked('keys update', 'Change a key.', {
      ...ofKey,
      options: SETTINGS,
      example: 'keys update laptop --cap 10/month --expires 30d',
      ask: (args, path) => ['PATCH', path, changeIn(args, OWNED, 'keys update')],
      show: changed('Key', 'updated'),
    }),
    asked('keys disable', 'Refuse a key from now on; "-" reads its secret.', {
      ...ofKey,
      example: 'keys disable laptop',
      ask: (_, path) => ['PATCH', path, { disabled: true }],
      show: changed('Key', 'disabled'),
    }),
    asked('keys enable', 'Accept a disabled key again.', {
      ...ofKey,
      ask: (_, path) => ['PATCH', path, { disabled: false }],
      show: changed('Key', 'enabled'),
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
    asked('keys archive', 'Refuse a key for good; its history stays.', {
      ...ofKey,
      final: (one) => `Key ${calledOf(one)} is refused for good. Archive it?`,
      ask: (_, path) => ['DELETE', path],
      show: changed('Key', 'archived'),
    }),
    asked('limits show', 'Show every limit of an owner and those above it, with their use.', {
      arguments: ['owner'],
      example: 'limits show account:acme',
      ask: ({ positionals: [owner = ''] }) => `${ownerPath(owner)}/limits`,
      show: limitsText,
    }),
    connected(
      'limits set',
      'Set a limit, such as cap.week to 5.00.',
      { arguments: LIMIT_VALUE, options: OF_MODELS, example: 'limits set key:key_1 cap.week 5.00' },
      async (admin, args) => (await import('../limits.ts')).setLimit(admin, args),
    ),
    connected(
      'limits clear',
      'Remove a limit.',
      { arguments: ['owner', 'limit'], options: OF_MODELS },
      async (admin, args) => (await import('../limits.ts')).clearLimit(admin, args),
    ),
    connected(
      'limits raise',
      'Let a limit be higher for a while; "none" ends it.',
      {
        arguments: LIMIT_VALUE,
        options: {
          until: {
            value: 'date or time',
            time: 'later',
            help: 'its end, such as 6h or 2027-01-31T00:00:00Z',
          },
          reason: { value: 'text', help: 'why, for the audit log' },
        },
      },
      async (admin, args) => (await import('../limits.ts')).raiseLimit(admin, args),
    ),
    connected(
      'limits reset',
      'Begin to count anew in the present window.',
      {
        arguments: ['owner', 'limit'],
        options: {
          reason: { value: 'text', help: 'why, kept with the reset (required)' },
          reference: {
            value: 'text',
            help: 'your own reference; one that exists is not done again',
          },
        },
      },
      async (admin, args) => (await import('../limits.ts')).resetLimit(admin, args),
    ),
  ],
}
