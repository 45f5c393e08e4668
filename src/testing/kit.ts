/** The conformance kit: one provider, one vendor of this machine, every check there is. */
import {
  answerOf,
  ASKS_NOBODY,
  judged,
  named,
  skipped,
  type Fixture,
  type Case,
  type Check,
} from './fixture.ts'
import { checkAnswer, checkRules } from './checks/answers.ts'
import { checkCutOff, checkCuts } from './checks/splits.ts'
import { checkFailures, checkSecrets } from './checks/failures.ts'
import { checkCancel, checkHang, checkPressure, checkSignal } from './checks/disconnects.ts'
import { saidBy } from './compare.ts'
import { randomFrom } from './splits.ts'
import { SAMPLES } from './samples.ts'
import { hide, secretsIn } from './secrets.ts'
import { questionOf, type TestRequest } from './requests.ts'
import { setUp, type SubjectOptions } from './set-up.ts'
import type { Outcome, ProviderUnderTest } from './provider-under-test.ts'
import type { Transcript } from './transcripts.ts'
import { startUpstream } from './vendor.ts'

export interface TestOptions extends SubjectOptions {
  /** Without any, a vendor in OpenAI's form stands in, if the provider can read it. */
  readonly transcripts?: readonly Transcript[]
  /** Of everything random; a random one by default. */
  readonly seed?: number
  /** ms that anything may take before it counts as stuck; default 5,000. */
  readonly patienceMs?: number
}

export interface Report {
  /** The plugin's own name. */
  readonly provider: string
  readonly seed: number
  /** Names of the transcripts; empty if the plainest vendor stood in. */
  readonly transcripts: readonly string[]
  /** None failed. */
  readonly ok: boolean
  readonly checks: readonly Check[]
}

const PATIENCE_MS = 5000
const MOST_NOTE_CHARACTERS = 300
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
 * Tests a provider against a vendor on a socket of this machine. The report says what failed, and why.
 * @throws ConfigError when the provider cannot be loaded or set up, or a transcript cannot be read
 */
export async function testProvider(options: TestOptions): Promise<Report> {
  const seed = options.seed ?? Math.floor(Math.random() * 2 ** 31)
  const patienceMs = options.patienceMs ?? PATIENCE_MS
  const vendor = await startUpstream()
  try {
    const subject = await setUp(options, vendor.url, madeUpKey(seed), patienceMs)
    const checks: Check[] = []
    try {
      const bench = { vendor, subject, seed, patienceMs }
      checks.push(...(await examine(bench, options.transcripts ?? [])))
    } finally {
      checks.push(await checkClose(subject))
    }
    const secrets = secretsIn(subject.options)
    return {
      provider: subject.plugin.name,
      seed,
      transcripts: (options.transcripts ?? []).map(({ name }) => name),
      ok: checks.every(({ result }) => result !== 'failed'),
      checks: checks.map((check) => shown(check, secrets)),
    }
  } finally {
    await vendor.close()
  }
}

async function examine(bench: Fixture, transcripts: readonly Transcript[]): Promise<Check[]> {
  const { subject, vendor } = bench
  if (!subject.chats) {
    return [judged('set up', null, ['it offers nothing; "chat" is a method of what setup returns'])]
  }
  const given = await Promise.all(transcripts.map((one) => toCase(subject, one)))
  const samples = await Promise.all(SAMPLES.map((one) => toStandIn(subject, one, transcripts[0])))
  const [streamed, whole] = samples.map(({ question }) => question) as [TestRequest, TestRequest]
  vendor.answer(answerOf(samples[0]!.transcript.answer!))
  const outcome = await subject.outcome(streamed)
  const setUpCheck = checkSetUp(bench, outcome)
  if (setUpCheck.result === 'failed') return [setUpCheck]
  const answers =
    given.length > 0 ? await checkCases(bench, given) : await checkSamples(bench, samples, outcome)
  return [
    setUpCheck,
    ...answers,
    await checkHang(bench, streamed, 'streamed'),
    await checkHang(bench, whole, 'whole'),
    ...(await checkFailures(bench, { streamed, whole })),
    checkSignal(bench),
    checkSecrets(bench, secretsIn(subject.options)),
  ]
}

