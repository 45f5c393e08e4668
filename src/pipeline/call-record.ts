/** Makes the record of a call, for logs and for watchers of running calls. The one place that reads a call for it. */
import { hash } from 'node:crypto'
import { formatPico, type Bill, type Pico, type UsageLine } from '../money/money.ts'
import {
  agentOf,
  costDetails,
  quantitiesOf,
  type Attempt,
  type KnownCall,
  type Question,
  type SkippedModel,
} from '../observe/record.ts'
import type { Usage } from '../plugin.ts'
import type { Policy } from '../policy/policy.ts'
import type { Outcome } from '../state/ledger/ledger.ts'
import { dateIn } from '../state/ledger/zone.ts'
import type { Call } from './pipeline.ts'
import { publicName, zoneOf } from '../accounts/limits.ts'
import type { Account, Key, ResolvedKey, Team } from '../accounts/stored.ts'
import type { LimitMembers } from '../server/admin/resources/limit.ts'

function isWhole(admission: Partial<Call['admission']> | undefined): boolean {
  return admission?.key !== undefined
}

/** @param outcome absent while it runs. @param ms the milliseconds since its arrival */
export function recordOf(call: Call, outcome: Outcome | undefined, ms: number): KnownCall {
  const { incoming, answer, marks, made } = call
  const { bill, error, status, decision } = answer
  const { request, target } = made
  // A question of a guard, or a test of a model, has an account and no key.
  const admission = isWhole(made.admission) ? made.admission : undefined
  const usage = usageOf(call, 'model') ?? usageOf(call, 'cache')
  const rate = admission?.entered?.rate
  const exchange = call.runtime.sinks && request && admission ? exchangeOf(call) : undefined
  return {
    id: call.id,
    at: new Date(call.startedAt).toISOString(),
    day: admission && localDayOf(call),
    method: incoming.method,
    endpoint: call.path,
    account_id: made.admission?.account.id,
    team_id: admission?.team?.id,
    key_id: admission?.key.id,
    model: target?.model.id,
    cache: target?.reuse?.result,
    cache_age: target?.reuse?.age,
    ...maskedOf(call),
    asked_model: target?.replaced?.asked.id,
    fallback: target?.replaced?.reason,
    deployment: answer.deployment,
    status: outcome === undefined ? status || undefined : status,
    code: error?.code,
    limited_by: admission?.limit,
    outcome,
    stream: request?.stream,
    times: {
      admit_ms: marks.admitMs,
      guard_ms: marks.guardMs,
      first_ms: marks.firstMs,
      settled_ms: marks.settledMs,
      total_ms: ms,
    },
    usage: quantitiesOf(usage, usageOf(call, 'search')?.searches),
    estimated: usage?.estimated,
    // An answer that was sent again has cost nothing.
    cost_usd: outcome === 'replayed' ? '0' : bill?.text,
    cost_details: bill && costDetails(bill),
    vendor_cost_usd: bill && vendorCost(bill, answer.vendor),
    rate: rate && { limit: rate.limit, left: rate.remaining },
    limits: admission && limitsInForce(admission),
    guard: guardOf(call),
    escalated: call.runtime.sinks && decision?.escalated ? decision.summary() : undefined,
    decided: decision?.decided(),
    ...request?.labels,
    gateway: call.runtime.gatewayId,
    origin: admission?.played ? 'play' : 'api',
    session: sessionHash(request?.session),
    agent: agentOf(incoming.header('user-agent')),
    attempts: isPlain(answer) ? undefined : answer.attempts.map(attemptOf),
    questions: answer.questions?.map(questionOf),
    retry: retriesOf(incoming.header('x-stainless-retry-count')),
    error: error && fitText(error.message),
    trace: call.trace,
    ...exchange,
  }
}

function vendorCost(bill: Bill, vendor: Pico | undefined): string | undefined {
  if (vendor === undefined) return undefined
  return vendor === bill.cost ? bill.text : formatPico(vendor)
}

export function runningRow(call: Call): KnownCall {
  return recordOf(call, undefined, call.elapsedMs)
}

/** The local date of the arrival; undefined for an account in UTC. */
function localDayOf({ admission, runtime, startedAt }: Call): string | undefined {
  const zone = zoneOf(admission.account, runtime.config.defaults)
  return zone === undefined ? undefined : dateIn(zone, startedAt)
}

/** Members for sinks alone: parameters of the request, and the end of the answer. */
function exchangeOf(call: Call): Pick<KnownCall, 'request' | 'response'> {
  const answered = call.answer.exchange
  return {
    request: call.endpoint.exchange?.(call.request.input),
    response: answered && {
      id: answered.id === undefined ? undefined : fitText(answered.id),
      model: answered.model === undefined ? undefined : fitText(answered.model),
      finish_reasons: answered.finish_reasons.slice(0, MOST_REASONS).map((one) => fitText(one)),
    },
  }
}

