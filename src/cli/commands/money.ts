/** Commands over accounts, teams and their money. */
import { asked, calledOf, cardOf, connected, list, whole } from '../asked.ts'
import type { Group, OptionSpecs } from '../command.ts'
import type { Named } from '../look-up.ts'
import { card, cell, print, table } from '../output.ts'
import { required, withQuery } from '../settings.ts'
import { statementText } from '../shown.ts'
import { ACCOUNTS, ofAccount } from './accounts.ts'

const REFERENCE: OptionSpecs = {
  reference: { value: 'text', help: 'your own reference; one that exists is not booked again' },
}
const paymentCard = cardOf(({ charge }) => ({ charge: `${charge.amount} ${charge.currency}` }))

/** The sentence of a booking, with the balance after it. */
function booked({ data }: any, _: unknown, account: Named): string {
  const { amount_usd, balance_usd, free_tier } = data
  const what = data.duplicate
    ? 'this reference was booked before, nothing was changed'
    : `${cell(amount_usd)} USD booked`
  const tier = free_tier ? ' It stays on the free tier.' : ''
  return `Account ${calledOf(account)}: ${what}. Balance: ${cell(balance_usd)} USD.${tier}\n`
}

export const MONEY: Group = {
  name: 'Accounts and money',
  page: 'keys-and-money',
  commands: [
    ...ACCOUNTS,
    asked('credits add', 'Put money on an account.', {
      arguments: ['account', 'usd'],
      of: 'account',
      options: {
        promo: { help: 'promotional credit, which was not paid for' },
        expires: {
          value: 'date',
          time: 'later',
          member: 'expires_at',
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
      show: booked,
    }),
    asked('credits adjust', 'Correct a balance.', {
      arguments: ['account', 'usd'],
      of: 'account',
      options: {
        reason: { value: 'text', help: 'why, kept with the booking (required)' },
        from: {
          value: 'block',
          member: 'takes_from',
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
      show: booked,
    }),
    connected(
      'credits show',
      'Show the balance and the last rows of the ledger.',
      { arguments: ['account'], example: 'credits show acme' },
      async (admin, args) => (await import('../credits.ts')).showCredits(admin, args),
    ),
    asked('payments list', 'List the payments of customers, newest first.', {
      all: true,
      options: {
        account: { value: 'id', help: 'only those of one account' },
        state: { value: 'state', help: 'open, booked, unmatched or lapsed' },
      },
      example: 'payments list --account acme --state open',
      ask: (args) => withQuery('/payments', args, ['account', 'state']),
      show: list(
        {
          REFERENCE: 'reference',
          ACCOUNT: 'account_id',
          STATE: 'state',
          USD: 'usd',
          CHARGE: ({ charge }) => `${charge.amount} ${charge.currency}`,
          'TAKEN BACK USD': 'taken_back_usd',
          CREATED: 'created_at',
        },
        ['TAKEN BACK USD', 'CREATED'],
      ),
    }),
    asked('payments link', 'Order credit for an account; prints the page on which it is paid.', {
      arguments: ['account', 'usd'],
      of: 'account',
      example: 'payments link acme 25',
      ask: ({ positionals: [, usd] }, path) => ['POST', `${path}/checkout`, { usd }],
      show: ({ data: { url, usd, charge, reference } }) =>
        `${cell(usd)} USD of credit for ${charge.amount} ${charge.currency}, ${reference}:\n\n  ${url}\n`,
    }),
    asked('payments check', 'Ask the payment provider what became of an order.', {
      arguments: ['reference'],
      example: 'payments check pay_0123456789abcdef01234567',
      ask: (_, path) => ['POST', `/payments${path}/check`, {}],
      show: paymentCard,
    }),
    asked('payments book', 'Book a payment without an order to an account.', {
      arguments: ['reference'],
      options: {
        account: { value: 'id', help: 'the account that gets it (required)' },
        usd: { value: 'usd', help: 'the credit (default: by the configured rate)' },
        note: { value: 'text', help: 'kept with the booking' },
      },
      example: 'payments book pi_3Abc --account acme',
      final: ({ id }, { text }) => `The payment ${id} is booked to ${text.account}. Book it?`,
      ask: (args, path) => {
        const account_id = required(args, 'account', 'A payment is booked to an account')
        const { usd, note } = args.text
        return ['POST', `/payments${path}/book`, { account_id, usd, note }]
      },
      show: paymentCard,
    }),
    asked('statement', 'Show a month of an account: bookings, usage, balances.', {
      ...ofAccount,
      csv: true,
      options: { month: { value: 'month', help: 'such as 2026-10 (default: this one)' } },
      example: 'statement acme --month 2026-10',
      ask: (args, path) => withQuery(`${path}/statement`, args, ['month']),
      show: statementText,
    }),
    asked('statements list', 'List issued statements, the newest first.', {
      all: true,
      options: { account: { value: 'id', help: 'only those of one account' } },
      example: 'statements list --account acme',
      ask: (args) => withQuery('/statements', args, ['account']),
      show: list({
        NUMBER: 'number',
        STATE: 'state',
        ACCOUNT: 'account_id',
        MONTH: 'month',
        'CLOSING USD': 'closing_usd',
      }),
    }),
    asked('statements issue', 'Issue the statement of a month that is over: it gets a number.', {
      arguments: ['account', 'month'],
      of: 'account',
      example: 'statements issue acme 2026-10',
      ask: ({ positionals: [, month] }, path) => {
        const account_id = decodeURIComponent(path.slice(path.lastIndexOf('/') + 1))
        return ['POST', '/statements', { account_id, month }]
      },
      show: statementText,
    }),
    asked('statements show', 'Show an issued statement.', {
      arguments: ['number'],
      csv: true,
      example: 'statements show S-2026-00001',
      ask: ({ positionals: [number = ''] }) => `/statements/${encodeURIComponent(number)}`,
      show: statementText,
    }),
    connected(
      'statements page',
      'Print an issued statement as a page of HTML, to keep or to mail.',
      { arguments: ['number'], example: 'statements page S-2026-00001' },
      async (admin, args) => {
        const path = `/statements/${encodeURIComponent(args.positionals[0]!)}?format=html`
        const html = await new Response((await admin.open(path)).body).text()
        if (!args.on.has('json')) return void process.stdout.write(html)
        print(args, { html }, () => '')
      },
    ),
    asked('statements void', 'Void the newest statement of an account.', {
      arguments: ['number'],
      options: { reason: { value: 'text', help: 'why, kept with it (required)' } },
      example: 'statements void S-2026-00001 --reason "wrong address"',
      final: (_, { positionals: [number] }) => `Statement ${number} is void for good. Void it?`,
      ask: (args) => {
        const reason = required(args, 'reason', 'A void statement says why')
        const number = encodeURIComponent(args.positionals[0] ?? '')
        return ['POST', `/statements/${number}/void`, { reason }]
      },
      show: ({ data }) => card(data),
    }),
    asked('ledger journal', 'Print the ledger as debits and credits that balance.', {
      csv: true,
      json: whole,
      options: {
        from: { value: 'day', help: 'from this day on, such as 2026-10-01 (required)' },
        to: { value: 'day', help: 'before this day (required)' },
        by: { value: 'span', help: 'day, month, or row for each entry (default: day)' },
        account: { value: 'id', help: 'only that of one account' },
      },
      example: 'ledger journal --from 2026-10-01 --to 2026-11-01 --by month --csv',
      ask: (args) => {
        for (const name of ['from', 'to'] as const) required(args, name, 'A journal has two days')
        return withQuery('/ledger/journal', args, ['from', 'to', 'by', 'account'])
      },
      show: ({ trial_balance: legs, vendor_unknown_calls: unknown }) => {
        const rows = legs.map((one: any) => [one.leg, one.debit_usd, one.credit_usd])
        const note =
          cell(unknown) !== '0' ? `Calls whose vendor cost is unknown: ${cell(unknown)}.\n` : ''
        return table(['LEG', 'DEBIT USD', 'CREDIT USD'], rows) + note
      },
    }),
  ],
}
