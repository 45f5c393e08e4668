/** Commands that use the admin API of a running gateway: accounts, keys, credits, models, policies, ledger. */
import { KEY_SETTINGS } from '../server/admin/resources/key.ts'
import type { Admin } from './admin.ts'
import { CommandError, type Arguments } from './command.ts'
import { printCsv } from './csv.ts'
import { card, print, table } from './output.ts'
import { capOf, filterOf, keyCard, segment, settingsIn } from './settings.ts'

export { connect } from './admin.ts'
export * from './accounts.ts'
export { listAlerts, muteAlert } from './alerts.ts'
export { listChanges } from './audit.ts'
export { rotateKey, showLimits } from './keys.ts'
export { diffPolicies, replayPolicy, testPolicy } from './policy.ts'
export { listGateways, showConfig, showGuard } from './show.ts'
export { showConsole } from './console.ts'
export { endRequest, listRequests, showRequest, tailRequests } from './requests.ts'
export { rebuildUsage, showStatement, showUsage, verifyUsage } from './usage.ts'

const SHOWN_ROWS = 20

export async function listAccounts(admin: Admin, args: Arguments): Promise<void> {
  if (args.on.has('csv')) return printCsv(admin, '/accounts')
  const accounts = await admin.list('/accounts')
  const rows = accounts.map(({ id, name, balance_usd, free_tier, key_count }) => {
    return [id, name, balance_usd, free_tier ? 'free' : 'paid', key_count]
  })
  print(args, accounts, () => table(['ID', 'NAME', 'BALANCE USD', 'TIER', 'KEYS'], rows))
}

export async function createAccount(admin: Admin, args: Arguments): Promise<void> {
  const [name] = args.positionals
  const { data } = await admin.ask('POST', '/accounts', { name, id: args.text.id })
  print(args, data, () => card(data))
}

export async function showAccount(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', `/accounts/${segment(args)}`)
  print(args, data, () => card(data))
}

export async function listKeys(admin: Admin, args: Arguments): Promise<void> {
  if (args.on.has('csv')) return printCsv(admin, `/keys${filterOf(args)}`)
  const keys = await admin.list(`/keys${filterOf(args)}`)
  const headings = ['ID', 'ACCOUNT', 'NAME', 'KEY', 'STATE', 'SPENT USD', 'CAP', 'MODELS']
  const rows = keys.map((key) => [
    key.id,
    key.account_id,
    key.name,
    key.start,
    stateOf(key),
    key.spend_usd,
    capOf(key),
    key.models ?? 'all',
  ])
  print(args, keys, () => table(headings, rows))
}

/** `keys create`: prints the secret, which cannot be read later. @throws CommandError without `--name` */
export async function createKey(admin: Admin, args: Arguments): Promise<void> {
  const [account = ''] = args.positionals
  if (args.text.name === undefined) {
    throw new CommandError('A key needs a name that tells its purpose: --name <text>', 2)
  }
  const path = `/accounts/${encodeURIComponent(account)}/keys`
  const answer = await admin.ask('POST', path, settingsIn(args, KEY_SETTINGS))
  print(args, answer, () => {
    const shown = 'The secret is shown only now:'
    return `${keyCard(answer.data)}\n${shown}\n\n  ${answer.key}\n`
  })
}

/** `credits add`: a reference that was booked before adds nothing. */
export async function addCredits(admin: Admin, args: Arguments): Promise<void> {
  const [account = '', usd] = args.positionals
  const { reference, note } = args.text
  const path = `/accounts/${encodeURIComponent(account)}/credits`
  const { data } = await admin.ask('POST', path, { usd, reference, note })
  print(args, data, () => {
    const twice = 'This reference was booked before; nothing was added.\n'
    return `${data.duplicate ? twice : ''}${card(data)}`
  })
}

/** `credits adjust`: a reference that was booked before changes nothing. */
export async function adjustCredits(admin: Admin, args: Arguments): Promise<void> {
  const [account = '', usd] = args.positionals
  const { reference, reason } = args.text
  if (reason === undefined) {
    throw new CommandError('--reason is required: it says why the balance is corrected.', 2)
  }
  const path = `/accounts/${encodeURIComponent(account)}/adjust`
  const { data } = await admin.ask('POST', path, { usd, reference, reason })
  print(args, data, () => {
    const twice = 'This reference was booked before; nothing was changed.\n'
    return `${data.duplicate ? twice : ''}${card(data)}`
  })
}

