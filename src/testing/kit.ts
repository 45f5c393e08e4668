/** The conformance kit for providers: runs every check against a fake upstream. */
import {
  NO_UPSTREAM,
  toCheck,
  describeError,
  kitDefaults,
  replay,
  skipped,
  type Fixture,
  type Case,
  type Check,
  type KitOptions,
  type KitReport,
} from './fixture.ts'
import { schemaViolations } from './shapes.ts'
import { checkAnswer, checkCutOff, checkCuts, checkRules } from './checks/answers.ts'
import { checkConversations, type RequestForm } from './checks/conversations.ts'
import { checkFailures, checkSecrets } from './checks/failures.ts'
import { checkCancel, checkHang, checkPressure, checkSignal } from './checks/disconnects.ts'
import { choicesIn } from './compare.ts'
import { randomFrom } from './splits.ts'
import { SAMPLES } from './samples.ts'
import { redactSecrets, secretsIn } from './secrets.ts'
import { toTestRequest, type TestRequest } from './requests.ts'
import { setUp, type ProviderSetup } from './set-up.ts'
import type { Outcome, ProviderUnderTest } from './provider-under-test.ts'
import type { Transcript } from './transcripts.ts'
import { startUpstream } from './fake-upstream.ts'

/** What to test, and how. */
export interface TestOptions extends ProviderSetup, KitOptions {
  /** When absent, two samples of a vendor in OpenAI's format are used, if the provider can read them. */
  readonly transcripts?: readonly Transcript[]
  /** What requests of the vendor look like. When absent, difficult conversations are not checked. */
  readonly requests?: RequestForm
}

/** The results of all checks of a provider. */
export interface Report extends KitReport {
  /** Name of the plugin. */
  readonly provider: string
  /** Names of the transcripts; empty if the samples were used. */
  readonly transcripts: readonly string[]
}

const MAX_NOTE_CHARACTERS = 300
const NAME_IT = '--base-url-option names the option that holds its address'
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
export async function testProvider(options: TestOptions): Promise<Report> {
  const { seed, timeoutMs } = kitDefaults(options)
  const vendor = await startUpstream()
  try {
    const provider = await setUp(options, vendor.url, randomKey(seed), timeoutMs)
    const checks: Check[] = []
    try {
      const fixture = { vendor, provider, seed, timeoutMs }
      checks.push(...(await runChecks(fixture, options)))
    } finally {
      checks.push(await checkClose(provider))
    }
    const secrets = secretsIn(provider.options)
    return {
      provider: provider.plugin.name,
      seed,
      transcripts: (options.transcripts ?? []).map(({ name }) => name),
      ok: checks.every(({ result }) => result !== 'failed'),
      checks: checks.map((check) => presentable(check, secrets)),
    }
  } finally {
    await vendor.close()
  }
}

async function runChecks(
  fixture: Fixture,
  { transcripts = [], requests }: TestOptions,
): Promise<Check[]> {
  const { provider } = fixture
  if (!provider.chats) {
    return [
      toCheck('set up', null, [
        'it has no chat: "setup" has to return an object with a method "chat"',
      ]),
    ]
  }
  const given = await Promise.all(transcripts.map((one) => toCase(provider, one)))
  const samples = await Promise.all(
    SAMPLES.map((one) => toSampleCase(provider, one, transcripts[0])),
  )
  const [streamed, whole] = samples.map(({ request }) => request) as [TestRequest, TestRequest]
  const outcome = await replay(fixture, streamed, samples[0]!.transcript.answer!)
  const setUpCheck = checkSetUp(fixture, outcome)
  if (setUpCheck.result === 'failed') return [setUpCheck]
  const answers =
    given.length > 0
      ? await checkCases(fixture, given)
      : await checkSamples(fixture, samples, outcome)
  return [
    setUpCheck,
    ...answers,
    await checkHang(fixture, streamed, 'streamed'),
    await checkHang(fixture, whole, 'whole'),
    ...(await checkFailures(fixture, { streamed, whole })),
    ...(requests ? await checkConversations(fixture, requests) : []),
    checkSignal(fixture),
    checkSecrets(fixture, secretsIn(provider.options)),
  ]
}

