/** Commands that use the admin API of a running gateway: accounts, keys, credits, models, policies, ledger. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { KEY_SETTINGS } from '../server/admin/resources/key.ts'
import type { Admin } from './admin.ts'
import { CommandError, type Arguments } from './command.ts'
import { printCsv } from './csv.ts'
import { pathOf } from './look-up.ts'
import { card, print, table, cell } from './output.ts'
import {
  capOf,
  filterOf,
  keyCard,
  secondsOf,
  segment,
  settingsIn,
  queryOf,
  shown,
} from './settings.ts'
import { ACCOUNT_SETTINGS } from '../server/admin/resources/account.ts'

export { diffPolicies, replayPolicy, testPolicy } from './policy.ts'
export {
  createToken,
  endSessions,
  endToken,
  listSessions,
  listTokens,
  showSelf,
  updateToken,
} from './people.ts'
export {
  archiveTeam,
  clearLimit,
  createTeam,
  disableTeam,
  enableTeam,
  listTeams,
  raiseLimit,
  resetLimit,
  setLimit,
  showLimits,
  showTeam,
  updateTeam,
} from './limits.ts'
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
  const { data } = await admin.ask('GET', await pathOf(admin, 'account', args))
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
  if (args.text.name === undefined) {
    throw new CommandError('A key needs a name that tells its purpose: --name <text>', 2)
  }
  const path = `${await pathOf(admin, 'account', args)}/keys`
  const answer = await admin.ask('POST', path, settingsIn(args, KEY_SETTINGS))
  print(args, answer, () => {
    const shown = 'The secret is shown only now:'
    return `${keyCard(answer.data)}\n${shown}\n\n  ${answer.key}\n`
  })
}

/** `credits add`: a reference that was booked before adds nothing. */
export async function addCredits(admin: Admin, args: Arguments): Promise<void> {
  const [, usd] = args.positionals
  const { reference, note } = args.text
  const path = `${await pathOf(admin, 'account', args)}/credits`
  const { data } = await admin.ask('POST', path, { usd, reference, note })
  print(args, data, () => {
    const twice = 'This reference was booked before; nothing was added.\n'
    return `${data.duplicate ? twice : ''}${card(data)}`
  })
}

/** `credits adjust`: a reference that was booked before changes nothing. */
export async function adjustCredits(admin: Admin, args: Arguments): Promise<void> {
  const [, usd] = args.positionals
  const { reference, reason } = args.text
  if (reason === undefined) {
    throw new CommandError('--reason is required: it says why the balance is corrected.', 2)
  }
  const path = `${await pathOf(admin, 'account', args)}/adjust`
  const { data } = await admin.ask('POST', path, { usd, reference, reason })
  print(args, data, () => {
    const twice = 'This reference was booked before; nothing was changed.\n'
    return `${data.duplicate ? twice : ''}${card(data)}`
  })
}

