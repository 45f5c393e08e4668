/** The conformance kit for payment plugins: orders, webhooks and questions as the gateway has them, against a fake provider. */
import { isDeepStrictEqual } from 'node:util'
import { eventProblem } from '../payments/orders.ts'
import type { CheckoutOrder, PaymentEvent, Payments, PaymentsPlugin } from '../plugin.ts'
import {
  checkCancel,
  checkClose,
  checkSecrets,
  KEY,
  refusals,
  type ServiceFixture,
  type ServiceOptions,
} from './checks/service.ts'
import { json, startUpstream, type FakeResponse } from './fake-upstream.ts'
import { IsolatedHost } from './hosts.ts'
import {
  CheckRun,
  describeError,
  kitDefaults,
  reportOf,
  toCheck,
  type KitReport,
} from './report.ts'
import { secretsIn } from './secrets.ts'
import { optionsWithAddress } from './set-up.ts'
import type { RecordedResponse } from './transcripts.ts'

/** A webhook with `body`, an order, or a question for the page with the id `find`. */
export interface PaymentsCase {
  readonly name: string
  /** The body of a webhook: a text, or an object that is sent as JSON. */
  readonly body?: unknown
  /** Members that an order leaves out are those of a sample. */
  readonly order?: Partial<CheckoutOrder>
  readonly find?: string
  /** The answer of the provider to every request; an empty object by default. */
  readonly answer?: RecordedResponse
  /** `events` of a webhook and of a question; `checkout` of an order. */
  readonly expect: {
    readonly events?: readonly PaymentEvent[]
    readonly checkout?: { readonly id: string; readonly url: string }
  }
}

/** Signs a body as the provider does. @param options the options of the plugin, with its secret. @param at seconds since epoch */
export type SignWebhook = (
  body: string,
  options: Readonly<Record<string, any>>,
  at: number,
) => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>

export interface PaymentsTestOptions extends ServiceOptions {
  readonly cases: readonly PaymentsCase[]
  readonly sign: SignWebhook
  /** The currency in which customers pay; `eur` by default. */
  readonly currency?: string
}

const ORDER: CheckoutOrder = {
  reference: 'pay_0123456789abcdef01234567',
  description: '25 USD of credit',
  amount: '23.00',
  currency: 'eur',
  returnUrl: 'https://gate.example/me?payment=pay_0123456789abcdef01234567',
  cancelUrl: 'https://gate.example/me',
}
const OLD_SECONDS = 3600
/** Refusals of which an own repetition of the plugin does not take long. */
const FAULTS = ['401', '429', '500', 'redirect', 'HTML, 502', 'reset']

type Questions = Readonly<Record<string, (signal: AbortSignal) => Promise<unknown>>>

interface PaymentsFixture extends ServiceFixture {
  readonly payments: Payments
  readonly sign: SignWebhook
  readonly given: Readonly<Record<string, unknown>>
}

/** Checks a payment plugin. @throws ConfigError if the options are invalid; whatever `setup` throws */
export async function testPayments(
  plugin: PaymentsPlugin,
  options: PaymentsTestOptions,
): Promise<KitReport> {
  const { seed, patience } = kitDefaults(options)
  const { cases, sign, currency = 'eur' } = options
  const service = await startUpstream(json({}))
  const host = new IsolatedHost(service.url)
  const run = new CheckRun(options, patience)
  try {
    const { value, given } = await optionsWithAddress(plugin, options, service.url, KEY)
    const directory = process.cwd()
    const payments = await plugin.setup(value, {
      ...host.hostOf(plugin.name),
      currency,
      directory,
    })
    const fixture = { payments, sign, given, host, service, patience, thrown: [] }
    const methods = ['checkout', 'read', 'find'] as const
    const lacks = methods.filter((name) => typeof payments?.[name] !== 'function')
    const problems = lacks.map((name) => `"setup" has to return an object with "${name}"`)
    await run.run('set up', null, () => toCheck('set up', null, problems))
    if (problems.length === 0) await runChecks(fixture, cases, run)
    const secrets = [...new Set([KEY, ...secretsIn(given)])]
    await run.run('secrets', null, () => checkSecrets(fixture, secrets))
    await run.run('close', null, () => checkClose(payments, fixture))
    const names = cases.map(({ name }) => name)
    return reportOf(plugin, { seed, cases: names }, run.checks, secrets)
  } finally {
    await host.close()
    await service.close()
  }
}