async function checkClose(subject: ProviderUnderTest): Promise<Check> {
  const problem = await subject.close().then(() => undefined, named)
  return judged('close', null, problem === undefined ? [] : [problem])
}

/** Whether it asked whom it should. */
function checkSetUp({ subject, vendor }: Fixture, { error }: Outcome): Check {
  const { addressOption, surroundings } = subject
  const { elsewhere } = surroundings
  if (elsewhere.size > 0) {
    const who = `it asked ${[...elsewhere].join(', ')}, not the vendor of this test`
    const tried = addressOption ? `; "${addressOption}" held the address` : ''
    return judged('set up', null, [`${who}${tried}; ${NAME_IT}`])
  }
  if (vendor.requests.length > 0) {
    return judged('set up', null, [], addressOption ? [`the address is in "${addressOption}"`] : [])
  }
  if (error === undefined) return judged('set up', null, [], [ASKS_NOBODY])
  const failed = `it failed before it asked the vendor: ${named(error)}`
  return judged('set up', null, [`${failed}; ${NAME_IT}`])
}

/** Where there are no transcripts: all that can be seen of whoever reads the plainest vendor. */
async function checkSamples(
  bench: Fixture,
  samples: readonly Case[],
  outcome: Outcome,
): Promise<Check[]> {
  if (bench.vendor.requests.length === 0) {
    const rules = checkRules(null, outcome, false)
    const others = NEEDS_TRANSCRIPTS.filter((name) => name !== rules.name)
    return [rules, ...others.map((name) => skipped(name, null, ASKS_NOBODY))]
  }
  // Whoever gets a word out of it reads this form; whether all of it is right is what the checks say.
  if (saidBy(outcome.completion)[0]?.text) return checkCases(bench, samples)
  const why = "it does not read a vendor in OpenAI's form; write transcripts (--transcripts)"
  return NEEDS_TRANSCRIPTS.map((name) => skipped(name, null, why))
}

async function checkCases(bench: Fixture, cases: readonly Case[]): Promise<Check[]> {
  const checks: Check[] = []
  for (const one of cases) {
    const answers = await checkAnswer(bench, one)
    checks.push(...answers)
    // What is not even right when it comes in one piece would only fail again.
    if (answers[0]!.result === 'failed') continue
    checks.push(await checkCuts(bench, one))
    if (!one.transcript.expect.failure) checks.push(await checkCutOff(bench, one))
  }
  const stream = cases.find(({ transcript: { request, answer, expect } }) =>
    Boolean(answer && request.stream && !expect.failure && !expect.tool_calls),
  )
  if (stream) {
    return [...checks, await checkCancel(bench, stream), await checkPressure(bench, stream)]
  }
  const asks = cases.some(({ transcript }) => transcript.answer)
  const why = asks ? 'no transcript is of a stream of text' : ASKS_NOBODY
  return [...checks, skipped('cancel', null, why), skipped('back-pressure', null, why)]
}

async function toCase({ plugin }: ProviderUnderTest, transcript: Transcript): Promise<Case> {
  return { transcript, question: await questionOf(plugin, transcript) }
}

/** A sample with the model of a transcript, and with the options of its deployment if there have to be any. */
async function toStandIn(
  subject: ProviderUnderTest,
  sample: Transcript,
  like?: Transcript,
): Promise<Case> {
  const model = like?.request.model
  const plain = model === undefined ? sample : { ...sample, request: { ...sample.request, model } }
  return toCase(subject, plain).catch((error) => {
    if (!like?.deployment) throw error
    return toCase(subject, { ...plain, deployment: like.deployment })
  })
}

/** Looks like a key, and like no word that an error might use. */
function madeUpKey(seed: number): string {
  const random = randomFrom(seed)
  const letters = 'ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz23456789'
  return `sk-${Array.from({ length: 40 }, () => letters[random(letters.length)]).join('')}`
}

/** A check as it may be shown: no secret, no book. */
function shown(check: Check, secrets: readonly string[]): Check {
  const notes = check.notes.map((note) => {
    const line = hide(note, secrets).replace(/\s+/g, ' ')
    return line.length > MOST_NOTE_CHARACTERS ? `${line.slice(0, MOST_NOTE_CHARACTERS)}…` : line
  })
  return { ...check, notes }
}
