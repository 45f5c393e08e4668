/** The conformance kit for guards: checks a guard as the gateway would, without a gateway. */
import { createHook } from 'node:async_hooks'
import { isDeepStrictEqual } from 'node:util'
import { methodProblem, withDerivedMethods } from '../guard/check.ts'
import type { BlockVerdict } from '../guard/runner.ts'
import { areRanges } from '../masking/masking.ts'
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
import { startUpstream, type FakeResponse, type ReceivedRequest } from './fake-upstream.ts'
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
  contextOf,
  progressOf,
  textItem,
  prepare,
} from './guard-cases.ts'
import { checkHeap, growth } from './measure.ts'

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
  const { seed, patience } = kitDefaults(options)
  const service = await startUpstream()
  const served = cases.some(({ answer }) => answer)
  const host = new TestHost(served ? service.url : undefined, options.ask)
  const run = new CheckRun(options, patience)
  try {
    const { given, value } = await optionsWithAddress(plugin, options, service.url, KEY, !served)
    const guard = withDerivedMethods(await plugin.setup(value, host.hostOf(plugin.name)))
    await run.run('set up', null, () => checkShape(plugin, guard))
    const fixture: GuardFixture = { plugin, guard, host, service, cases, seed, patience }
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
  if (guard.locate) await run.run('locate', on, () => checkLocate(fixture, one, on))
  else if (one.locates) {
    const missing = 'the guard has no "locate"'
    await run.run('locate', on, () => toCheck('locate', on, [missing]))
  }
  if (!onInput && !onOutput && !guard.locate) {
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
    if (one.expect.startsWith('deny:') && asksNoModel) {
      await run.run('in force', nameOf(one), () => checkInForce(fixture, one, nameOf(one)))
    }
  }
  if (!placed || guard.execution !== 'local') return
  let passes = true
  await run.run('pads', 'a long text', async () => {
    passes = await takes(fixture, placed, fillerOf(LONG))
    return passes ? toCheck('pads', 'a long text', []) : skipped('pads', 'a long text', UNFIT)
  })
  if (!passes) return
  for (const one of blocked.filter(({ spans }) => spans).slice(0, MAX_CASES)) {
    await run.run('pads', nameOf(one), () => checkPads(fixture, one, nameOf(one)))
  }
  const streams = guard.streamOutput && placed.side !== 'input'
  if (streams) {
    const on = nameOf(placed)
    const all = blocked.filter((one) => one.spans && one.side !== 'input')
    for (const one of all)
      await run.run('hold-back', nameOf(one), () => checkRelease(fixture, one, nameOf(one)))
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
    const four = await checkTexts(fixture, one, ['', one.text, '', ''])
    if (four.some((block, i) => block?.rule !== (i === 1 ? alone?.rule : undefined))) {
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

const NO_RULES = { scopes: [], deny: [], bannedPatterns: [] }

/** The ranges that would be masked, whatever rules are in force. @throws Error that describes a mistake of the guard */
async function located(
  fixture: GuardFixture,
  one: GuardCase,
  text: string,
): Promise<readonly Span[]> {
  prepare(fixture, one)
  const context = contextOf(fixture, { ...one, rules: NO_RULES })
  const spans: unknown = await answered(fixture, fixture.guard.locate!(text, context))
  if (!Array.isArray(spans) || !areRanges(spans, text.length)) {
    throw new Error('"locate" gave no list of ranges of the text, ascending and apart')
  }
  return spans as readonly Span[]
}

function rangesOf(spans: readonly Span[], by = 0): string {
  const shown = spans.map(({ start, end, label }) => `${start + by}–${end + by} ${label ?? ''}`)
  return shown.map((one) => one.trim()).join(', ') || 'nothing'
}

/** Checks that ranges are those of the text, the same each time and behind other text, and that a service that is down is told. */
async function checkLocate(fixture: GuardFixture, one: GuardCase, on: string): Promise<Check> {
  const { guard, host } = fixture
  const problems = await tried(async () => {
    const problems: string[] = []
    const compare = (spans: readonly Span[], wanted: string, when: string) => {
      const ranges = rangesOf(spans)
      if (ranges !== wanted) problems.push(`${when} it located ${ranges}, expected ${wanted}`)
    }
    const first = await located(fixture, one, one.text)
    if (one.locates) compare(first, rangesOf(one.locates), 'alone')
    // A recorded answer of a service is about one text.
    if (!one.answer) {
      compare(await located(fixture, one, one.text), rangesOf(first), 'the second time')
      const before = `${FILLER}\n`
      const moved = await located(fixture, one, `${before}${one.text}\n${FILLER}`)
      compare(moved, rangesOf(first, before.length), 'among other text')
    }
    if (guard.execution === 'local' || first.length === 0) return problems
    const requestsBefore = host.requestCount
    const look = () => located(fixture, one, `${one.text} `).catch(() => undefined)
    const spans = await host.whileUnreachable(look)
    if (spans && host.requestCount > requestsBefore)
      problems.push('its service is down, and it gave ranges: the text would leave without them')
    return problems
  })
  return toCheck('locate', on, problems)
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
  const actual = places(block?.spans ?? [])
  return actual === places(spans) ? [] : [`it was found at ${actual}, expected ${places(spans)}`]
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

// Checks of guards on texts that grow, and on texts among others.

/** Words that no rule forbids, of any guard that can be tested with texts. */
const FILLER = 'The weather was mild, and the garden was quiet. '
const PADS = [1, 7, 64, 3000, 20_000, 100_000]
const LONG = 20_000
/** A longer text also comes in pieces of this size where it is part of an answer. */
const PAD_PIECE = 20
const PIECE = 100
const MOST_RETAINED = 4096
/** Readers notice when more is kept back. */
const MANY_RETAINED = 1000
const STARTED = /^(?:Timeout|TCP|FS|GETADDR|WORKER)/

/** The beginning, of this length, of a text that passes. */
function fillerOf(length: number): string {
  return FILLER.repeat(Math.ceil(length / FILLER.length)).slice(0, length)
}

/** Whether the guard passes a filler under a case's rules. @throws its errors, unless the text is too large */
async function takes(fixture: GuardFixture, one: GuardCase, text: string): Promise<boolean> {
  try {
    if (fixture.guard.checkInput) return !(await checkTexts(fixture, one, [text]))[0]
    return !(await checkWholeText(fixture, one, text))
  } catch (error) {
    if ((error as Error)?.name === 'TooLarge') return false
    throw error
  }
}

/** Checks that verdict and place are the same anywhere in a longer text, with every character around. */
async function checkPads(fixture: GuardFixture, one: GuardCase, on: string): Promise<Check> {
  const problems: string[] = []
  const around = [...PADS.map((length) => `${fillerOf(length - 1)} `), '👋🏽 ', '  ', '\n']
  for (const before of around) {
    const text = `${before}${one.text}${before === '\n' ? '\n' : ` ${before}`}`
    if (text.length > LONG && !(await takes(fixture, one, fillerOf(text.length)))) continue
    const moved = { ...one, text, ...(one.spans && { spans: shifted(one, before.length) }) }
    const where = `behind ${before.length} characters`
    const compare = (block: BlockVerdict | undefined, side: string) => {
      const verdict = block?.rule ?? 'pass'
      if (verdict !== one.expect) problems.push(`${side}, ${where}: it was ${verdict}`)
      else if (moved.spans && block && placesOf(block.spans) !== placesOf(moved.spans)) {
        const places = `${placesOf(block.spans)}, expected ${placesOf(moved.spans)}`
        problems.push(`${side}, ${where}: it was found at ${places}`)
      }
    }
    if (one.side !== 'output' && fixture.guard.checkInput)
      compare((await checkTexts(fixture, moved, [text]))[0], 'input')
    if (one.side !== 'input' && (fixture.guard.checkOutput ?? fixture.guard.streamOutput))
      compare(await checkWholeText(fixture, moved, text), 'output')
    // A piece may have half of a character.
    const piece = text.length > LONG ? PAD_PIECE : before.startsWith('👋') ? 1 : undefined
    if (one.side !== 'input' && piece && fixture.guard.streamOutput)
      compare((await streamText(fixture, moved, slices(text, piece))).block, 'in pieces')
    if (problems.length > 0) break
  }
  return toCheck('pads', on, problems)
}

/** Checks that nothing of a match goes out before it is known, and that text that passes goes out soon. */
async function checkRelease(fixture: GuardFixture, one: GuardCase, on: string): Promise<Check> {
  const random = randomFrom(fixture.seed)
  const problems: string[] = []
  for (const pad of [0, 7, 1500]) {
    const before = pad === 0 ? '' : `${fillerOf(pad - 1)} `
    const text = `${before}${one.text} ${fillerOf(MOST_RETAINED)}`
    const start = before.length + (one.spans?.[0]?.start ?? (await firstNeeded(fixture, one)))
    for (const size of [1, 2, 3, 5, 16, 1 + random(40)]) {
      const { released, block } = await streamText(fixture, one, slices(text, size, start + 400))
      if (!block) problems.push(`in pieces of ${size} it passes`)
      else if (released > start)
        problems.push(`in pieces of ${size}, ${released - start} characters of a match went out`)
      if (problems.length > 0) return toCheck('hold-back', on, problems)
    }
  }
  return toCheck('hold-back', on, problems)
}

/** Checks that of a long text that passes all but a bounded end is released at any time. */
async function checkReleased(fixture: GuardFixture, one: GuardCase): Promise<Check> {
  const { guard } = fixture
  const most = Math.max(MOST_RETAINED, 2 * (guard.reach ?? 0))
  let worst = 0
  await streamText(fixture, one, slices(fillerOf(LONG), PIECE), (safe, length) => {
    worst = Math.max(worst, length - safe)
  })
  const late = `of a text that passes it keeps ${worst} characters back`
  const seen = worst > MANY_RETAINED ? `warning: ${late}; more than ${MANY_RETAINED}` : late
  return toCheck('release', null, worst > most ? [late] : [], [seen])
}

async function checkInterleaved(fixture: GuardFixture, one: GuardCase, on: string): Promise<Check> {
  const texts = [one.text, fillerOf(one.text.length + 40)] as const
  const verdicts: (string | undefined)[] = []
  const streams = texts.map((text, choice) => ({
    text,
    progress: progressOf(fixture, one, choice),
    at: 0,
  }))
  const STEP = 3
  for (let going = true; going;) {
    going = false
    for (const [i, stream] of streams.entries()) {
      if (verdicts[i] !== undefined || stream.at === Infinity) continue
      const piece = stream.text.slice(stream.at, stream.at + STEP)
      const { block } = await stream.progress.push(piece === '' ? undefined : piece)
      stream.at = piece === '' ? Infinity : stream.at + STEP
      if (block) verdicts[i] = block.rule
      going = true
    }
  }
  const problems = []
  if (verdicts[0] !== one.expect)
    problems.push(`beside another text it was ${verdicts[0] ?? 'pass'}`)
  if (verdicts[1] !== undefined) problems.push(`the other text was ${verdicts[1]}`)
  return toCheck('interleaved', on, problems)
}

async function checkRepeated(fixture: GuardFixture, one: GuardCase, on: string): Promise<Check> {
  const { guard } = fixture
  const verdicts: string[] = []
  const note = (block: BlockVerdict | undefined) => void verdicts.push(block?.rule ?? 'pass')
  for (let i = 0; i < 3; i++) {
    if (one.side !== 'output' && guard.checkInput)
      (
        await checkTexts(
          fixture,
          one,
          guard.execution === 'local' ? [one.text, one.text] : [one.text],
        )
      ).forEach(note)
    if (one.side !== 'input' && (guard.checkOutput ?? guard.streamOutput))
      note(await checkWholeText(fixture, one))
  }
  const others = verdicts.filter((rule) => rule !== one.expect)
  const again = `asked again about the same text it says ${others[0]}`
  return toCheck('repeat', on, others.length > 0 ? [again] : [])
}

/** Checks that ten times the text costs at most 25 times the time. */
async function checkGuardTime(fixture: GuardFixture, one: GuardCase): Promise<Check> {
  const { guard } = fixture
  // Beginnings of what is looked for are the hardest text that still passes.
  const core = one.text.slice(0, Math.max(1, one.text.length - 1))
  const texts = [
    (size: number) => fillerOf(size),
    (size: number) => core.repeat(size / core.length + 1),
  ]
  const problems: string[] = []
  for (const textOf of texts) {
    const judge = async (size: number) => {
      if (guard.checkInput) await checkTexts(fixture, one, [textOf(size).slice(0, size)])
      else await checkWholeText(fixture, one, textOf(size).slice(0, size))
    }
    problems.push(...(await growth('characters', judge, 2000)))
    if (guard.streamOutput && problems.length === 0) {
      const stream = (size: number) =>
        streamText(fixture, one, slices(textOf(size).slice(0, size), 4))
      problems.push(...(await growth('characters in pieces of 4', stream, 2000)))
    }
    if (problems.length > 0) break
  }
  return toCheck('time', null, problems)
}

async function checkGuardMemory(fixture: GuardFixture, one: GuardCase): Promise<Check> {
  let count = 0
  return checkHeap('texts', null, async () => {
    const text = `${fillerOf(100)}${count++}`
    if (fixture.guard.checkInput) await checkTexts(fixture, one, [text])
    if (fixture.guard.checkOutput ?? fixture.guard.streamOutput)
      await checkWholeText(fixture, one, text)
  })
}

/** Checks that a guard of several categories blocks only for those in force. */
async function checkInForce(fixture: GuardFixture, one: GuardCase, on: string): Promise<Check> {
  const { enforces, checkInput } = fixture.guard
  const deny = CATEGORIES.filter(
    (category) => enforces.includes(`deny:${category}`) && one.expect !== `deny:${category}`,
  )
  // A guard of one rule is asked only where that one is in force.
  if (enforces.length === 1) return skipped('in force', on, 'the guard enforces one rule')
  const without: GuardCase = { ...one, rules: { ...one.rules, deny }, expect: 'pass' }
  const block = checkInput
    ? (await checkTexts(fixture, without, [one.text]))[0]
    : await checkWholeText(fixture, without)
  const problem = `it blocks for ${block?.rule}, which is not in force`
  return toCheck('in force', on, block?.rule === one.expect ? [problem] : [])
}

async function checkLocal(fixture: GuardFixture, one: GuardCase, on: string): Promise<Check> {
  const { guard, host } = fixture
  const before = host.requestCount
  const started = new Set<string>()
  // Decision: a read of a file that blocks cannot be seen; it shows in the time.
  const hook = createHook({
    init: (_id, type) => void (STARTED.test(type) && started.add(type)),
  })
  const context = contextOf(fixture, one)
  const input = [textItem(one, one.text, 'input', 0)]
  hook.enable()
  let answer: unknown
  try {
    answer = guard.checkInput?.(input, context)
    if (!guard.checkInput)
      answer = guard.checkOutput?.(textItem(one, one.text, 'output', 0), context)
  } finally {
    hook.disable()
  }
  await answer
  const problems = host.requestCount > before ? ['it asks a model or a service'] : []
  if (started.size > 0) problems.push(`it starts ${[...started].join(', ')} while it judges`)
  return toCheck('local', on, problems)
}

/** The start of the shortest part of a text that still blocks. */
async function firstNeeded(fixture: GuardFixture, one: GuardCase): Promise<number> {
  const blocks = async (text: string) => {
    const verdict = await checkWholeText(fixture, one, text).catch(() => undefined)
    return verdict?.rule === one.expect
  }
  let start = 0
  for (let step = one.text.length >> 1; step > 0; step >>= 1) {
    while (start + step < one.text.length && (await blocks(one.text.slice(start + step))))
      start += step
  }
  return start
}

/** A text in pieces of one size. @param end where pieces begin to be larger */
function slices(text: string, size: number, end = text.length): string[] {
  const pieces: string[] = []
  for (let at = 0; at < text.length;) {
    const next = at + (at < end ? size : PIECE)
    pieces.push(text.slice(at, next))
    at = next
  }
  return pieces
}

function shifted({ spans = [] }: GuardCase, by: number) {
  return spans.map(({ start, end }) => ({ start: start + by, end: end + by }))
}

function placesOf(spans: readonly { readonly start: number; readonly end: number }[] = []): string {
  return spans.map(({ start, end }) => `${start}–${end}`).join(', ') || 'nowhere'
}

// Checks of remote guards: a missing verdict of a model or a service never counts as a pass.

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

async function checkService(fixture: GuardFixture, run: CheckRun): Promise<void> {
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
  const { guard, service, patience } = fixture
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
    const request = await patience.waitOnce(arrived.promise, 'no request')
    call.abort(new Error('the verdict is not wanted any more'))
    const problem = await patience.waitOnce(ended, 'the guard did not end')
    await patience.waitOnce(request.aborted, 'the connection was not closed')
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