export async function showCredits(admin: Admin, args: Arguments): Promise<void> {
  const path = await pathOf(admin, 'account', args)
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
  const query = queryOf(args, ['vendor', 'used'])
  if (args.text.find !== undefined) query.set('q', args.text.find)
  const { data } = await admin.ask('GET', `/models?${query}`)
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
  if (args.on.has('chain')) return verifyChain(admin, args)
  if (args.text.export !== undefined || args.text.root !== undefined) {
    throw new CommandError('--export and --root belong to --chain.')
  }
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

/** `ledger verify --chain` @throws CommandError where rows were changed, or a root is none of the ledger's */
async function verifyChain(admin: Admin, args: Arguments): Promise<void> {
  const { root, export: file } = args.text
  const { data } = await admin.ask('GET', '/ledger/verify?chain=true')
  const { months, ...here } = data.chain
  let { accounts, rows, faults } = here
  if (file !== undefined) {
    const { data: seals } = await admin.ask('GET', '/ledger/seals')
    ;({ accounts, rows, faults } = await (
      await import('./archive/chain.ts')
    ).checkExport(file, seals.seals))
  }
  const ok = faults.length === 0 && months.every((month: any) => month.ok)
  const lines = faults.map(({ account_id, after, before, rows: between }: any) => {
    // Numbers are kept as the gateway has written them.
    const place = ({ at, rows: n }: any) => `${at} (${JSON.stringify(n)})`
    return [account_id, place(after), place(before), JSON.stringify(between)]
  })
  const wrong = months.filter((month: any) => !month.ok).map((month: any) => month.month)
  const counted = `${JSON.stringify(rows)} rows of ${JSON.stringify(accounts)} accounts`
  print(args, { ok, accounts, rows, months, faults }, () =>
    ok
      ? `The chains of ${counted} agree with the seals of ${months.length} months.\n`
      : table(['ACCOUNT', 'AFTER (ROWS)', 'BEFORE (ROWS)', 'ROWS NOW'], lines),
  )
  if (wrong.length > 0) {
    throw new CommandError(`Seals of ${wrong.join(', ')} are not those that were noted then.`)
  }
  if (!ok) {
    throw new CommandError(
      'Rows were changed, removed, added or moved: the table names the accounts, and the places between which they are.',
    )
  }
  if (root !== undefined && !months.some((month: any) => month.root === root)) {
    throw new CommandError(`${root} is the root of no month of this ledger.`)
  }
}

/** `ledger verify --prices` @throws CommandError if the cost of a row differs from its quantities at its prices */
async function verifyPrices(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', '/ledger/verify?prices=true')
  // Numbers are kept as the gateway has written them.
  const [checked, unknown] = [data.prices.checked, data.prices.unknown].map((count) =>
    JSON.stringify(count),
  )
  const { wrong } = data.prices
  const rows = wrong.map((one: any) => [
    one.account_id,
    one.request_id,
    one.of,
    one.stored,
    one.recomputed,
  ])
  const missing = unknown !== '0' ? ` ${unknown} more have no stored prices.` : ''
  print(args, data, () =>
    data.ok
      ? `Every sum equals its rows, and ${checked} rows their quantities at their prices.${missing}\n`
      : `${table(['ACCOUNT', 'REQUEST', 'OF', 'STORED', 'RECOMPUTED'], rows)}${missing.trim()}\n`,
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

/** `models show` */
export async function showModel(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', `/models/${segment(args)}`)
  const { deployments, fallbacks = [], ...model } = data
  const others = fallbacks.map((one: any) =>
    [one.model, one.when, one.skipped ?? []].flat().join(' '),
  )
  const shown = {
    ...model,
    ...(others.length > 0 && { fallbacks: others }),
    deployments: deployments.map(({ id }: any) => id),
  }
  const names = Object.keys(shown).filter((name) => shown[name] !== null)
  print(args, data, () => card(Object.fromEntries(names.map((name) => [name, shown[name]]))))
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

/** `ledger state` */
export async function showLedger(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', '/ledger/state')
  const { doubt, missing, ...rest } = data
  const rows = missing.map((one: any) => [one.account_id, one.credits_usd, one.costs_usd])
  const lost = rows.length > 0 ? `\n${table(['LACKS', 'CREDITS USD', 'COSTS USD'], rows)}` : ''
  print(args, data, () => `${card({ ...rest, doubt: doubt ? doubt.message : 'none' })}${lost}`)
}

/** `ledger missing`: before `ledger accept`, which makes the index forget them. */
export async function printMissing(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', '/ledger/missing')
  const lines = [
    { kind: 'export', version: 2, at: Date.now() },
    ...data,
    { kind: 'end', lines: data.length + 2 },
  ]
  print(args, data, () => lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
}

/** `ledger accept` @throws CommandError for a ledger that is not in doubt */
export async function acceptLedger(admin: Admin, args: Arguments): Promise<void> {
  const { data: before } = await admin.ask('GET', '/ledger/state')
  if (!before.doubt) {
    throw new CommandError(
      'The ledger is the one that was used until now: there is nothing to accept.',
    )
  }
  const { kind, known } = before.doubt
  const { data } = await admin.ask('POST', '/ledger/accept', { id: known.id, kind })
  print(args, data, () => `Calls are admitted by ${data.id} from now on.\n`)
}

/** `ledger outbox`: settlements that the ledger has not confirmed yet. */
export async function showOutbox(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', '/ledger/outbox')
  const { quarantined, ...counts } = data
  const rows = quarantined.map((one: any) => [one.at, one.account_id, one.request_id, one.cost_usd])
  const headings = ['AT', 'ACCOUNT', 'REQUEST', 'COST']
  print(args, data, () =>
    rows.length > 0
      ? `${card(counts)}\nQuarantined, for "ledger book" or "ledger drop":\n${table(headings, rows)}`
      : card(counts),
  )
}

/** `ledger book` */
export async function bookWaiting(admin: Admin, args: Arguments): Promise<void> {
  const [request = ''] = args.positionals
  const path = `/ledger/outbox/${encodeURIComponent(request)}/book`
  const { data } = await admin.ask('POST', path, {})
  const how = data.state === 'duplicate' ? 'was booked before' : 'is booked'
  print(args, data, () => `${request} ${how}, with ${JSON.stringify(data.cost_usd)} USD.\n`)
}

/** `ledger drop` @throws CommandError without a reason */
export async function dropWaiting(admin: Admin, args: Arguments): Promise<void> {
  const [request = ''] = args.positionals
  const { reason } = args.text
  if (!reason) throw new CommandError('Say why: --reason <text>.')
  const path = `/ledger/outbox/${encodeURIComponent(request)}`
  const { data } = await admin.ask('DELETE', path, { reason })
  print(args, data, () => `${request} is dropped; the log of the gateway has it.\n`)
}

function stateOf({ disabled, expires_at }: any): string {
  if (disabled) return 'disabled'
  return expires_at && Date.parse(expires_at) <= Date.now() ? 'expired' : 'active'
}

// Commands over the audit log of a gateway.

const FILTERS = ['actor', 'action', 'object', 'from', 'to']

/** `audit list`: newest first, a line for each member that changed. */
export async function listChanges(admin: Admin, args: Arguments): Promise<void> {
  const query = queryOf(args, FILTERS, { limit: args.text.limit ?? '50' })
  if (args.on.has('csv')) return printCsv(admin, `/audit?${query}`)
  const { data } = await admin.ask('GET', `/audit?${query}`)
  print(args, data, () => {
    const rows = data.flatMap(({ at, actor, action, object, changes }: any) =>
      changes.map(({ member, before, after }: any, index: number) => [
        ...(index === 0 ? [at, actor, action, object] : ['', '', '', '']),
        member,
        shown(before),
        shown(after),
      ]),
    )
    const headings = ['AT', 'ACTOR', 'ACTION', 'OBJECT', 'MEMBER', 'BEFORE', 'AFTER']
    return rows.length > 0 ? table(headings, rows) : 'There are none.\n'
  })
}

// Commands over the alerts of a gateway.

export async function listAlerts(admin: Admin, args: Arguments): Promise<void> {
  const { data, looked } = await admin.ask('GET', '/alerts')
  print(args, data, () => {
    const still = `Still looking: ${cell(looked.done)} of ${cell(looked.of)} accounts and keys were looked at since the start.\n`
    const rows = data.map((one: any) => [
      one.since,
      one.ended_at ?? 'active',
      one.kind,
      one.object,
      one.message,
      one.muted_until,
      one.id,
    ])
    const headings = ['SINCE', 'UNTIL', 'ALERT', 'OBJECT', 'MESSAGE', 'MUTED UNTIL', 'ID']
    const found = rows.length > 0 ? table(headings, rows) : ''
    return looked.complete ? found || 'There are none.\n' : found + still
  })
}

export async function muteAlert(admin: Admin, args: Arguments): Promise<void> {
  const seconds = Number(args.text.seconds ?? DAY)
  const { data } = await admin.ask('POST', `/alerts/${segment(args)}/mute`, { seconds })
  print(args, data, () => `Nothing is told of ${data.id} until ${data.muted_until}.\n`)
}

const DAY = 86_400

// A link into the console of a running gateway.

const OPENERS: Readonly<Partial<Record<NodeJS.Platform, readonly string[]>>> = {
  darwin: ['open'],
  // The first text in quotes would be the title of a window.
  win32: ['cmd', '/c', 'start', '""'],
}
const OPENER = ['xdg-open']

/** `console`: prints a link that signs in once, and with `--open` opens it. @throws CommandError with `--data`, which serves no pages */
export async function showConsole(admin: Admin, args: Arguments): Promise<void> {
  if (args.text.data !== undefined) {
    throw new CommandError('The console is a page of a running gateway: use --url, not --data.', 2)
  }
  const { data } = await admin.ask('POST', '/session/once', {})
  const base = data.public_url ?? admin.url
  const link = { url: `${base}/console#token=${data.token}`, expires_at: data.expires_at }
  print(args, link, () => `${link.url}\nIt signs in once, until ${link.expires_at}.\n`)
  if (args.on.has('open')) await open(link.url)
}

/** @throws CommandError where no browser can be opened */
async function open(url: string): Promise<void> {
  const [command = '', ...before] = OPENERS[process.platform] ?? OPENER
  const child = spawn(command, [...before, url], { stdio: 'ignore', detached: true })
  child.unref()
  try {
    await once(child, 'spawn')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new CommandError(`No browser could be opened (${command}: ${code}). Open the link above.`)
  }
}

// Commands over the secret of a key of a running gateway.

/** `keys rotate`: prints the new secret, which cannot be read later. */
export async function rotateKey(admin: Admin, args: Arguments): Promise<void> {
  const overlap =
    args.text.overlap === undefined ? undefined : secondsOf(args.text.overlap, '--overlap')
  const answer = await admin.ask('POST', `${await pathOf(admin, 'key', args)}/rotate`, { overlap })
  print(args, answer, () => {
    const shown = 'The new secret is shown only now:'
    const { until } = answer.data.previous_secret
    return `${keyCard(answer.data)}The secret before works until ${until}.\n${shown}\n\n  ${answer.key}\n`
  })
}

// Commands that show and change one account or key of a running gateway.

const NOUNS = {
  accounts: { settings: ACCOUNT_SETTINGS, cardOf: accountCard },
  keys: { settings: KEY_SETTINGS, cardOf: keyCard },
}

const asking =
  (
    noun: keyof typeof NOUNS,
    method: 'GET' | 'PATCH' | 'DELETE',
    bodyOf: (args: Arguments) => object | undefined = () => undefined,
  ) =>
  async (admin: Admin, args: Arguments): Promise<void> => {
    const body = bodyOf(args)
    const path = await pathOf(admin, noun === 'keys' ? 'key' : 'account', args)
    const { data } = await admin.ask(method, path, body)
    print(args, data, () => NOUNS[noun].cardOf(data))
  }

/** Changes the settings that options name. @throws CommandError if none is given */
const updating = (noun: keyof typeof NOUNS) =>
  asking(noun, 'PATCH', (args) => {
    const change = settingsIn(args, NOUNS[noun].settings)
    if (Object.values(change).some((value) => value !== undefined)) return change
    throw new CommandError(`Nothing to change: "${noun} update --help" lists the settings.`, 2)
  })

export const updateAccount = updating('accounts')
export const disableAccount = asking('accounts', 'PATCH', () => ({ disabled: true }))
export const enableAccount = asking('accounts', 'PATCH', () => ({ disabled: false }))
export const archiveAccount = asking('accounts', 'DELETE')
export const showKey = asking('keys', 'GET')
export const updateKey = updating('keys')
export const disableKey = asking('keys', 'PATCH', () => ({ disabled: true }))
export const enableKey = asking('keys', 'PATCH', () => ({ disabled: false }))
export const archiveKey = asking('keys', 'DELETE')

function accountCard(account: any): string {
  const { limit_status: _, spend, spend_cap, ...members } = account
  return card({ ...members, spend_month: spend.month, cap: capOf({ spend_cap }) })
}

// Commands that show gateways, their guards and their settings.

/** `config show`: the settings of the running gateway; defaults with `--all` only. */
export async function showConfig(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', '/config')
  const settings = args.on.has('all')
    ? data
    : data.filter(({ origin }: any) => origin.from !== 'default')
  print(args, settings, () => {
    const rows = settings.map(({ path, value, origin }: any) => {
      const where = [origin.from, origin.file ?? origin.name].filter((one) => one !== undefined)
      return [path, shown(value), where.join(' ')]
    })
    return table(['SETTING', 'VALUE', 'FROM'], rows)
  })
}

export async function listGateways(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', '/gateways')
  print(args, data, () => {
    const rows = data.map((one: any) => [
      one.id,
      one.version,
      one.started_at,
      one.running,
      one.ledger.ok ? 'books' : 'cannot book',
      one.usage_lag_rows,
      one.log?.rows,
      sumOf(Object.values(one.log?.dropped ?? {})),
    ])
    const headings = ['ID', 'VERSION', 'SINCE', 'RUNNING', 'LEDGER', 'LAG', 'LOGGED', 'DROPPED']
    return table(headings, rows)
  })
}

/** `guard`: decisions of guards, by rule, and their state. */
export async function showGuard(admin: Admin, args: Arguments): Promise<void> {
  const { from, to, account, key } = args.text
  const filters = Object.entries({ from, to, account, key }).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value] as [string, string]],
  )
  const { data } = await admin.ask('GET', `/guard?${new URLSearchParams(filters)}`)
  print(args, data, () => {
    const sums = Map.groupBy(data.decisions, (one: any) =>
      [one.rule || '-', one.side, one.mode, one.outcome].join('\t'),
    )
    const decisions = [...sums].map(([of, days]) => [
      ...of.split('\t'),
      sumOf(days.map(({ calls }: any) => calls)),
    ])
    const guards = data.guards.map((one: any) => [
      one.guard,
      one.execution,
      one.mode,
      one.circuits.find(({ state }: any) => state !== 'closed')?.state ?? 'closed',
      sumOf(one.errors.map(({ count }: any) => count)),
      one.latency
        .map(({ side, p50_ms, p95_ms }: any) => `${side} ${cell(p50_ms)}/${cell(p95_ms)}`)
        .join(', '),
    ])
    return (
      table(['RULE', 'SIDE', 'MODE', 'OUTCOME', 'CALLS'], decisions) +
      `\n${table(['GUARD', 'RUNS', 'MODE', 'CIRCUIT', 'ERRORS', 'P50/P95 MS'], guards)}`
    )
  })
}

/** The sum of counts: numbers of the API are the text that it sent. */
function sumOf(counts: readonly unknown[]): number {
  return counts.reduce((sum: number, one) => sum + Number(cell(one)), 0)
}