/** Answers with more choices than these are rare. */
const MOST_REASONS = 32

/** The consumption of one source of the meter; undefined where it has none. */
function usageOf({ answer: { meter } }: Call, source: UsageLine['source']): Usage | undefined {
  return meter.find((line) => line.source === source)?.usage
}

function maskedOf({ made: { target } }: Call): Pick<KnownCall, 'masked' | 'restored' | 'altered'> {
  const masking = target?.masked?.masking
  if (!masking) return {}
  const { restoredCount: restored, alteredCount: altered } = masking
  return { masked: masking.counts(), restored, altered }
}

function guardOf(call: Call): KnownCall['guard'] {
  const { decision } = call.answer
  // A call that was refused before it was admitted has no decision.
  if (!decision) return undefined
  const { runtime, admission } = call
  const { mode, outcome, rules } = decision.summary()
  const isMonitored = mode === 'monitor' && rules.length > 0
  return {
    outcome: isMonitored ? 'monitored' : outcome,
    rules: rules.map((rule) => fitText(rule)),
    policy: runtime.sinks && hashOf(admission.key.policy),
  }
}

/** Whether the one deployment that was asked has answered. */
function isPlain({ attempts }: Call['answer']): boolean {
  return attempts.length === 0 || (attempts.length === 1 && resultOf(attempts[0]!) === 'ok')
}

function resultOf(attempt: Attempt | SkippedModel): string | undefined {
  return 'skipped' in attempt ? undefined : attempt.result
}

function attemptOf(attempt: Attempt | SkippedModel) {
  if ('skipped' in attempt) return attempt
  const { message, ...others } = attempt
  return { ...others, message: message && fitText(message) }
}

function questionOf({ from, rules, ...question }: Question) {
  return { ...question, at_ms: from, rules: rules.map((rule) => fitText(rule)) }
}

/** It is keyed by policy object: that of a key is the same object for many calls. */
const hashes = new WeakMap<Policy, string>()

/** A short name for a policy, equal for equal policies. */
export function hashOf(policy: Policy | undefined): string | undefined {
  if (!policy) return undefined
  let digest = hashes.get(policy)
  if (digest === undefined) {
    digest = hash('sha256', JSON.stringify(policy)).slice(0, 16)
    hashes.set(policy, digest)
  }
  return digest
}

/** Most characters of a text of a record. */
const MOST_CHARACTERS = 300

const PLAIN = /^[\x20-\x7e]*$/

/** Characters that would change the line around them: controls, ends of lines, marks of the direction of writing. */
// oxlint-disable-next-line no-control-regex -- Control characters are what it looks for.
const UNFIT = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g

/** A text for records: at most {@link MOST_CHARACTERS} long, on one line, in whole characters. */
function fitText(text: string, most = MOST_CHARACTERS): string {
  if (text.length <= most && PLAIN.test(text)) return text
  const fit = text.toWellFormed().replace(UNFIT, ' ')
  if (fit.length <= most) return fit
  const end = /[\ud800-\udbff]/.test(fit[most - 2]!) ? most - 2 : most - 1
  return `${fit.slice(0, end)}…`
}

/** The header of an SDK may hold any text of a client: only a small number is recorded. */
export function retriesOf(header: string | undefined): number | undefined {
  return header && /^\d{1,3}$/.test(header) ? Number(header) : undefined
}

/** 16 hexadecimal digits of the hash of a session's name, because a client may name a session by a text of its user. */
export function sessionHash(session: string | undefined): string | undefined {
  return session && hash('sha256', session).slice(0, 16)
}

/** Limits of the chain with which a key was last seen. Records are replaced, never changed. */
const inForce = new WeakMap<
  Key,
  {
    readonly team?: Team | undefined
    readonly account: Account
    readonly limits: LimitsInForce | undefined
  }
>()

type LimitsInForce = Readonly<Record<string, number | string>>

/** Limits along a chain beside the rates, by names such as `key.cap.month`; undefined where there are none. */
function limitsInForce({ key, team, account }: ResolvedKey): LimitsInForce | undefined {
  const cached = inForce.get(key)
  if (cached?.account === account && cached.team === team) return cached.limits
  const of = (owner: 'key' | 'team' | 'account', one: LimitMembers) =>
    (one.limits ?? []).flatMap(({ name, value }) =>
      name === 'rpm' ? [] : [[publicName(owner, name), value] as const],
    )
  const all = [...of('key', key), ...(team ? of('team', team) : []), ...of('account', account)]
  const limits = all.length > 0 ? Object.fromEntries(all) : undefined
  inForce.set(key, { team, account, limits })
  return limits
}
