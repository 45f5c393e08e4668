/** No migrated key passes a limit that refused it at its source: random tables, and calls that are counted on both sides. */
import { describe, expect, it } from 'vitest'
import litellm from '../../plugins/import/litellm.ts'
import { changedLimits, countedOf } from '../../src/accounts/limits.ts'
import { hashSecret } from '../../src/accounts/secrets.ts'
import { simpleForm, type LimitsChange } from '../../src/server/admin/resources/limit.ts'
import { ACCOUNT, teamKey, type KeyLimits } from '../../src/state/ledger/ledger.ts'
import { openInMemory } from '../state/sqlite/_engine.ts'
import { holdOf } from '../state/_hold.ts'
import { runs } from '../_runs.ts'
import { pick, randomOf, type Random } from '../torture/_random.ts'

const CALLS = runs(3000)
const CALLS_OF_ONE = 250
const SEED = Number(process.env.SEED ?? Date.now() % 1_000_000)
const SECOND = 1000
const DAY = 24 * 3600 * SECOND
const START = Date.UTC(2026, 10, 27)
const NAMES = ['small', 'large']
const PICO_PER_CENT = 10n ** 10n
const MODELS = NAMES.map((name) => ({
  model_name: name,
  litellm_params: { model: `openai/${name}`, input_cost_per_token: 1e-6 },
}))
const WINDOWS = { '5h': '5h', '1d': 'day', '7d': 'week', '30d': 'month' } as const

/** A limit of the source, in its own terms. */
interface SourceLimit {
  readonly what: 'cents' | 'requests' | 'tokens'
  readonly window: 'minute' | '5h' | 'day' | 'week' | 'month' | 'lifetime'
  readonly most: number
  readonly model?: string
}

/** Columns of a key, a team or an owner, and what they mean there. */
function limitsOf(random: Random): [columns: object, limits: SourceLimit[]] {
  const columns: Record<string, unknown> = {}
  const limits: SourceLimit[] = []
  const maybe = (write: () => void) => random(4) === 0 && write()
  const count = (column: string, what: 'requests' | 'tokens', window: 'minute' | 'day') =>
    maybe(() => {
      const most = what === 'tokens' ? 100 + random(2000) : 1 + random(20)
      columns[column] = most
      limits.push({ what, window, most })
    })
  count('rpm_limit', 'requests', 'minute')
  count('tpm_limit', 'tokens', 'minute')
  count('rpd_limit', 'requests', 'day')
  count('tpd_limit', 'tokens', 'day')
  const budget = () => {
    const duration = pick(random, Object.keys(WINDOWS) as (keyof typeof WINDOWS)[])
    const most = 1 + random(300)
    return { duration, most, usd: String(most / 100) }
  }
  maybe(() => {
    const { usd, duration, most } = budget()
    if (random(3) === 0) {
      const spent = random(Math.min(most, 100))
      Object.assign(columns, { max_budget: usd, spend: String(spent / 100) })
      limits.push({ what: 'cents', window: 'lifetime', most: most - spent })
      return
    }
    Object.assign(columns, { max_budget: usd, budget_duration: duration })
    limits.push({ what: 'cents', window: WINDOWS[duration], most })
  })
  maybe(() => {
    const list = [budget(), budget()]
    columns.budget_limits = list.map(({ usd, duration }) => ({
      max_budget: usd,
      budget_duration: duration,
    }))
    for (const { duration, most } of list) {
      limits.push({ what: 'cents', window: WINDOWS[duration], most })
    }
  })
  for (const model of NAMES) {
    maybe(() => {
      const most = 1 + random(10)
      columns.model_rpm_limit = { ...(columns.model_rpm_limit as object), [model]: most }
      limits.push({ what: 'requests', window: 'minute', most, model })
    })
    maybe(() => {
      const { usd, duration, most } = budget()
      const one = { budget_limit: usd, time_period: duration }
      columns.model_max_budget = { ...(columns.model_max_budget as object), [model]: one }
      limits.push({ what: 'cents', window: WINDOWS[duration], most, model })
    })
  }
  return [columns, limits]
}