async function checkClose(provider: ProviderUnderTest): Promise<Check> {
  const problem = await provider.close().then(() => undefined, describeError)
  return toCheck('close', null, problem === undefined ? [] : [problem])
}

/** Whether the provider sends its requests to the fake upstream. */
function checkSetUp({ provider, vendor }: Fixture, { error }: Outcome): Check {
  const { addressOption, host } = provider
  const { refusedOrigins } = host
  if (refusedOrigins.size > 0) {
    const who = `it sent requests to ${[...refusedOrigins].join(', ')}, not to the vendor of this test`
    const tried = addressOption ? ` whose address is in "${addressOption}"` : ''
    return toCheck('set up', null, [`${who}${tried}; ${NAME_IT}`])
  }
  const asked = vendor.requests.length > 0
  if (asked || error === undefined) {
    const where = addressOption ? [`the address is in "${addressOption}"`] : []
    return toCheck('set up', null, [], asked ? where : [NO_UPSTREAM])
  }
  const failed = `it failed before its first request: ${describeError(error)}`
  return toCheck('set up', null, [`${failed}; ${NAME_IT}`])
}

/** The checks without transcripts: those that the two samples allow. */
async function checkSamples(
  fixture: Fixture,
  samples: readonly Case[],
  outcome: Outcome,
): Promise<Check[]> {
  if (fixture.vendor.requests.length === 0) {
    const rules = checkRules(null, outcome, false)
    const others = NEEDS_TRANSCRIPTS.filter((name) => name !== rules.name)
    return [rules, ...others.map((name) => skipped(name, null, NO_UPSTREAM))]
  }
  // A provider that reads any text of the sample, or hands over malformed parts of it, reads this format.
  const reads = choicesIn(outcome.completion)[0]?.text || schemaViolations(outcome.raw).length > 0
  if (reads) return checkCases(fixture, samples)
  const why = "it does not read a vendor in OpenAI's form; write transcripts (--transcripts)"
  return NEEDS_TRANSCRIPTS.map((name) => skipped(name, null, why))
}

async function checkCases(fixture: Fixture, cases: readonly Case[]): Promise<Check[]> {
  const checks: Check[] = []
  for (const one of cases) {
    const answers = await checkAnswer(fixture, one)
    checks.push(...answers)
    // A wrong answer in one piece would fail the same way in several.
    if (answers[0]!.result === 'failed') continue
    checks.push(await checkCuts(fixture, one))
    if (!one.transcript.expect.failure) checks.push(await checkCutOff(fixture, one))
  }
  const stream = cases.find(({ transcript: { request, answer, expect } }) =>
    Boolean(answer && request.stream && !expect.failure && !expect.tool_calls),
  )
  if (stream) {
    return [...checks, await checkCancel(fixture, stream), await checkPressure(fixture, stream)]
  }
  const asks = cases.some(({ transcript }) => transcript.answer)
  const why = asks ? 'no transcript has a stream of text' : NO_UPSTREAM
  return [...checks, skipped('cancel', null, why), skipped('back-pressure', null, why)]
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

/** A key that occurs in no other text. */
function randomKey(seed: number): string {
  const random = randomFrom(seed)
  const letters = 'ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz23456789'
  return `sk-${Array.from({ length: 40 }, () => letters[random(letters.length)]).join('')}`
}

/** A check without secrets and with short notes. */
function presentable(check: Check, secrets: readonly string[]): Check {
  const notes = check.notes.map((note) => {
    const line = redactSecrets(note, secrets).replace(/\s+/g, ' ')
    return line.length > MAX_NOTE_CHARACTERS ? `${line.slice(0, MAX_NOTE_CHARACTERS)}…` : line
  })
  return { ...check, notes }
}
