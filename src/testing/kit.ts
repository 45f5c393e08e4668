/** The conformance kit for providers: runs every check against a fake upstream. */
import { isDeepStrictEqual } from 'node:util'
import {
  NO_UPSTREAM,
  eventsOf,
  replay,
  type Fixture,
  type Case,
  splitPoints,
  toFakeResponse,
} from './fixture.ts'
import {
  CheckRun,
  describeError,
  kitDefaults,
  reportOf,
  skipped,
  toCheck,
  type Check,
  type KitOptions,
  type KitReport,
  notFailure,
  failureProblems,
} from './report.ts'
import { schemaViolations, streamViolations, usageViolations } from './rules.ts'
import { checkConversations, type RequestForm } from './checks/conversations.ts'
import { checkFailures, checkSecrets, checkTexts, textAsks } from './checks/failures.ts'
import {
  checkCancel,
  checkHang,
  checkPressure,
  checkMemory,
  checkRepeat,
  checkSignal,
  checkTime,
} from './checks/disconnects.ts'
import { checkInterleaved } from './checks/interleaved.ts'
import { checkForwarded } from './checks/forwarded.ts'
import { checkModels } from './checks/models.ts'
import {
  choicesIn,
  differences,
  reasonsIn,
  usageDifferences,
  missingMembers,
  show,
} from './compare.ts'
import { damaged } from './damaged.ts'
import { randomFrom, cutAt, splitBytewise, splitRandomly } from './splits.ts'
import { secretsIn } from './secrets.ts'
import { toTestRequest, type TestRequest } from './requests.ts'
import { setUp, type ProviderSetup } from './set-up.ts'
import type { Outcome, ProviderUnderTest } from './provider-under-test.ts'
import type { Transcript, RecordedResponse, Expected } from './transcripts.ts'
import { startUpstream, type ReceivedRequest, json } from './fake-upstream.ts'
import { UpstreamFailure } from '../errors/errors.ts'

export interface TestOptions extends ProviderSetup, KitOptions {
  /** When absent, two samples of a vendor in OpenAI's format are used, if the provider can read them. */
  readonly transcripts?: readonly Transcript[]
  /** The form of the vendor's requests. When absent, difficult conversations are not checked. */
  readonly requests?: RequestForm
}

const NAME_IT = '--address names the option that holds its address'
const NEEDS_TRANSCRIPTS = [
  'answer',
  'stream rules',
  'usage',
  'cuts',
  'cut off',
  'cancel',
  'back-pressure',
]

/**
 * Tests a provider against a fake upstream on a local socket.
 * @throws ConfigError when the provider cannot be loaded or set up, or a transcript cannot be read
 */
export async function testProvider(options: TestOptions): Promise<KitReport> {
  const { seed, patience } = kitDefaults(options)
  const vendor = await startUpstream()
  try {
    const provider = await setUp(options, vendor.url, randomKey(seed), patience)
    const run = new CheckRun(options, patience)
    try {
      await runChecks({ vendor, provider, seed, patience }, options, run)
    } finally {
      await run.run('close', null, () => checkClose(provider))
    }
    const cases = (options.transcripts ?? []).map(({ name }) => name)
    return reportOf(provider.plugin, { seed, cases }, run.checks, secretsIn(provider.options))
  } finally {
    await vendor.close()
  }
}