/** The name of a calendar window, or how long one that a call opens lasts, ms. */
function windowAt(window: SourceLimit['window'], at: number): string | number {
  const date = new Date(at)
  switch (window) {
    case 'minute':
      return 60 * SECOND
    case '5h':
      return 5 * 3600 * SECOND
    case 'day':
      return date.toISOString().slice(0, 10)
    case 'week':
      return new Date(at - ((date.getUTCDay() + 6) % 7) * DAY).toISOString().slice(0, 10)
    case 'month':
      return date.toISOString().slice(0, 7)
    case 'lifetime':
      return '-'
  }
}

/** A limit of the source with what it has counted. */
class Counted {
  readonly limit: SourceLimit
  #window: string | number = ''
  #sum = 0

  constructor(limit: SourceLimit) {
    this.limit = limit
  }

  #turn(at: number): void {
    const window = windowAt(this.limit.window, at)
    const isOpen =
      typeof window === 'string'
        ? this.#window === window
        : typeof this.#window === 'number' && at < this.#window + window
    if (isOpen) return
    this.#window = typeof window === 'string' ? window : at
    this.#sum = 0
  }

  refuses(at: number): boolean {
    this.#turn(at)
    return this.#sum >= this.limit.most
  }

  count(at: number, figures: Readonly<Record<SourceLimit['what'], number>>): void {
    this.#turn(at)
    this.#sum += figures[this.limit.what]
  }
}

/** What the ledger is told of settings of the admin API. */
function toLedger(settings: Readonly<Record<string, unknown>>): KeyLimits {
  const { rpm_limit, spend_cap, limits } = settings
  const change = { rpm: rpm_limit, spendCap: spend_cap, limits } as LimitsChange
  const members = { limits: changedLimits({}, change, 0) }
  const { rpm = 1_000_000 } = simpleForm(members)
  return { disabled: false, rpm, concurrency: 10, counted: countedOf(members) }
}

/** A random installation with one key, as a caller of both sides. */
function installation(random: Random, number: number) {
  const hasTeam = random(2) === 0
  const hasOrganization = random(2) === 0
  const [ofKey, keyLimits] = limitsOf(random)
  const [ofTeam, teamLimits] = limitsOf(random)
  const [ofOwner, ownerLimits] = limitsOf(random)
  const owner = hasOrganization ? 'organization_id' : 'user_id'
  const isOwned = hasOrganization || !hasTeam
  const migrated = litellm.read({
    config: { model_list: MODELS },
    tables: new Map<string, Readonly<Record<string, unknown>>[]>([
      [
        'keys',
        [
          {
            token: hashSecret(`sk-number-${number}`),
            ...ofKey,
            ...(hasTeam && { team_id: 'red' }),
            ...(isOwned && { [owner]: 'acme' }),
          },
        ],
      ],
      ['teams', [{ team_id: 'red', ...ofTeam }]],
      ['organizations', [{ organization_id: 'acme', ...ofOwner }]],
      ['users', [{ user_id: 'acme', ...ofOwner }]],
    ]),
    accept: new Set(),
    listed: new Set(),
  })
  const limits = [
    ...keyLimits,
    ...(hasTeam ? teamLimits : []),
    ...(isOwned ? ownerLimits : []),
  ].map((limit) => new Counted(limit))
  return { migrated, limits }
}