export async function showCredits(admin: Admin, args: Arguments): Promise<void> {
  const path = `/accounts/${segment(args)}`
  const { data } = await admin.ask('GET', path)
  const { data: rows } = await admin.ask('GET', `${path}/ledger?limit=${SHOWN_ROWS}`)
  const { id: account_id, balance_usd, available_usd, free_tier } = data
  const credits = { account_id, balance_usd, available_usd, free_tier }
  print(args, { ...credits, rows }, () => {
    const lines = rows.map((row: any) => [
      row.at,
      row.kind,
      row.amount_usd,
      row.usage?.model ?? row.note ?? row.reason,
      row.request_id ?? row.reference,
    ])
    return `${card(credits)}\n${table(['AT', 'KIND', 'AMOUNT USD', 'FOR', 'REFERENCE'], lines)}`
  })
}

export async function listModels(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', '/models')
  const rows = data.flatMap((model: any) =>
    model.deployments.map((deployment: any, index: number) => [
      index === 0 ? model.id : '',
      index === 0 ? model.modality : '',
      deployment.id,
      deployment.health.state,
      deployment.health.since,
      deployment.health.latency_ms,
      deployment.health.failures || undefined,
      deployment.health.last_failure,
      deployment.health.rests_until,
    ]),
  )
  const headings = [
    'MODEL',
    'MODALITY',
    'DEPLOYMENT',
    'HEALTH',
    'SINCE',
    'LATENCY MS',
    'FAILURES',
    'LAST FAILURE',
    'COOLDOWN UNTIL',
  ]
  print(args, data, () => table(headings, rows))
}

/** `ledger verify` @throws CommandError if the stored sums differ from the rows */
export async function verifyLedger(admin: Admin, args: Arguments): Promise<void> {
  if (args.on.has('prices')) return verifyPrices(admin, args)
  const { data } = await admin.ask('GET', '/ledger/verify')
  const rows = data.discrepancies.map((one: any) => [
    one.account_id,
    one.what,
    one.stored,
    one.recomputed,
  ])
  print(args, data, () =>
    data.ok
      ? 'Every sum equals its rows.\n'
      : table(['ACCOUNT', 'WHAT', 'STORED', 'RECOMPUTED'], rows),
  )
  if (!data.ok)
    throw new CommandError(
      'The ledger does not add up: the table names each sum that its rows contradict.',
    )
}

/** `ledger verify --prices` @throws CommandError if the cost of a row differs from its quantities at its prices */
async function verifyPrices(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', '/ledger/verify?prices=true')
  // Numbers are kept as the gateway has written them.
  const [checked, unknown] = [data.prices.checked, data.prices.unknown].map((count) =>
    JSON.stringify(count),
  )
  const { wrong } = data.prices
  const rows = wrong.map((one: any) => [one.account_id, one.request_id, one.stored, one.recomputed])
  const missing = unknown !== '0' ? ` ${unknown} more have no stored prices.` : ''
  print(args, data, () =>
    data.ok
      ? `Every sum equals its rows, and ${checked} rows their quantities at their prices.${missing}\n`
      : `${table(['ACCOUNT', 'REQUEST', 'STORED', 'RECOMPUTED'], rows)}${missing.trim()}\n`,
  )
  if (!data.ok)
    throw new CommandError(
      'The ledger does not add up: the table names each row whose cost its quantities contradict.',
    )
}

/** `ledger orphans`: calls that were never settled. */
export async function listOrphans(admin: Admin, args: Arguments): Promise<void> {
  const orphans = await admin.list(`/ledger/orphans${filterOf(args)}`)
  const rows = orphans.map(({ at, account_id, key_id, request_id }) => {
    return [at, account_id, key_id, request_id]
  })
  print(args, orphans, () =>
    rows.length > 0 ? table(['AT', 'ACCOUNT', 'KEY', 'REQUEST'], rows) : 'There are none.\n',
  )
}

/** `models unserved`: names that clients ask for and that are not served, with a remedy for each. */
export async function listUnserved(admin: Admin, args: Arguments): Promise<void> {
  const names = await admin.list('/models/unserved')
  const rows = names.map(({ name, reason, asked, accounts, last_at, remedy }) => {
    return [name, reason, asked, accounts, last_at, remedy]
  })
  const headings = ['NAME', 'REASON', 'ASKED', 'ACCOUNTS', 'LAST', 'REMEDY']
  print(args, names, () => (rows.length > 0 ? table(headings, rows) : 'There are none.\n'))
}

/** `ledger outbox`: settlements that the ledger has not confirmed yet. */
export async function showOutbox(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', '/ledger/outbox')
  print(args, data, () => card(data))
}

function stateOf({ disabled, expires_at }: any): string {
  if (disabled) return 'disabled'
  return expires_at && Date.parse(expires_at) <= Date.now() ? 'expired' : 'active'
}
