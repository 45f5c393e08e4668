/** Commands over calls and usage. */
import { REQUEST_FILTERS } from '../../server/admin/resources/request.ts'
import { USAGE_FILTERS } from '../../server/admin/resources/usage.ts'
import { asked, connected, list, RANGE, whole } from '../asked.ts'
import { CommandError, type Group } from '../command.ts'
import { cell } from '../output.ts'
import { required, withQuery } from '../settings.ts'
import { billText, endOf, proofOf, requestCard, usageText } from '../shown.ts'

const FILTERS = [...Object.keys(REQUEST_FILTERS), 'from', 'to', 'after']
const USAGE = ['from', 'to', 'rollup', 'top', 'metric', ...Object.keys(USAGE_FILTERS)]
const { key, account, model, status } = REQUEST_FILTERS

export const CALLS: Group = {
  name: 'Calls and usage',
  page: 'operate/monitor',
  commands: [
    asked('requests list', 'List the last calls, newest first.', {
      csv: true,
      options: {
        ...REQUEST_FILTERS,
        ...RANGE,
        find: { value: 'text', help: 'only those with this text in user, tag or model' },
        limit: { value: 'n', help: 'how many, from 1 to 200 (default: 50)' },
        all: { help: 'to the end' },
        after: { value: 'request', help: 'go on below this one, as the last line says' },
      },
      example: 'requests list --status 5xx --from 7d',
      all: ({ on }) => on.has('all'),
      ask: (args) =>
        withQuery(
          '/requests',
          args,
          FILTERS,
          args.on.has('all') ? {} : { limit: args.text.limit ?? '50' },
        ),
      show: (answer, { text: { find } }) => {
        const has = (text: unknown) => typeof text === 'string' && text.includes(find!)
        const data = answer.data.filter(
          ({ user, tag, model: of }: any) => find === undefined || [user, tag, of].some(has),
        )
        return CALLS_LIST({ ...answer, data })
      },
    }),
    asked('requests show', 'Show everything that is known of one call.', {
      arguments: ['request'],
      options: { bill: { help: 'which quantity was charged at which price' } },
      example: 'requests show req_01M836W9288QQ0XZ5GCMSVB8JC',
      ask: (_, path) => `/requests${path}`,
      json: ({ data: { bill, ...call } }, { on }, { id }) => {
        if (on.has('bill')) billText({ ...call, bill }, id)
        return on.has('bill') ? bill : { ...call, bill }
      },
      show: ({ data }, { on }, { id }) => (on.has('bill') ? billText(data, id) : requestCard(data)),
    }),
    connected(
      'requests tail',
      'Print a line for each call that ends.',
      { options: { key, account, model, status }, example: 'requests tail --account acme' },
      async (admin, args) => (await import('../requests.ts')).tailRequests(admin, args),
    ),
    asked('requests refund', 'Give the cost of a call back, once.', {
      arguments: ['request'],
      options: {
        usd: { value: 'usd', help: 'a part of it (default: the whole)' },
        reason: { value: 'text', help: 'why, kept with the booking (required)' },
      },
      example: 'requests refund req_01M836W9288QQ0XZ5GCMSVB8JC --reason "cut off"',
      final: ({ id }, { text: { usd } }) =>
        `${usd === undefined ? 'The cost' : `${usd} USD`} of the call ${id} ${usd === undefined ? 'is' : 'are'} given back, once. Book it?`,
      ask: (args, path) => {
        const reason = required(args, 'reason', 'A refund says why')
        return ['POST', `/requests${path}/refund`, { usd: args.text.usd, reason }]
      },
      show: ({ data: { account_id, amount_usd, balance_usd, request_id, duplicate } }) => {
        const what = duplicate
          ? `was refunded before, nothing was changed`
          : `is refunded: ${cell(amount_usd)} USD`
        return `Call ${cell(request_id)} ${what}. Balance of account ${cell(account_id)}: ${cell(balance_usd)} USD.\n`
      },
    }),
    asked('requests end', 'End a running call.', {
      arguments: ['request'],
      example: 'requests end req_01M836W9288QQ0XZ5GCMSVB8JC',
      ask: (_, path) => ['POST', `/requests${path}/end`],
      show: (_, __, { id }) => `${cell(id)} is ended.\n`,
    }),
    asked('requests forget', 'Remove kept contents of calls for good.', {
      options: {
        key: { value: 'id', help: 'those of one key' },
        user: { value: 'name', help: 'those of one end user, as the list names it' },
        before: { value: 'moment', time: 'ago', help: 'those before this day or moment, UTC' },
      },
      example: 'requests forget --user u_1 --before 30d',
      final: (_, { text: { key: of, user, before } }) => {
        const parts = [of && `of the key ${of}`, user && `of ${user}`, before && `before ${before}`]
        return `Contents ${parts.filter(Boolean).join(' ')} are removed for good. Remove them?`
      },
      ask: (args) => {
        const path = withQuery('/requests/content', args, ['key', 'user', 'before'])
        if (path.includes('?')) return ['DELETE', path]
        throw new CommandError('Say whose contents go: --key, --user or --before.', 2)
      },
      show: ({ data }) => `Calls whose contents are removed: ${cell(data.removed)}.\n`,
    }),
    asked('usage', 'Show who used what: calls, cost and tokens.', {
      csv: true,
      json: whole,
      options: {
        from: {
          value: 'moment',
          time: 'ago',
          help: 'from this day or moment on, UTC (default: seven days ago)',
        },
        to: { value: 'moment', time: 'ago', help: 'before this day or moment, UTC' },
        by: {
          value: 'groups',
          member: 'group',
          help: 'up to two of account, key, model, deployment, tag, user, …',
        },
        rollup: { value: 'span', help: 'hour, day or month' },
        metric: { value: 'name', help: 'what groups are ranked by (default: cost_usd)' },
        top: { value: 'n', help: 'groups that are kept apart (default: 20)' },
        ...USAGE_FILTERS,
      },
      example: 'usage --by key,model --from 30d',
      ask: (args) =>
        withQuery('/usage', args, USAGE, args.text.by === undefined ? {} : { group: args.text.by }),
      show: usageText,
    }),
    asked('usage verify', 'Add usage up again, and compare it with the ledger.', {
      ask: () => '/usage/verify',
      show: ({ data }) => proofOf(data),
      wrong: ({ agrees }) =>
        agrees === false
          ? 'Usage differs from the ledger: "usage rebuild" reads the ledger again.'
          : undefined,
    }),
    asked('usage rebuild', 'Make usage anew from the ledger.', {
      ask: () => ['POST', '/usage/rebuild'],
      show: () => 'The ledger is read again, in the background.\n',
    }),
  ],
}

const CALLS_LIST = list(
  {
    AT: 'at',
    STATUS: ({ status: code }) => code || null,
    END: endOf,
    MS: 'times.total_ms',
    MODEL: ({ model: served, asked_model }) => served ?? asked_model,
    KEY: 'key_id',
    'COST USD': 'cost_usd',
    REQUEST: 'id',
  },
  ['MS', 'KEY', 'STATUS', 'COST USD'],
  ({ searched_to, next }) =>
    (searched_to ? `Looked back to ${searched_to}.\n` : '') +
    (next ? `The list goes on: --after ${cell(next)}\n` : ''),
)
