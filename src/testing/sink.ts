/** The conformance kit for sinks: sends events as the gateway would, to a fake receiver on a local socket. */
import { FAILURE_CLASSES } from '../errors/errors.ts'
import type { FailureClass, GatewayEvent, SinkHost, SinkPlugin, Sink } from '../plugin.ts'
import {
  checkCancel,
  checkClose,
  checkMemory,
  checkSecrets,
  KEY,
  type ServiceOptions,
  checkRefusal,
  refusals,
  type Fault,
  type ServiceFixture,
} from './checks/service.ts'
import { json, startUpstream, type FakeResponse, type ReceivedRequest } from './fake-upstream.ts'
import { IsolatedHost } from './hosts.ts'
import { growth } from './measure.ts'
import {
  CheckRun,
  describeError,
  kitDefaults,
  reportOf,
  skipped,
  toCheck,
  type Check,
  type KitReport,
  failureProblems,
} from './report.ts'
import { secretsIn } from './secrets.ts'
import { optionsWithAddress } from './set-up.ts'
import { EVENT_NAMES, markedEvent, sampleEvent, type SinkCase } from './sink-cases.ts'
import { missingMembers } from './compare.ts'

export type { SinkCase }

export interface SinkTestOptions extends ServiceOptions {
  readonly cases?: readonly SinkCase[]
}

const NO_RECEIVER = 'it sends nothing over HTTP'
const FINAL: readonly FailureClass[] = ['bad_request', 'payload_too_large']
const MAX_BATCH = 1000
const DEFAULT_BATCH = 512
/** Sizes of batches. */
const SIZES = [1, 50, 500, 1000]
const TELEMETRY: SinkHost['telemetry'] = {
  semconv: 'v1.41',
  service: 'sluicegate',
  ratio: 1,
  slow: 10,
  providers: {},
  version: '0.0.0',
}

/** Checks a sink. @throws ConfigError if the options are invalid; whatever `setup` throws */
export async function testSink(
  plugin: SinkPlugin,
  options: SinkTestOptions = {},
): Promise<KitReport> {
  const { seed, patience } = kitDefaults(options)
  const receiver = await startUpstream(json({}))
  const host = new IsolatedHost(receiver.url)
  const run = new CheckRun(options, patience)
  const { cases = [] } = options
  try {
    const { value, given } = await optionsWithAddress(plugin, options, receiver.url, KEY)
    const made = { ...host.hostOf(plugin.name), telemetry: TELEMETRY }
    const sink = await plugin.setup(value, made)
    const fixture: SinkFixture = { plugin, sink, host, service: receiver, patience, thrown: [] }
    const secrets = [...new Set([KEY, ...secretsIn(given)])]
    const setUp = checkSetUp(fixture)
    await run.run('set up', null, () => setUp)
    if (setUp.result === 'ok') await runChecks(fixture, cases, run, options.thorough ?? false)
    await run.run('secrets', null, () => checkSecrets(fixture, secrets))
    await run.run('close', null, () => checkClose(sink, fixture))
    const names = cases.map(({ name }) => name)
    return reportOf(plugin, { seed, cases: names }, run.checks, secrets)
  } finally {
    await host.close()
    await receiver.close()
  }
}

/** Sends the events of each case once, to a receiver that answers as the case says. The result is ignored. */
export async function playSinkCases(
  plugin: SinkPlugin,
  cases: readonly SinkCase[],
  options: Pick<SinkTestOptions, 'options' | 'addressOption'>,
): Promise<void> {
  await using receiver = await startUpstream(json({}))
  const host = new IsolatedHost(receiver.url)
  try {
    const { value } = await optionsWithAddress(plugin, options, receiver.url, KEY)
    const made = { ...host.hostOf(plugin.name), telemetry: TELEMETRY }
    const sink = await plugin.setup(value, made)
    const { patience } = kitDefaults({})
    const fixture: SinkFixture = { plugin, sink, host, service: receiver, patience, thrown: [] }
    for (const one of cases) await checkCase(fixture, one)
    await sink.close?.()
  } finally {
    await host.close()
  }
}

