/** The conformance kit for guards: checks a guard as the gateway would, without a gateway. */
import { methodProblem, withDerivedMethods } from '../guard/check.ts'
import type { BlockVerdict } from '../guard/runner.ts'
import { CATEGORIES, type Guard, type GuardPlugin, type Span } from '../plugin.ts'
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
import { secretsIn } from './secrets.ts'
import { optionsWithAddress } from './set-up.ts'
import {
  checkGuardMemory,
  checkGuardTime,
  checkInForce,
  checkInterleaved,
  checkLocal,
  checkPads,
  checkRelease,
  checkReleased,
  checkRepeated,
  passesFiller,
} from './checks/guard-streams.ts'
import { checkService } from './checks/guard-services.ts'
import { startUpstream } from './fake-upstream.ts'
import { cutAt, randomFrom } from './splits.ts'
import { TestHost, type FakeModel } from './hosts.ts'
import {
  streamText,
  answered,
  checkWholeText,
  checkTexts,
  type GuardFixture,
  type GuardCase,
  type Outcome,
} from './guard-cases.ts'

export type { GuardCase }

export interface GuardTestOptions extends KitOptions {
  readonly options?: Readonly<Record<string, unknown>>
  /** Replaces every model that the guard asks; by default the `model` of the case answers. */
  readonly ask?: FakeModel
  /** Name of the option with the address of the guard's service; by default the first of `baseURL`, `url` and `endpoint` that works. */
  readonly addressOption?: string
}

const KEY = 'Kx7Qm2Vt9Lp4Zw8RfN3bT6yH'
const RANDOM_SPLITS = 20
const UNFIT = 'the guard blocks the text around the cases, or takes no long ones'
const MAX_CASES = 4
const MAX_NAME_CHARACTERS = 40

/**
 * Checks a guard against cases. Finds everything that the gateway would treat as a failure of the guard: wrong
 * counts, offsets and rules, promises of a local guard, results that depend on how a text is split, and a pass that
 * should be an error.
 * @throws ConfigError if the options are invalid; whatever `setup` throws
 */
export async function checkGuard(
  plugin: GuardPlugin,
  cases: readonly GuardCase[],
  options: GuardTestOptions = {},
): Promise<KitReport> {
  const { seed, timeoutMs } = kitDefaults(options)
  const service = await startUpstream()
  const served = cases.some(({ answer }) => answer)
  const host = new TestHost(served ? service.url : undefined, options.ask)
  const run = new CheckRun(options)
  try {
    const { given, value } = await optionsWithAddress(plugin, options, service.url, KEY, !served)
    const guard = withDerivedMethods(await plugin.setup(value, host.hostOf(plugin.name)))
    await run.run('set up', null, () => checkShape(plugin, guard))
    const fixture: GuardFixture = { plugin, guard, host, service, cases, seed, timeoutMs }
    if (cases.length === 0) {
      const missing = 'there is no case; write a text that passes and one that is blocked'
      await run.run('input', null, () => toCheck('input', null, [missing]))
    }
    for (const one of cases) await checkCase(fixture, one, run)
    await checkWhole(fixture, run, options.thorough ?? false)
    if (guard.execution === 'remote') await checkService(fixture, run)
    await run.run('close', null, async () => {
      await answered(fixture, guard.close?.())
      return toCheck('close', null, [])
    })
    return reportOf(plugin, { seed, cases: cases.map(nameOf) }, run.checks, secretsIn(given))
  } finally {
    await host.close()
    await service.close()
  }
}

function checkShape({ name }: GuardPlugin, guard: Guard): Check {
  const { enforces, execution } = guard
  const problems: string[] = []
  if (execution !== 'local' && execution !== 'remote')
    problems.push('"execution" is neither local nor remote')
  const problem = methodProblem(guard)
  if (problem) problems.push(problem)
  if (!Array.isArray(enforces)) problems.push('"enforces" is not a list of rules')
  else {
    const unknown = enforces.filter((rule) => !isKnown(rule))
    problems.push(
      ...unknown.map((rule) => `${rule} is not a rule; an own rule has the form x:${name}/<id>`),
    )
  }
  return toCheck('set up', null, problems)
}

function isKnown(rule: string): boolean {
  if (/^x:[\w-]+\/./.test(rule)) return true
  if (rule === 'scope' || rule === 'bannedPatterns' || rule === 'tampering') return true
  return CATEGORIES.some((category) => rule === `deny:${category}`)
}

async function checkCase(fixture: GuardFixture, one: GuardCase, run: CheckRun): Promise<void> {
  const { guard } = fixture
  const on = nameOf(one)
  const onInput = one.side !== 'output' && guard.checkInput
  const onOutput = one.side !== 'input' && (guard.checkOutput ?? guard.streamOutput)
  if (onInput) await run.run('input', on, () => checkInput(fixture, one, on))
  if (onOutput) {
    await run.run('output', on, () => checkOutput(fixture, one, on))
    if (guard.streamOutput) await run.run('cuts', on, () => checkCuts(fixture, one, on))
  }
  if (guard.execution === 'remote' && one.expect !== 'pass') {
    await run.run('down', on, () => checkDown(fixture, one, on))
  }
  if (!onInput && !onOutput) {
    await run.run('verdict', on, () =>
      skipped('verdict', on, `the guard does not check ${one.side}`),
    )
  }
}