/** Plays cases without a judgement, for those who watch the plugin. */
export async function playPaymentsCases(
  plugin: PaymentsPlugin,
  cases: readonly PaymentsCase[],
  sign: SignWebhook,
  options: Pick<PaymentsTestOptions, 'options' | 'addressOption'>,
): Promise<void> {
  await using service = await startUpstream(json({}))
  const host = new IsolatedHost(service.url)
  try {
    const { value, given } = await optionsWithAddress(plugin, options, service.url, KEY)
    const own = { currency: 'eur', directory: process.cwd() }
    const payments = await plugin.setup(value, { ...host.hostOf(plugin.name), ...own })
    const { patience } = kitDefaults({})
    const fixture = { payments, sign, given, host, service, patience, thrown: [] }
    for (const one of cases) await problemsOf(fixture, one)
    await payments.close?.()
  } finally {
    await host.close()
  }
}

async function runChecks(
  fixture: PaymentsFixture,
  cases: readonly PaymentsCase[],
  run: CheckRun,
): Promise<void> {
  const webhooks = cases.filter(({ body }) => body !== undefined)
  await run.run('cases', null, () => toCheck('cases', null, missingCases(cases)))
  for (const one of cases) {
    await run.run('payments', one.name, async () =>
      toCheck('payments', one.name, await problemsOf(fixture, one)),
    )
  }
  for (const one of webhooks) {
    await run.run('signature', one.name, async () =>
      toCheck('signature', one.name, await signatureProblems(fixture, one)),
    )
  }
  await run.run('repeat', null, async () => {
    const again = [...webhooks.toReversed(), ...webhooks, ...webhooks]
    const problems: string[] = []
    for (const one of again) problems.push(...(await problemsOf(fixture, one)))
    return toCheck('repeat', null, [...new Set(problems)])
  })
  const page = cases.find(({ find }) => find !== undefined)?.find ?? 'page_1'
  const questions: Questions = {
    checkout: (signal) => fixture.payments.checkout(ORDER, signal),
    find: (signal) => fixture.payments.find(page, signal),
  }
  for (const [on, answer] of refusals(KEY).filter(([name]) => FAULTS.includes(name))) {
    await run.run('errors', on, async () =>
      toCheck('errors', on, await refusedProblems(fixture, answer, questions)),
    )
  }
  for (const [name, ask] of Object.entries(questions)) {
    await run.run('cancel', name, () =>
      checkCancel(fixture, {
        on: name,
        name: `the ${name}`,
        resolved: 'it gave an answer, although the provider had not',
        start: ask,
      }),
    )
  }
}

/** What is wrong where the provider refuses: neither question may have an answer. Both are asked at once. */
async function refusedProblems(
  fixture: PaymentsFixture,
  answer: FakeResponse,
  questions: Questions,
): Promise<string[]> {
  fixture.service.answer(answer)
  const checks = Object.entries(questions).map(async ([name, ask]) => {
    const made = await outcomeOf(fixture, () => ask(AbortSignal.timeout(10_000)))
    return 'error' in made ? [] : [`${name}: it gave an answer, although the provider refused`]
  })
  return (await Promise.all(checks)).flat()
}