async function runChecks(
  fixture: Fixture,
  { transcripts: cases = [], requests, thorough = false }: TestOptions,
  run: CheckRun,
): Promise<void> {
  const { provider } = fixture
  const lists = cases.filter(({ expect }) => expect.models)
  const transcripts = cases.filter(({ expect }) => !expect.models)
  const naming = provider.namesModels && { models: () => provider.askedForModels() }
  if (!provider.chats) {
    await run.run('set up', null, () => checkMethods(provider))
    const { request } = await toSampleCase(provider, SAMPLES[0]!, transcripts[0])
    const asks = { ...textAsks(fixture, request), ...naming }
    await checkTexts(fixture, request, run)
    await checkModels(fixture, lists, run)
    if (Object.keys(asks).length > 0) await checkFailures(fixture, asks, run)
    return
  }
  const transcriptCases = await Promise.all(transcripts.map((one) => toCase(provider, one)))
  const samples = await Promise.all(
    SAMPLES.map((one) => toSampleCase(provider, one, transcripts[0])),
  )
  const [streamed, whole] = samples.map(({ request }) => request) as [TestRequest, TestRequest]
  const outcome = await replay(fixture, streamed, samples[0]!.transcript.answer!)
  const setUpCheck = checkSetUp(fixture, outcome)
  await run.run('set up', null, () => setUpCheck)
  if (setUpCheck.result === 'failed') return
  await run.run('cases', null, () => checkHasCase(transcripts))
  if (transcriptCases.length > 0) await checkCases(fixture, transcriptCases, run, thorough)
  else await checkSamples(fixture, samples, outcome, run, thorough)
  await run.run('hang', 'streamed', () => checkHang(fixture, streamed, 'streamed'))
  await run.run('hang', 'whole', () => checkHang(fixture, whole, 'whole'))
  await checkTexts(fixture, whole, run)
  await checkModels(fixture, lists, run)
  const chats = {
    streamed: () => provider.outcome(streamed),
    whole: () => provider.outcome(whole),
  }
  await checkFailures(fixture, { ...chats, ...textAsks(fixture, whole), ...naming }, run)
  if (requests) await run.run('conversations', null, () => checkConversations(fixture, requests))
  for (const [on, request] of Object.entries({ streamed, whole })) {
    await run.run('signal', on, () => checkSignal(fixture, request, on))
  }
  await run.run('secrets', null, () =>
    checkSecrets(fixture, secretsIn(provider.options), transcripts),
  )
}

function checkMethods({ methods }: ProviderUnderTest): Check {
  if (methods.length > 0)
    return toCheck(
      'set up',
      null,
      [],
      ['answers of chat, embeddings, rerank and moderation only are checked'],
    )
  return toCheck('set up', null, ['"setup" has to return an object with a method such as "chat"'])
}

function checkHasCase(transcripts: readonly Transcript[]): Check {
  const isThere = transcripts.some(({ answer, expect }) => answer === undefined || !expect.failure)
  const missing = 'there is no case with an answer; write hello.json and hello.http, streamed'
  return toCheck('cases', null, isThere ? [] : [missing])
}

async function checkClose(provider: ProviderUnderTest): Promise<Check> {
  const problem = await provider.close().then(() => undefined, describeError)
  return toCheck('close', null, problem === undefined ? [] : [problem])
}

function checkSetUp({ provider, vendor }: Fixture, { error }: Outcome): Check {
  const { addressOption, host } = provider
  const { refusedOrigins } = host
  if (refusedOrigins.size > 0) {
    const who = `it sent requests to ${[...refusedOrigins].join(', ')}, not to the vendor of this test`
    const tried = addressOption ? ` whose address is in "${addressOption}"` : ''
    return toCheck('set up', null, [`${who}${tried}; ${NAME_IT}`])
  }
  const hasRequests = vendor.requests.length > 0
  if (hasRequests || error === undefined) {
    const where = addressOption ? [`the address is in "${addressOption}"`] : []
    return toCheck('set up', null, [], hasRequests ? where : [NO_UPSTREAM])
  }
  const failed = `it failed before its first request: ${describeError(error)}`
  return toCheck('set up', null, [`${failed}; ${NAME_IT}`])
}

