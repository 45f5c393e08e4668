/** The conformance kit for providers: runs every check against a fake upstream. */
import { NO_UPSTREAM, replay, type Fixture, type Case } from './fixture.ts'
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
} from './report.ts'
import { schemaViolations } from './shapes.ts'
import { checkAnswer, checkCutOff, checkCuts, checkRules } from './checks/answers.ts'
import { checkConversations, type RequestForm } from './checks/conversations.ts'
import { checkFailures, checkSecrets } from './checks/failures.ts'
import { checkCancel, checkHang, checkPressure, checkSignal } from './checks/disconnects.ts'
import { checkErrorEvent, checkLeftOut, eventsOf, lastEventOf } from './checks/events.ts'
import { checkForms } from './checks/forms.ts'
import { checkForwarded } from './checks/forwarded.ts'
import { checkTexts, textAsks } from './checks/texts.ts'
import { checkMemory, checkRepeat, checkTime } from './checks/repeat.ts'
import { choicesIn } from './compare.ts'
import { randomFrom } from './splits.ts'
import { SAMPLES } from './samples.ts'
import { secretsIn } from './secrets.ts'
import { toTestRequest, type TestRequest } from './requests.ts'
import { setUp, type ProviderSetup } from './set-up.ts'
import type { Outcome, ProviderUnderTest } from './provider-under-test.ts'
import type { Transcript } from './transcripts.ts'
import { startUpstream } from './fake-upstream.ts'

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
  const { seed, timeoutMs } = kitDefaults(options)
  const vendor = await startUpstream()
  try {
    const provider = await setUp(options, vendor.url, randomKey(seed), timeoutMs)
    const run = new CheckRun(options)
    try {
      await runChecks({ vendor, provider, seed, timeoutMs }, options, run)
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
  { transcripts = [], requests, thorough = false }: TestOptions,
  run: CheckRun,
): Promise<void> {
  const { provider } = fixture
  if (!provider.chats) {
    await run.run('set up', null, () => checkMethods(provider))
    const { request } = await toSampleCase(provider, SAMPLES[0]!, transcripts[0])
    const asks = textAsks(fixture, request)
    await checkTexts(fixture, request, run)
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
  if (transcriptCases.length > 0) await checkCases(fixture, transcriptCases, run, thorough)
  else await checkSamples(fixture, samples, outcome, run, thorough)
  await run.run('hang', 'streamed', () => checkHang(fixture, streamed, 'streamed'))
  await run.run('hang', 'whole', () => checkHang(fixture, whole, 'whole'))
  await checkTexts(fixture, whole, run)
  const chats = {
    streamed: () => provider.outcome(streamed),
    whole: () => provider.outcome(whole),
  }
  await checkFailures(fixture, { ...chats, ...textAsks(fixture, whole) }, run)
  if (requests) await run.run('conversations', null, () => checkConversations(fixture, requests))
  await run.run('signal', null, () => checkSignal(fixture))
  await run.run('secrets', null, () => checkSecrets(fixture, secretsIn(provider.options)))
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
  for (const one of cases) {
    const { name, answer, expect } = one.transcript
    const answers = await run.run('answer', name, () => checkAnswer(fixture, one))
    // A wrong answer in one piece would fail the same way in several.
    if (answers[0]?.result === 'failed') continue
    await run.run('cuts', name, () => checkCuts(fixture, one))
    if (expect.failure) continue
    await run.run('cut off', name, () => checkCutOff(fixture, one))
    if (!answer) continue
    await run.run('stream off', name, () => checkForms(fixture, one, cases))
    if (eventsOf(answer).length < 2) continue
    await run.run('left out', name, () => checkLeftOut(fixture, one))
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
  for (const one of [stream, whole]) {
    if (one) await run.run('repeat', one.transcript.name, () => checkRepeat(fixture, one))
  }
  if (thorough && stream) {
    const on = stream.transcript.name
    await run.run('time', on, () => checkTime(fixture, stream))
    await run.run('memory', on, () => checkMemory(fixture, stream))
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