async function runChecks(
  fixture: SinkFixture,
  cases: readonly SinkCase[],
  run: CheckRun,
  thorough: boolean,
): Promise<void> {
  const missing = 'there is no case; write one with "sent", such as hello.json'
  await run.run('cases', null, () => toCheck('cases', null, cases.length > 0 ? [] : [missing]))
  for (const one of cases) await run.run('events', one.name, () => checkCase(fixture, one))
  const { takes } = fixture.sink
  for (const name of takes) await run.run('events', name, () => checkTaken(fixture, name))
  const all = () => takes.map((name) => sampleEvent(name))
  const { error, asked } = await sendBatch(fixture, json({}), all())
  // What stays on this machine, such as a file, has no receiver that could fail.
  if (asked.length === 0 && error === undefined) {
    for (const name of ['errors', 'repeat', 'cancel']) {
      await run.run(name, null, () => skipped(name, null, NO_RECEIVER))
    }
  } else {
    await run.run('events', 'an unknown one', () => checkUnknown(fixture))
    for (const name of takes) {
      await run.run('events', `many of ${name}`, () => checkMany(fixture, name))
    }
    for (const fault of faults()) {
      const one = [sampleEvent(takes[0]!)]
      await run.run('errors', fault[0], async () =>
        checkRefusal(fault, await sendBatch(fixture, fault[1], one)),
      )
    }
    await run.run('repeat', null, () => checkRepeat(fixture))
    await run.run('cancel', null, () =>
      checkCancel(fixture, {
        name: 'the batch',
        resolved: 'it resolved, although the receiver had not answered',
        start: (signal) => fixture.sink.send([sampleEvent(takes[0]!)], signal),
      }),
    )
  }
  if (!thorough) return
  await run.run('time', null, () => checkTime(fixture))
  await run.run('memory', null, () =>
    checkMemory(fixture, 'batches', () => sendBatch(fixture, json({}), [sampleEvent(takes[0]!)])),
  )
}

/** Refusals: events that the receiver will never take are dropped, those that it cannot take now are not. */
function faults(): readonly Fault[] {
  return refusals(KEY).map(([name, answer, classes]): Fault => {
    const isFinal = classes.some((one) => FINAL.includes(one))
    if (isFinal) return [name, answer, FINAL]
    const isLater = name === '429' || name === '503' || name === 'reset'
    return [name, answer, isLater ? classes : FAILURE_CLASSES]
  })
}

function checkSetUp({ sink, host }: SinkFixture): Check {
  const problems: string[] = []
  if (typeof sink?.send !== 'function') problems.push('"setup" has to return an object with "send"')
  const { takes, batch } = (sink ?? {}) as Partial<SinkFixture['sink']>
  if (!Array.isArray(takes) || takes.length === 0) problems.push('"takes" names no event')
  else {
    const unknown = takes.find((name) => !EVENT_NAMES.includes(name))
    if (unknown !== undefined)
      problems.push(`"takes" has ${JSON.stringify(unknown)}; there are ${EVENT_NAMES.join(', ')}`)
  }
  if (batch !== undefined && !(Number.isInteger(batch) && batch >= 1 && batch <= MAX_BATCH))
    problems.push(`"batch" is ${JSON.stringify(batch)}, expected 1 to ${MAX_BATCH}`)
  const others = [...host.refusedOrigins]
  if (others.length > 0) problems.push(`it asked ${others.join(', ')}`)
  return toCheck('set up', null, problems)
}

/** Checks that an event is sent before the promise resolves, and that a 204 is an answer too. */
async function checkTaken(fixture: SinkFixture, name: GatewayEvent['event']): Promise<Check> {
  const problems: string[] = []
  const refused = fixture.host.refusedOrigins.size
  for (const status of [200, 204]) {
    const event = [sampleEvent(name)]
    const answer = { status, pieces: status === 204 ? [] : ['{}'] }
    const { error, asked } = await sendBatch(fixture, answer, event)
    if (error !== undefined) problems.push(`a ${status}: ${describeError(error)}`)
    else if (asked.length === 0 && fixture.service.requests.length > 0)
      problems.push('it resolves, and has sent nothing')
  }
  if (fixture.host.refusedOrigins.size > refused) problems.push('it asked another host')
  return toCheck('events', name, [...new Set(problems)])
}