async function checkSamples(
  fixture: Fixture,
  samples: readonly Case[],
  outcome: Outcome,
  run: CheckRun,
  thorough: boolean,
): Promise<void> {
  const skip = async (names: readonly string[], why: string) => {
    for (const name of names) await run.run(name, null, () => skipped(name, null, why))
  }
  if (fixture.vendor.requests.length === 0) {
    await run.run('stream rules', null, () => checkRules(null, outcome, false))
    return skip(
      NEEDS_TRANSCRIPTS.filter((name) => name !== 'stream rules'),
      NO_UPSTREAM,
    )
  }
  // A provider that reads any text of the sample, or hands over malformed parts of it, reads this format.
  const reads = choicesIn(outcome.completion)[0]?.text || schemaViolations(outcome.raw).length > 0
  if (reads) return checkCases(fixture, samples, run, thorough)
  await skip(NEEDS_TRANSCRIPTS, "it does not read a vendor in OpenAI's form; write cases (--cases)")
}

async function checkCases(
  fixture: Fixture,
  cases: readonly Case[],
  run: CheckRun,
  thorough: boolean,
): Promise<void> {
  const first = new Map<Case, Outcome>()
  for (const one of cases) {
    const { name, answer, expect } = one.transcript
    const answers = await run.run('answer', name, () => checkAnswer(fixture, one, first))
    // A wrong answer in one piece would fail the same way in several.
    if (answers[0]?.result === 'failed') continue
    await run.run('cuts', name, () => checkCuts(fixture, one))
    if (expect.failure) continue
    await run.run('cut off', name, () => checkCutOff(fixture, one))
    if (!answer) continue
    await run.run('stream off', name, () => checkForms(fixture, one, cases))
    if (eventsOf(answer).length < 2) continue
    await run.run('left out', name, () => checkLeftOut(fixture, one))
    await run.run('unreadable', name, () => checkUnreadable(fixture, one))
    for (const failing of cases.filter((other) => lastEventOf(other) && isAlike(one, other))) {
      await run.run('errors', `in ${name}`, () => checkErrorEvent(fixture, one, failing))
    }
  }
  const stream = cases.find(({ transcript: { request, answer, expect } }) =>
    Boolean(answer && request.stream && !expect.failure && !expect.tool_calls),
  )
  const complete = cases.filter(({ transcript: { answer, expect } }) => answer && !expect.failure)
  const whole = complete.find(({ transcript }) => !transcript.request.stream)
  if (complete.length > 0) {
    const transcripts = complete.map(({ transcript }) => transcript)
    await run.run('forwarded', null, () => checkForwarded(fixture, transcripts))
  }
  for (const one of complete) {
    const check = one === stream || one === whole ? checkRepeat : checkInterleaved
    const answered = { cases: complete, first }
    await run.run('repeat', one.transcript.name, () => check(fixture, one, answered))
  }
  if (thorough && stream) {
    const on = stream.transcript.name
    await run.run('time', on, () => checkTime(fixture, stream))
    const [least] = complete.toSorted((a, b) => sizeOf(a) - sizeOf(b))
    await run.run('memory', least!.transcript.name, () => checkMemory(fixture, least!))
  }
  const asks = cases.some(({ transcript }) => transcript.answer)
  const why = asks ? 'no transcript has a stream of text' : NO_UPSTREAM
  for (const [name, check] of [
    ['cancel', checkCancel],
    ['back-pressure', checkPressure],
  ] as const) {
    const on = stream?.transcript.name ?? null
    await run.run(name, on, () => (stream ? check(fixture, stream) : skipped(name, null, why)))
  }
}

function sizeOf({ transcript: { answer } }: Case): number {
  return answer?.body.length ?? 0
}

/** Whether two cases are about one deployment, and its vendor answers both in one form. */
function isAlike({ transcript: one }: Case, { transcript: other }: Case): boolean {
  const formOf = ({ request, deployment, answer }: Transcript) =>
    JSON.stringify([request.model, deployment, answer?.headers['content-type']])
  return formOf(one) === formOf(other)
}

async function toCase({ plugin }: ProviderUnderTest, transcript: Transcript): Promise<Case> {
  return { transcript, request: await toTestRequest(plugin, transcript) }
}