describe('limits of a migrated key', () => {
  it('beyond sixteen disable it, unless they are accepted by name', () => {
    const names = Array.from({ length: 20 }, (_, i) => `m${i}`)
    const model_list = names.map((name) => ({
      model_name: name,
      litellm_params: { model: `openai/${name}` },
    }))
    const row = {
      token: hashSecret('sk-of-many'),
      rpm_limit: 5,
      model_rpm_limit: Object.fromEntries(names.map((name) => [name, 3])),
    }
    const read = (accept: readonly string[]) => {
      const tables = new Map([['keys', [row]]])
      const options = { tables, accept: new Set(accept), listed: new Set<string>() }
      const { keys, notes } = litellm.read({ config: { model_list }, ...options })
      const said = notes.filter(({ where }) => where.endsWith(': limits'))
      return [keys![0]!.disabled, keys![0]!.settings.limits, said.map(({ message }) => message)]
    }
    const sixteen = expect.objectContaining({ length: 16 })
    const many = 'it has 21 limits, and here at most 16'
    expect(read([])).toEqual([true, sixteen, [`${many}: the key is created disabled`]])
    expect(read(['limits'])).toEqual([false, sixteen, [`${many}: accepted without it`]])
  })

  it(`admit nothing that its source refused, in ${CALLS} calls (seed ${SEED})`, async () => {
    let admitted = 0
    let refused = 0
    for (let number = 0; number < CALLS / CALLS_OF_ONE; number++) {
      const random = randomOf(SEED, number)
      const { migrated, limits } = installation(random, number)
      const { keys, accounts, teams } = migrated
      const [{ account, id: key, settings, disabled }] = keys as [(typeof keys)[0]]
      expect(disabled, `seed ${SEED}, ${number}`).toBe(false)
      const team = settings.team_id as string | undefined
      let now = START + random(DAY)
      const { ledger } = openInMemory({ now: () => now })
      await ledger.book({ kind: 'top-up', account, amount: 10n ** 18n, reference: 'first' })
      await ledger.limits(account, key, toLedger(settings), 1)
      await ledger.limits(account, ACCOUNT, toLedger(accounts.get(account)!.settings ?? {}), 1)
      if (team !== undefined) {
        await ledger.limits(account, teamKey(team), toLedger(teams!.get(team)!.settings), 1)
      }
      for (let call = 0; call < CALLS_OF_ONE; call++) {
        now += pick(random, [1, SECOND, 20 * SECOND, 3600 * SECOND, 9 * 3600 * SECOND])
        const model = pick(random, NAMES)
        const lease = { account, key, request: `r${call}`, ...(team !== undefined && { team }) }
        const entered = await ledger.enter({
          ...lease,
          revision: 1,
          accountRevision: 1,
          teamRevision: 1,
          freeTier: { rpm: 1, concurrency: 1 },
        })
        const figures = { cents: 1 + random(20), requests: 1, tokens: 10 + random(200) }
        const cost = BigInt(figures.cents) * PICO_PER_CENT
        const held = entered.ok
          ? await ledger.hold({
              ...lease,
              ...holdOf(cost),
              at: entered.at,
              free: false,
              model: `openai/${model}`,
              tokens: { expected: figures.tokens, ceiling: figures.tokens },
            })
          : entered
        if (!held.ok) {
          refused++
          if (entered.ok) await ledger.leave(lease)
          continue
        }
        admitted++
        const applying = limits.filter(({ limit }) => (limit.model ?? model) === model)
        const refusing = applying.find((limit) => limit.refuses(now))
        const told = { seed: SEED, number, call, limit: refusing?.limit, settings }
        expect(refusing, JSON.stringify(told)).toBeUndefined()
        for (const limit of applying) limit.count(now, figures)
        await ledger.settle({
          ...lease,
          day: held.day,
          cost,
          usage: {
            at: now,
            endpoint: 'chat',
            model: `openai/${model}`,
            outcome: 'completed',
            ...(held.counted !== undefined && { counted: held.counted }),
            lines: [{ source: 'model', usage: { promptTokens: figures.tokens } }],
          } as never,
        })
      }
      await ledger.close()
    }
    // The calls are neither all refused nor all admitted.
    expect(admitted).toBeGreaterThan(CALLS / 10)
    expect(refused).toBeGreaterThan(CALLS / 10)
  })
})
