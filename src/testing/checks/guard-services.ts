/** Checks of remote guards: a missing verdict of a model or a service never counts as a pass. */
import { isDeepStrictEqual } from 'node:util'
import type { FakeResponse, ReceivedRequest } from '../fake-upstream.ts'
import {
  checkTexts,
  checkWholeText,
  contextOf,
  prepare,
  textItem,
  type GuardCase,
  type GuardFixture,
} from '../guard-cases.ts'
import { within } from '../provider-under-test.ts'
import { describeError, toCheck, type Check, type CheckRun } from '../report.ts'

const NO_VERDICTS: readonly (readonly [name: string, answer: string])[] = [
  ['nothing', ''],
  ['an excuse', "I'm sorry, but I can't help with that."],
  ['a verdict without a value', '{"verdict":null}'],
]

const page = '<!DOCTYPE html><p>Bad gateway</p>'
const FAULTS: readonly (readonly [name: string, answer: FakeResponse])[] = [
  ['refuses the connection', { pieces: [], ending: 'refuse' }],
  ['says 401', { status: 401, pieces: ['{}'] }],
  ['says 429', { status: 429, pieces: ['{}'] }],
  ['says 500', { status: 500, pieces: ['{}'] }],
  ['answers with a web page', { headers: { 'content-type': 'text/html' }, pieces: [page] }],
  ['answers with nothing', { pieces: [] }],
  ['answers {}', { pieces: ['{}'] }],
]

export async function checkService(fixture: GuardFixture, run: CheckRun): Promise<void> {
  const { cases } = fixture
  const passing = cases.find(({ expect, answer }) => expect === 'pass' && answer)
  const blocking = cases.find(({ expect, answer }) => expect !== 'pass' && answer)
  const modelled = cases.find(({ model }) => model !== undefined)
  if (modelled) await run.run('down', 'a model', () => checkModel(fixture, modelled))
  const served = passing ?? blocking
  if (!served) return
  for (const [name, answer] of FAULTS) {
    await run.run('down', `the service ${name}`, () => checkFault(fixture, served, name, answer))
  }
  await run.run('once', null, () => checkOnce(fixture, served))
  await run.run('cancel', null, () => checkCancel(fixture, served))
  if (passing && blocking) {
    await run.run('repeat', 'another text', () => checkAnother(fixture, passing, blocking))
  }
  const missing = 'write a case that passes and one that is blocked, each with its .http'
  await run.run('verdicts', null, () =>
    passing && blocking
      ? checkVerdicts(fixture, passing, blocking)
      : toCheck('verdicts', null, [missing]),
  )
}

/** The sides on which a text is judged, and whether it passes there. */
async function passesOn(fixture: GuardFixture, one: GuardCase, text: string): Promise<string[]> {
  const { guard } = fixture
  const passed: string[] = []
  const passes = async (side: string, judge: () => Promise<unknown>) => {
    const block = await judge().catch(() => 'an error')
    if (block === undefined) passed.push(side)
  }
  if (guard.checkInput && one.side !== 'output') {
    await passes('input', async () => (await checkTexts(fixture, one, [text]))[0])
  }
  if ((guard.checkOutput ?? guard.streamOutput) && one.side !== 'input') {
    await passes('output', () => checkWholeText(fixture, one, text))
  }
  return passed
}

function anew({ text }: GuardCase): string {
  return `${text} ${Math.trunc(performance.now() * 1000)}`
}

async function checkModel(fixture: GuardFixture, one: GuardCase): Promise<Check> {
  const problems: string[] = []
  for (const [name, model] of NO_VERDICTS) {
    const passed = await passesOn(fixture, { ...one, model }, anew(one))
    if (passed.length > 0) problems.push(`a model answers ${name}, and the text passes`)
  }
  return toCheck('down', 'a model', problems)
}

async function checkFault(
  fixture: GuardFixture,
  { answer: _answer, ...one }: GuardCase,
  name: string,
  answer: FakeResponse,
): Promise<Check> {
  fixture.service.answer(answer)
  const passed = await passesOn(fixture, one, anew(one))
  const problem = `the text passes (${passed.join(', ')})`
  return toCheck('down', `the service ${name}`, passed.length > 0 ? [problem] : [])
}

async function checkOnce(fixture: GuardFixture, one: GuardCase): Promise<Check> {
  const { service, host, guard } = fixture
  const before = { asked: service.requests.length, made: host.requestCount }
  const text = anew(one)
  if (guard.checkInput) await checkTexts(fixture, one, [text]).catch(() => {})
  else await checkWholeText(fixture, one, text).catch(() => {})
  const requests = service.requests.length - before.asked
  const made = host.requestCount - before.made
  const problems: string[] = []
  if (requests > 1)
    problems.push(`it asks ${requests} times about one text; the gateway decides what follows`)
  if (requests > made) problems.push('it asks without host.request and host.http')
  return toCheck('once', null, problems)
}