/** A sample with the model of a transcript, and with its deployment options if the provider requires some. */
async function toSampleCase(
  provider: ProviderUnderTest,
  sample: Transcript,
  like?: Transcript,
): Promise<Case> {
  const model = like?.request.model
  const plain = model === undefined ? sample : { ...sample, request: { ...sample.request, model } }
  return toCase(provider, plain).catch((error) => {
    if (!like?.deployment) throw error
    return toCase(provider, { ...plain, deployment: like.deployment })
  })
}

function randomKey(seed: number): string {
  const random = randomFrom(seed)
  const letters = 'ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz23456789'
  return `sk-${Array.from({ length: 40 }, () => letters[random(letters.length)]).join('')}`
}

// Sample responses of a vendor in OpenAI's format, used when there are no transcripts.

/** Text with characters of every length in UTF-8. */
const TEXTS = ['Grüße, ', 'こんにちは ', 'und ', '👋🏽', '!']
const REQUEST = { messages: [{ role: 'user', content: 'Say hello.' }] }
const USAGE = { prompt_tokens: 11, completion_tokens: 9, total_tokens: 20 }
const COMMON = { id: 'chatcmpl-sample', created: 1_790_000_000, model: 'test-model' }
const EXPECTED = {
  text: TEXTS.join(''),
  finish_reason: 'stop',
  usage: { prompt_tokens: 11, completion_tokens: 9 },
}

const SAMPLES: readonly Transcript[] = [
  {
    name: 'sample-stream',
    request: { ...REQUEST, stream: true },
    answer: streamed(),
    expect: EXPECTED,
  },
  { name: 'sample-whole', request: REQUEST, answer: whole(), expect: EXPECTED },
]

function streamed(): RecordedResponse {
  const common = { ...COMMON, object: 'chat.completion.chunk' }
  const chunk = (delta: object, finish_reason: string | null = null) =>
    event({ ...common, choices: [{ index: 0, delta, finish_reason }] })
  const body = [
    chunk({ role: 'assistant', content: '' }),
    ...TEXTS.map((content) => chunk({ content })),
    chunk({}, 'stop'),
    event({ ...common, choices: [], usage: USAGE }),
    'data: [DONE]\n\n',
  ].join('')
  return { status: 200, headers: { 'content-type': 'text/event-stream' }, body: Buffer.from(body) }
}

function whole(): RecordedResponse {
  const message = { role: 'assistant', content: TEXTS.join('') }
  const body = JSON.stringify({
    ...COMMON,
    object: 'chat.completion',
    choices: [{ index: 0, message, finish_reason: 'stop' }],
    usage: USAGE,
  })
  return { status: 200, headers: { 'content-type': 'application/json' }, body: Buffer.from(body) }
}

function event(payload: object): string {
  return `data: ${JSON.stringify(payload)}\n\n`
}

// Checks that a question has one answer, whether the client wants it streamed or whole.

/**
 * Asks the question of a case in the other form. A vendor that gets the same request gives the same answer, and clients have to
 * get the same; one that gets another request needs a case that shows its other answer.
 * @param cases all of the provider
 */
async function checkForms(
  fixture: Fixture,
  { transcript, request }: Case,
  cases: readonly Case[],
): Promise<Check> {
  const { provider, vendor } = fixture
  const { name, answer } = transcript
  const before = vendor.requests.length
  const one = await replay(fixture, request, answer!)
  const [sent] = vendor.requests.slice(before)
  const otherRequest = await toTestRequest(provider.plugin, inOtherForm(transcript))
  const since = vendor.requests.length
  const other = await replay(fixture, otherRequest, answer!)
  const [askedNext] = vendor.requests.slice(since)
  // A provider may refuse a form.
  if (!sent || !askedNext) return toCheck('stream off', name, [])
  const streamed = isStreamed(transcript)
  if (isSame(sent, askedNext)) {
    const problems = [
      ...differences({ choices: choicesIn(one.completion) }, other.completion),
      ...usageDifferences(one.usage, other.usage),
    ]
    const how = streamed ? 'not streamed' : 'streamed'
    return toCheck(
      'stream off',
      name,
      problems.map((problem) => `${how}, ${problem}`),
    )
  }
  const shown = cases.some((known) => isStreamed(known.transcript) !== streamed)
  const form = streamed ? 'without "stream"' : 'with "stream": true'
  const problem = `${form} the vendor is asked for another answer, which no case shows; write a case ${form}`
  return toCheck('stream off', name, shown ? [] : [problem])
}