async function checkWhole(fixture: GuardFixture, run: CheckRun, thorough: boolean): Promise<void> {
  const { guard, cases } = fixture
  const blocked = cases.filter(({ expect }) => expect !== 'pass')
  // Where the place is known, the guard looks for something in the text and does not weigh all of it.
  const placed = blocked.find(({ spans, side }) => spans && side !== 'input') ?? blocked[0]
  for (const one of blocked.slice(0, MAX_CASES)) {
    await run.run('repeat', nameOf(one), () => checkRepeated(fixture, one, nameOf(one)))
    const asksNoModel = guard.execution === 'local' || one.answer
    if (!one.rules && !one.expect.startsWith('x:') && asksNoModel) {
      await run.run('in force', nameOf(one), () => checkInForce(fixture, one, nameOf(one)))
    }
  }
  if (!placed || guard.execution !== 'local') return
  let passes = true
  await run.run('pads', 'a long text', async () => {
    passes = await passesFiller(fixture, placed)
    return passes ? toCheck('pads', 'a long text', []) : skipped('pads', 'a long text', UNFIT)
  })
  if (!passes) return
  for (const one of blocked.filter(({ spans }) => spans).slice(0, MAX_CASES)) {
    await run.run('pads', nameOf(one), () => checkPads(fixture, one, nameOf(one)))
  }
  const streams = guard.streamOutput && placed.side !== 'input'
  if (streams) {
    const on = nameOf(placed)
    if (placed.spans) await run.run('hold-back', on, () => checkRelease(fixture, placed, on))
    await run.run('interleaved', on, () => checkInterleaved(fixture, placed, on))
    if (!guard.needsFullText) await run.run('release', null, () => checkReleased(fixture, placed))
  }
  await run.run('local', nameOf(placed), () => checkLocal(fixture, placed, nameOf(placed)))
  if (!thorough) return
  await run.run('time', null, () => checkGuardTime(fixture, placed))
  await run.run('memory', null, () => checkGuardMemory(fixture, placed))
}

/** Checks the text alone and between others: one verdict per text, in their order. */
async function checkInput(fixture: GuardFixture, one: GuardCase, on: string): Promise<Check> {
  const problems = await tried(async () => {
    const [alone] = await checkTexts(fixture, one, [one.text])
    const expected = expectedIn(one, alone)
    // A recorded answer of a service is about one text.
    if (one.answer) return expected
    const three = await checkTexts(fixture, one, ['', one.text, ''])
    if (three.some((block, i) => block?.rule !== (i === 1 ? alone?.rule : undefined))) {
      expected.push('among other texts the verdict differs, or verdicts are out of order')
    }
    return expected
  })
  return toCheck('input', on, problems)
}

async function checkOutput(fixture: GuardFixture, one: GuardCase, on: string): Promise<Check> {
  const problems = await tried(async () => expectedIn(one, await checkWholeText(fixture, one)))
  return toCheck('output', on, problems)
}

/** Checks that the result is the same for the whole text, single letters and random splits. */
async function checkCuts(fixture: GuardFixture, one: GuardCase, on: string): Promise<Check> {
  const { text } = one
  const random = randomFrom(fixture.seed)
  const ways = [
    Array.from({ length: text.length }, (_, i) => i + 1),
    ...Array.from({ length: RANDOM_SPLITS }, () =>
      Array.from({ length: 1 + random(8) }, () => 1 + random(Math.max(1, text.length))),
    ),
  ]
  const problems = await tried(async () => {
    const whole = await streamText(fixture, one, [text])
    const expected = expectedIn(one, whole.block)
    for (const ends of ways) {
      const cut = await streamText(fixture, one, piecesOf(text, ends))
      if (cut.safe !== whole.safe || cut.block?.rule !== whole.block?.rule) {
        const inWords = ({ safe, block }: Outcome) => `${block?.rule ?? 'pass'} after ${safe}`
        expected.push(
          `split at ${ends.slice(0, 8).join(', ')}: ${inWords(cut)}; whole: ${inWords(whole)}`,
        )
        break
      }
    }
    return expected
  })
  return toCheck('cuts', on, problems)
}

async function checkDown(fixture: GuardFixture, one: GuardCase, on: string): Promise<Check> {
  const { guard, host } = fixture
  // Another text, because the guard may cache verdicts.
  const other = { ...one, text: `${one.text} ` }
  const before = host.requestCount
  const passed = await host.whileUnreachable(async () => {
    try {
      const block =
        guard.checkInput && one.side !== 'output'
          ? (await checkTexts(fixture, other, [other.text]))[0]
          : await checkWholeText(fixture, other)
      return block === undefined
    } catch {
      return false
    }
  })
  const wrong = passed && host.requestCount > before
  return toCheck('down', on, wrong ? ['its service is down, and it let the text pass'] : [])
}

function expectedIn({ expect, spans }: GuardCase, block: BlockVerdict | undefined): string[] {
  const verdict = block?.rule ?? 'pass'
  if (verdict !== expect) return [`it was ${verdict}, expected ${expect}`]
  if (!spans) return []
  const places = (all: readonly Pick<Span, 'start' | 'end'>[]) =>
    all.map(({ start, end }) => `${start}–${end}`).join(', ') || 'nowhere'
  const given = places(block?.spans ?? [])
  return given === places(spans) ? [] : [`it was found at ${given}, expected ${places(spans)}`]
}

async function tried(run: () => Promise<string[]>): Promise<string[]> {
  try {
    return await run()
  } catch (error) {
    return [describeError(error)]
  }
}

/** Splits a text between UTF-16 code units: a guard may receive half of a surrogate pair. */
function piecesOf(text: string, ends: readonly number[]): string[] {
  let at = 0
  return cutAt(new Uint8Array(text.length), ends).map(({ length }) =>
    text.slice(at, (at += length)),
  )
}

function nameOf({ name, text }: GuardCase): string {
  return name ?? shortened(text)
}

function shortened(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim()
  return line.length > MAX_NAME_CHARACTERS ? `${line.slice(0, MAX_NAME_CHARACTERS - 1)}…` : line
}