/** Checks two texts of one length, of which the service passes one: first this one, then the other. */
async function checkAnother(
  fixture: GuardFixture,
  passing: GuardCase,
  blocking: GuardCase,
): Promise<Check> {
  const problems: string[] = []
  const longer = Math.max(passing.text.length, blocking.text.length) + 1
  const passes = (one: GuardCase, length: number) =>
    passesOn(fixture, one, one.text.padEnd(length, '.'))
  await passes(passing, longer)
  if ((await passes(blocking, longer)).length > 0)
    problems.push('a text that the service blocks passes after one of the same length')
  await passes(blocking, longer + 1)
  if ((await passes(passing, longer + 1)).length === 0)
    problems.push('a text that the service lets pass is blocked after one of the same length')
  return toCheck('repeat', 'another text', problems)
}

/** Checks a verdict that is no longer wanted while the service is silent. */
async function checkCancel(fixture: GuardFixture, one: GuardCase): Promise<Check> {
  const { guard, service, timeoutMs } = fixture
  const arrived = Promise.withResolvers<ReceivedRequest>()
  prepare(fixture, one)
  service.answer((request) => {
    arrived.resolve(request)
    return { pieces: [], ending: 'silent' }
  })
  const call = new AbortController()
  const context = { ...contextOf(fixture, one), signal: call.signal }
  const judging = (async () =>
    guard.checkInput
      ? guard.checkInput([textItem(one, anew(one), 'input', 0)], context)
      : guard.checkOutput?.(textItem(one, anew(one), 'output', 0), context))()
  const ended = judging.then(
    () => 'it gave a verdict for a text that was given up',
    () => undefined,
  )
  try {
    const request = await within(arrived.promise, 'no request', timeoutMs)
    call.abort(new Error('the verdict is not wanted any more'))
    const problem = await within(ended, 'the guard did not end', timeoutMs)
    await within(request.aborted, 'the connection was not closed', timeoutMs)
    return toCheck('cancel', null, problem === undefined ? [] : [problem])
  } catch (error) {
    return toCheck('cancel', null, [describeError(error)])
  }
}

/** Checks the members in which a passing and a blocking answer differ: without one of them there is no verdict. */
async function checkVerdicts(
  fixture: GuardFixture,
  passing: GuardCase,
  blocking: GuardCase,
): Promise<Check> {
  const [pass, block] = [passing, blocking].map(({ answer }) => parsed(answer!.body))
  if (pass === undefined || block === undefined) return toCheck('verdicts', null, [], ['no JSON'])
  const problems: string[] = []
  for (const path of differencesOf(pass, block)) {
    for (const [what, change] of CHANGES) {
      const changed = changedAt(structuredClone(pass), path, change)
      if (isDeepStrictEqual(changed, pass)) continue
      const body = Buffer.from(JSON.stringify(changed))
      const one = { ...passing, answer: { ...passing.answer!, body } }
      const passed = await passesOn(fixture, one, anew(passing))
      if (passed.length > 0) problems.push(`without a verdict it passes: ${path.join('.')} ${what}`)
    }
  }
  return toCheck('verdicts', null, problems)
}

type Path = readonly (string | number)[]
const ABSENT = Symbol('absent')
const CHANGES: readonly (readonly [what: string, change: (value: unknown) => unknown])[] = [
  ['is missing', () => ABSENT],
  ['is null', () => null],
  ['has another type', (value) => (typeof value === 'string' ? 7 : 'other')],
  ['is an empty list', (value) => (Array.isArray(value) ? [] : value)],
]

function differencesOf(one: unknown, other: unknown, path: Path = []): Path[] {
  if (isDeepStrictEqual(one, other)) return []
  const isHolder = typeof one === 'object' && one !== null
  if (!isHolder || typeof other !== 'object' || other === null) return [path]
  const inner = Object.keys(one).flatMap((name) =>
    differencesOf(one[name as never], other[name as never], [
      ...path,
      Array.isArray(one) ? Number(name) : name,
    ]),
  )
  return path.length > 0 ? [path, ...inner] : inner
}

function changedAt(value: any, path: Path, change: (value: unknown) => unknown): unknown {
  const [name, ...rest] = path as [string, ...string[]]
  const inner = rest.length > 0 ? changedAt(value[name], rest, change) : change(value[name])
  if (inner !== ABSENT) value[name] = inner
  else if (Array.isArray(value)) value.splice(Number(name), 1)
  else delete value[name]
  return value
}

function parsed(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body).toString())
  } catch {
    return undefined
  }
}