function isStreamed({ request }: Transcript): boolean {
  return request.stream === true
}

function inOtherForm(transcript: Transcript): Transcript {
  const { stream_options: _, ...request } = transcript.request
  return { ...transcript, request: { ...request, stream: !isStreamed(transcript) } }
}

function isSame(one: ReceivedRequest, other: ReceivedRequest): boolean {
  return one.path === other.path && one.body.equals(other.body)
}

// Checks that answers have the expected content, form and usage, however the network splits them, and that a truncated one is an error.

const RANDOM_SPLITS = 20
const MAX_SPLITS = 12
const MAX_SINGLE_BYTES = 512
const MAX_TRUNCATIONS = 100
const RANDOM_TRUNCATIONS = 8

async function checkAnswer(
  fixture: Fixture,
  one: Case,
  first: Map<Case, Outcome>,
): Promise<Check[]> {
  const { provider, vendor } = fixture
  const { transcript, request } = one
  const { name, answer, expect } = transcript
  const before = vendor.requests.length
  vendor.answer(
    answer ? toFakeResponse(answer) : json({ error: { message: 'no transcript' } }, 500),
  )
  const outcome = await provider.outcome(request)
  first.set(one, outcome)
  const requests = vendor.requests.slice(before)
  if ((outcome.error as Error | undefined)?.name === 'AbortError') {
    const problem =
      'it was given up, although its own signal was not: the signal is that of another call'
    return [toCheck('signal', name, [problem])]
  }
  const problems = answer
    ? requests.length === 0
      ? ['it sent no request to the vendor; is the address in another option? (--base-url-option)']
      : missingMembers(expect.sent ?? {}, bodyOf(requests[0]!.body), 'sent')
    : requests.length > 0
      ? [`it sent a request, but there is no ${name}.http with a response`]
      : []
  problems.push(...failureProblems(expect, outcome.error))
  problems.push(...differences(expect, outcome.completion))
  const ids = answer ? idsOfCalls(answer, outcome) : undefined
  if (ids?.lost) problems.push(`the vendor's id of a call is lost: ${ids.lost}`)
  const wanted = (expect.choices ?? [expect]).flatMap(({ tool_calls = [] }) => tool_calls)
  const note = 'the vendor gives its calls ids; name them in "tool_calls", as "id"'
  const unnamed = ids !== undefined && wanted.some(({ id }) => id === undefined)
  const checks = [
    toCheck('answer', name, problems, unnamed ? [note] : []),
    checkRules(name, outcome, request.envelope.logprobs),
  ]
  // A failure does not need usage.
  if (!expect.failure || expect.usage) checks.push(checkUsage(name, outcome, expect))
  return checks
}

/**
 * The ids that a vendor gives its calls of tools: texts in the same object as the name of a tool, under a name that ends with "id".
 * @returns undefined where it gives none; with an id of a call for which none of its ids arrives
 */
function idsOfCalls(
  { body }: RecordedResponse,
  { completion }: Outcome,
): { readonly lost?: string } | undefined {
  const calls = completion.choices.flatMap(({ message }) => message.tool_calls ?? [])
  const callIds = new Set(calls.map(({ id }) => id))
  const names = new Set(calls.map((call) => (call.function ?? call.custom).name))
  const groups = jsonIn(Buffer.from(body).toString()).flatMap((one) => idsBeside(names, one))
  if (groups.length === 0) return undefined
  const lost = groups.find((ids) => !ids.some((id) => callIds.has(id)))
  return lost ? { lost: lost[0]! } : {}
}