/** What orders and facts of every kind need: each is a case. */
function missingCases(cases: readonly PaymentsCase[]): string[] {
  const eventLists = cases
    .filter(({ body }) => body !== undefined)
    .map(({ expect }) => expect.events ?? [])
  const has = (type: PaymentEvent['type']) => eventLists.flat().some((event) => event.type === type)
  const needs = {
    'a payment': has('paid'),
    'a refund': has('refunded'),
    'a payment that is not made yet, with no events': eventLists.some(
      (events) => events.length === 0,
    ),
    'an order': cases.some(({ order }) => order !== undefined),
    'a question': cases.some(({ find }) => find !== undefined),
  }
  const missing = Object.entries(needs).filter(([, is]) => !is)
  return missing.map(([what]) => `there is no case of ${what}`)
}

async function problemsOf(fixture: PaymentsFixture, one: PaymentsCase): Promise<string[]> {
  const { payments, service } = fixture
  const { answer, expect, order, find } = one
  service.answer(
    answer ? { status: answer.status, headers: answer.headers, pieces: [answer.body] } : json({}),
  )
  const signal = AbortSignal.timeout(10_000)
  const made = await outcomeOf<unknown>(fixture, () => {
    if (order) return payments.checkout({ ...ORDER, ...order }, signal)
    if (find !== undefined) return payments.find(find, signal)
    return deliver(fixture, textOf(one))
  })
  if ('error' in made) return [`it failed: ${describeError(made.error)}`]
  const wanted = order ? expect.checkout : (expect.events ?? [])
  if (!isDeepStrictEqual(made.result, wanted))
    return [`expected ${JSON.stringify(wanted)}, found ${JSON.stringify(made.result)}`]
  const events = order ? [] : (made.result as readonly PaymentEvent[])
  return events.flatMap((event) => eventProblem(event) ?? [])
}

/** Deliveries that prove nothing: each has to be refused. */
async function signatureProblems(fixture: PaymentsFixture, one: PaymentsCase): Promise<string[]> {
  const body = textOf(one)
  const at = Math.floor(body.length / 2)
  const changed = `${body.slice(0, at)}${body[at] === '1' ? '2' : '1'}${body.slice(at + 1)}`
  const other = Object.fromEntries(
    Object.entries(fixture.given).map(([name, value]) => [name, otherSecret(name, value)]),
  )
  const forged = {
    'without a signature': () => read(fixture, {}, body),
    'with one byte changed': () => deliver(fixture, body, changed),
    'signed with another secret': () => deliver(fixture, body, body, other),
    'an hour old': () => deliver(fixture, body, body, fixture.given, OLD_SECONDS),
  }
  const problems: string[] = []
  for (const [what, send] of Object.entries(forged)) {
    const made = await outcomeOf(fixture, send)
    if ('error' in made) problems.push(`${what}: it failed: ${describeError(made.error)}`)
    else if (made.result !== undefined) problems.push(`${what}: it was not refused with undefined`)
  }
  return problems
}

function otherSecret(name: string, value: unknown): unknown {
  return secretsIn(value, name).length > 0 && typeof value === 'string' ? `${value}x` : value
}

/** @param sent what is sent in place of what was signed. @param age the age of the signature in seconds */
async function deliver(
  fixture: PaymentsFixture,
  signed: string,
  sent = signed,
  options: Readonly<Record<string, unknown>> = fixture.given,
  age = 0,
) {
  const headers = await fixture.sign(signed, options, Math.floor(Date.now() / 1000) - age)
  return read(fixture, headers, sent)
}

function read(
  { payments }: PaymentsFixture,
  headers: Readonly<Record<string, string>>,
  body: string,
) {
  return payments.read({ headers: new Headers(headers), body: Buffer.from(body) })
}

function textOf({ body }: PaymentsCase): string {
  return typeof body === 'string' ? body : JSON.stringify(body)
}

type Outcome<T> = { readonly result: T } | { readonly error: unknown }

async function outcomeOf<T>(
  { patience, thrown }: PaymentsFixture,
  work: () => Promise<T>,
): Promise<Outcome<T>> {
  try {
    return { result: await patience.wait((async () => work())(), 'it did not end') }
  } catch (error) {
    thrown.push(error)
    return { error: error ?? new Error('nothing was thrown') }
  }
}