/** Checks that all events of batches of several sizes arrive once. */
async function checkMany(fixture: SinkFixture, name: GatewayEvent['event']): Promise<Check> {
  const on = `many of ${name}`
  const { batch = DEFAULT_BATCH } = fixture.sink
  const arrivals = async (count: number) => {
    const words = Array.from({ length: count }, (_, i) => `zq${i}x`)
    const events = words.map((word) => markedEvent(name, word))
    const { asked, error } = await sendBatch(fixture, json({}), events)
    const counts = new Map<string, number>()
    for (const { path, body } of asked)
      for (const [word] of `${path} ${body}`.matchAll(/zq\d+x/g))
        counts.set(word, (counts.get(word) ?? 0) + 1)
    return { error, counts: words.map((word) => counts.get(word) ?? 0) }
  }
  const [each = 0] = (await arrivals(1)).counts
  if (each === 0) return toCheck('events', on, [], ['nothing in the request tells events apart'])
  for (const size of new Set(SIZES.map((one) => Math.min(one, batch)))) {
    const { error, counts } = await arrivals(size)
    const lost = counts.filter((count) => count === 0).length
    const twice = counts.filter((count) => count > each).length
    const problem = error !== undefined ? describeError(error) : undefined
    const problems = [
      problem ?? [],
      lost > 0 ? `${lost} do not arrive` : [],
      twice > 0 ? `${twice} arrive more than once` : [],
    ].flat()
    if (problems.length > 0)
      return toCheck('events', on, [`of ${size} events ${problems.join(', ')}`])
  }
  return toCheck('events', on, [])
}

async function checkUnknown(fixture: SinkFixture): Promise<Check> {
  const [name] = fixture.sink.takes
  const later = { ...sampleEvent(name!), event: 'later.version' as never, data: {} as never }
  const { error } = await sendBatch(fixture, json({}), [later])
  const problem = `it fails for a name that it does not know: ${describeError(error)}`
  return toCheck('events', 'an unknown one', error === undefined ? [] : [problem])
}

/** Checks that a failed batch arrives when it is sent again, and so does one after it; a long one has an end. */
async function checkRepeat(fixture: SinkFixture): Promise<Check> {
  const { takes, batch = DEFAULT_BATCH } = fixture.sink
  const [name] = takes
  const problems: string[] = []
  const one = [sampleEvent(name!)]
  await sendBatch(fixture, json({}, 500), one)
  const again = await sendBatch(fixture, json({}), one)
  if (again.error !== undefined || again.asked.length === 0)
    problems.push('a batch that failed does not arrive when it is sent again')
  const next = await sendBatch(fixture, json({}), [sampleEvent(name!)])
  if (next.error !== undefined || next.asked.length === 0)
    problems.push('a batch after one that failed does not arrive')
  const many = Array.from({ length: batch }, () => sampleEvent(name!))
  const long = await sendBatch(fixture, json({}), many)
  if (long.error !== undefined)
    problems.push(`a batch of ${batch} events: ${describeError(long.error)}`)
  return toCheck('repeat', null, problems)
}

async function checkTime(fixture: SinkFixture): Promise<Check> {
  const [name] = fixture.sink.takes
  const run = (size: number) =>
    sendBatch(
      fixture,
      json({}),
      Array.from({ length: size }, () => sampleEvent(name!)),
    )
  // A sink may make a request for each event.
  return toCheck('time', null, await growth('events', run, 20, 2000))
}

interface SinkFixture extends ServiceFixture {
  readonly plugin: SinkPlugin
  readonly sink: Sink
}

interface Sending {
  readonly error?: unknown
  readonly asked: readonly ReceivedRequest[]
}

/** Sends a batch, in bounded time. Never throws. */
async function sendBatch(
  { sink, service, patience, thrown }: SinkFixture,
  answer: FakeResponse,
  events: readonly GatewayEvent[],
): Promise<Sending> {
  service.answer(answer)
  const before = service.requests.length
  const batch = new AbortController()
  const received = () => service.requests.slice(before)
  try {
    const sending = (async () => sink.send(Object.freeze([...events]), batch.signal))()
    await patience.wait(sending, 'it did not end')
    return { asked: received() }
  } catch (error) {
    thrown.push(error)
    return { error: error ?? new Error('nothing was thrown'), asked: received() }
  } finally {
    batch.abort()
  }
}

async function checkCase(fixture: SinkFixture, one: SinkCase): Promise<Check> {
  const { name, answer, expect } = one
  const events = one.events.map(({ event, ...members }) => sampleEvent(event, members))
  const response = answer
    ? { status: answer.status, headers: answer.headers, pieces: [answer.body] }
    : json({})
  const { error, asked } = await sendBatch(fixture, response, events)
  const problems: string[] = []
  problems.push(...failureProblems(expect, error))
  const { requests } = expect
  if (requests !== undefined && asked.length !== requests) {
    problems.push(`it made ${asked.length} requests, expected ${requests}`)
  } else if (requests === undefined && asked.length === 0) problems.push('it made no request')
  if (asked[0] && expect.sent)
    problems.push(...missingMembers(expect.sent, bodyOf(asked[0]), 'sent'))
  return toCheck('events', name, problems)
}

function bodyOf({ body }: ReceivedRequest): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    return {}
  }
}