function jsonIn(text: string): unknown[] {
  const parse = (json: string) => {
    try {
      return [JSON.parse(json) as unknown]
    } catch {
      return []
    }
  }
  const whole = parse(text)
  return whole.length > 0
    ? whole
    : text.split('\n').flatMap((line) => parse(line.slice(Math.max(0, line.indexOf('{')))))
}

function idsBeside(names: ReadonlySet<string>, value: unknown): string[][] {
  if (typeof value !== 'object' || value === null) return []
  const members = Object.entries(value)
  const inner = [value, (value as any).function, (value as any).custom]
  const isCall = inner.some((one) => names.has(one?.name))
  const ids = members.flatMap(([name, id]) =>
    /(?:^|_)id$|Id$/.test(name) && typeof id === 'string' && id ? [id] : [],
  )
  const rest = members.flatMap(([, one]) => idsBeside(names, one))
  return isCall && ids.length > 0 ? [ids, ...rest] : rest
}

function checkRules(on: string | null, outcome: Outcome, logprobs: boolean): Check {
  const problems = schemaViolations(outcome.raw)
  if (outcome.error === undefined) {
    // The gateway's writer adds `object`; everything else of an event is in the chunk.
    const payloads = outcome.chunks.map(({ head, ...one }) => ({
      object: 'chat.completion.chunk',
      ...(head as object | undefined),
      ...one,
    }))
    problems.push(...streamViolations(payloads, { usage: 'none', logprobs }))
  }
  return toCheck('stream rules', on, problems.slice(0, 5))
}

function checkUsage(name: string, { usage }: Outcome, expect: Expected): Check {
  const problems = [
    ...usageDifferences(expect.usage, usage),
    ...(usage ? usageViolations(usage) : []),
  ]
  return toCheck('usage', name, problems, usage ? [] : ['none: calls are charged by estimate'])
}

function bodyOf(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    return {}
  }
}

/** Sends the same response in one piece, split after events, into bytes, and at random. */
async function checkCuts(fixture: Fixture, { transcript, request }: Case): Promise<Check> {
  const { name, answer } = transcript
  if (!answer) return skipped('cuts', name, NO_UPSTREAM)
  const random = randomFrom(fixture.seed)
  const ways: [how: string, pieces: Uint8Array[]][] = [
    ['after each event', cutAt(answer.body, splitPoints(answer))],
    ['byte by byte', splitBytewise(answer.body, MAX_SINGLE_BYTES)],
  ]
  for (let i = 1; i <= RANDOM_SPLITS; i++) {
    ways.push([`at random, number ${i}`, splitRandomly(answer.body, random, MAX_SPLITS)])
  }
  const whole = await replay(fixture, request, answer)
  for (const [how, pieces] of ways) {
    const [problem] = changes(whole, await replay(fixture, request, answer, pieces))
    if (problem) return toCheck('cuts', name, [`split ${how}, the answer differs: ${problem}`])
  }
  return toCheck('cuts', name, [], [`${ways.length} ways to split ${answer.body.length} bytes`])
}

/** Sends the beginning of a valid response: it has to be an error, unless nothing of the content is missing. */
async function checkCutOff(fixture: Fixture, { transcript, request }: Case): Promise<Check> {
  const { name, answer } = transcript
  if (!answer) return skipped('cut off', name, NO_UPSTREAM)
  const random = randomFrom(fixture.seed)
  const all = await replay(fixture, request, answer)
  const whole = choicesIn(all.completion)
  const breaks = splitPoints(answer)
  const step = Math.ceil(breaks.length / MAX_TRUNCATIONS)
  const ends = [0, ...breaks.filter((_, i) => i % step === 0 || i >= breaks.length - 2)]
  // Where an event ends, both a clean end and a broken connection are tried.
  const ways = ends.flatMap((end) => [[end, 'end'] as const, [end, 'cut'] as const])
  for (let i = 0; i < RANDOM_TRUNCATIONS; i++)
    ways.push([random(answer.body.length), i % 2 === 0 ? 'end' : 'cut'])
  for (const [end, ending] of ways) {
    const beginning = [answer.body.subarray(0, end)]
    const { completion, error, raw } = await replay(fixture, request, answer, beginning, ending)
    const how = ending === 'end' ? '' : ' by a broken connection'
    const where = `cut off after ${end} of ${answer.body.length} bytes${how}`
    const lastReport = raw.findLast(({ usage }) => usage)
    const isTotal = error === undefined && lastReport && !lastReport.usageIsPartial
    const [madeUp] = isTotal ? usageDifferences(all.usage, lastReport.usage!) : []
    if (madeUp) return toCheck('cut off', name, [`${where}, usage is not the vendor's: ${madeUp}`])
    const choices = choicesIn(completion)
    if (error === undefined && !isDeepStrictEqual(choices, whole)) {
      return toCheck('cut off', name, [`${where}, it ends as if complete, with ${show(choices)}`])
    }
    const problem = error === undefined ? undefined : notFailure(error, ['upstream_error'])
    if (problem) return toCheck('cut off', name, [`${where}, ${problem}`])
  }
  return toCheck('cut off', name, [], [`${ways.length} places`])
}

function changes(whole: Outcome, cut: Outcome): string[] {
  const problems = [
    ...differences({ choices: choicesIn(whole.completion) }, cut.completion),
    ...usageDifferences(whole.usage, cut.usage),
  ]
  if (endOf(whole.error) !== endOf(cut.error)) {
    problems.push(`it ended with ${endOf(cut.error)} in place of ${endOf(whole.error)}`)
  }
  if (problems.length === 0 && !isDeepStrictEqual(whole.completion, cut.completion)) {
    problems.push('annotations, reasoning details, ids or other members differ')
  }
  return problems
}

function endOf(error: unknown): string {
  if (error === undefined) return 'no error'
  return UpstreamFailure.is(error)
    ? `${describeError(error)}, ${error.retryAfterMs} ms`
    : describeError(error)
}

// Checks of streams with a missing event, or an event that is an error.

/** The most events that are left out of a longer answer, spread over it. */
const MAX_LEFT_OUT = 16

/** Leaves out one event after the other: the remainder is an error, or has less content. */
async function checkLeftOut(
  fixture: Fixture,
  { transcript: { name, answer }, request }: Case,
): Promise<Check> {
  const events = eventsOf(answer!)
  const play = (some: readonly Uint8Array[]) => replay(fixture, request, answer!, some)
  const whole = await play(events)
  const step = Math.ceil(events.length / MAX_LEFT_OUT)
  for (let i = 0; i < events.length; i += step) {
    const outcome = await play(events.toSpliced(i, 1))
    const problem = problemOf(whole, outcome)
    if (problem) return toCheck('left out', name, [`without event ${i + 1}, ${problem}`])
  }
  const end = await endOfEvents(play, events)
  const ended = madeUp(whole, await play(events.toSpliced(end - 1, 1)))
  const problem = `without event ${end}, which brings the finish_reason, it ends with one all the same`
  return toCheck('left out', name, ended ? [problem] : [], [`each of ${events.length} events`])
}

/** Puts what cannot be read between the events of an answer, and in the place of one: no text may vanish silently. */
async function checkUnreadable(
  fixture: Fixture,
  { transcript: { name, answer }, request }: Case,
): Promise<Check> {
  const isBinary = answer!.headers['content-type']?.includes('vnd.amazon.eventstream') === true
  const ways = damaged(eventsOf(answer!), isBinary)
  const whole = choicesIn((await replay(fixture, request, answer!)).completion)
  for (const [what, pieces] of ways) {
    const { completion, error } = await replay(fixture, request, answer!, [Buffer.concat(pieces)])
    const choices = choicesIn(completion)
    if (error !== undefined || isDeepStrictEqual(choices, whole)) continue
    return toCheck('unreadable', name, [`with ${what} it ends well, with ${show(choices)}`])
  }
  return toCheck('unreadable', name, [], [`${ways.length} ways`])
}

/** Ends another answer in its middle with the event with which a case fails. */
async function checkErrorEvent(
  fixture: Fixture,
  { transcript: { name, answer }, request }: Case,
  failing: Case,
): Promise<Check> {
  const events = eventsOf(answer!)
  const play = (some: readonly Uint8Array[]) => replay(fixture, request, answer!, some)
  const error = lastEventOf(failing)!
  const { failure } = failing.transcript.expect
  const last = (await endOfEvents(play, events)) - 1
  const on = `in ${name}`
  for (const at of new Set([1, last >> 1, last])) {
    if (at < 1 || at > last) continue
    const outcome = await play([...events.slice(0, at), error])
    const problem = notFailure(outcome.error, [failure!])
    const where = `with the last event of ${failing.transcript.name} after event ${at}`
    if (problem) return toCheck('errors', on, [`${where}, ${problem}`])
  }
  return toCheck('errors', on, [])
}

function lastEventOf({ transcript: { answer, expect } }: Case): Uint8Array | undefined {
  if (!expect.failure || !answer || answer.status !== 200) return undefined
  return eventsOf(answer).findLast((event) => !Buffer.from(event).includes('[DONE]'))
}

/** The number of events until the provider ends a choice; all, where it never does. */
async function endOfEvents(
  play: (some: readonly Uint8Array[]) => Promise<Outcome>,
  events: readonly Uint8Array[],
): Promise<number> {
  let [none, enough] = [0, events.length]
  while (enough - none > 1) {
    const middle = (none + enough) >> 1
    if (reasonsIn(await play(events.slice(0, middle))).length > 0) enough = middle
    else none = middle
  }
  return enough
}

function problemOf(whole: Outcome, { completion, error, raw }: Outcome): string | undefined {
  if (error !== undefined) return notFailure(error, ['upstream_error'])
  const [all, left] = [choicesIn(whole.completion), choicesIn(completion)]
  const less = left.every((choice, i) => {
    const { text = '', refusal = '', reasoning = '', tool_calls = [] } = all[i] ?? {}
    const calls = choice.tool_calls.every((call) =>
      tool_calls.some((one) => isLess(String(call.arguments), String(one.arguments))),
    )
    const texts =
      isLess(choice.text, text) &&
      isLess(choice.refusal, refusal) &&
      isLess(choice.reasoning, reasoning)
    return texts && calls && choice.tool_calls.length <= tool_calls.length
  })
  if (!less) return `it says what the whole answer does not: ${show(left)}`
  const counts = (outcome: readonly { tool_calls: readonly unknown[] }[]) =>
    outcome.reduce((sum, { tool_calls }) => sum + tool_calls.length, 0)
  const [before, now] = [reasonsIn(whole), reasonsIn({ raw })]
  const other = now.find((reason) => !before.includes(reason))
  return other !== undefined && counts(all) === counts(left)
    ? `its finish_reason is ${show(other)} in place of ${show(before[0])}`
    : undefined
}

/** Whether an answer without the event of its end ends, although the whole one has one end only. */
function madeUp(whole: Outcome, outcome: Outcome): boolean {
  const marks = reasonsIn(whole).length
  const once = marks > 0 && marks === whole.completion.choices.length
  return once && outcome.error === undefined && reasonsIn(outcome).length >= marks
}

/** Whether one text is another without a part of it. */
function isLess(part: string, whole: string): boolean {
  let same = 0
  while (same < part.length && part[same] === whole[same]) same++
  return part.length <= whole.length && whole.endsWith(part.slice(same))
}
