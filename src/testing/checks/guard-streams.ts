/** Checks of guards on texts that grow, and on texts among others. */
import { createHook } from 'node:async_hooks'
import type { BlockVerdict } from '../../guard/runner.ts'
import { CATEGORIES } from '../../plugin.ts'
import {
  checkTexts,
  checkWholeText,
  contextOf,
  progressOf,
  streamText,
  textItem,
  type GuardCase,
  type GuardFixture,
} from '../guard-cases.ts'
import { growth, heapGrowth } from '../measure.ts'
import { skipped, toCheck, type Check } from '../report.ts'
import { randomFrom } from '../splits.ts'

/** Words that no rule forbids, of any guard that can be tested with texts. */
const FILLER = 'The weather was mild, and the garden was quiet. '
const PADS = [1, 7, 64, 3000]
const LONG = 20_000
const PIECE = 100
const MOST_RETAINED = 4096
const CALLS = 200
const STARTED = /^(?:Timeout|TCP|FS|GETADDR|WORKER)/
const MAX_HEAP_BYTES = 4 * 1024 * 1024

/** The beginning, of this length, of a text that passes. */
function fillerOf(length: number): string {
  return FILLER.repeat(Math.ceil(length / FILLER.length)).slice(0, length)
}

/** Whether the guard passes the filler under a case's rules. @throws its errors, unless the text is too large */
export async function passesFiller(fixture: GuardFixture, one: GuardCase): Promise<boolean> {
  const text = fillerOf(LONG)
  try {
    if (fixture.guard.checkInput) return !(await checkTexts(fixture, one, [text]))[0]
    return !(await checkWholeText(fixture, one, text))
  } catch (error) {
    if ((error as Error)?.name === 'TooLarge') return false
    throw error
  }
}

/** Checks that verdict and place are the same anywhere in a longer text, with every character around. */
export async function checkPads(fixture: GuardFixture, one: GuardCase, on: string): Promise<Check> {
  const problems: string[] = []
  const around = [...PADS.map((length) => `${fillerOf(length - 1)} `), '👋🏽 ', '\n']
  for (const before of around) {
    const text = `${before}${one.text}${before === '\n' ? '\n' : ` ${before}`}`
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
    if (problems.length > 0) break
  }
  return toCheck('pads', on, problems)
}

/** Checks that nothing of a match goes out before it is known, and that text that passes goes out soon. */
export async function checkRelease(
  fixture: GuardFixture,
  one: GuardCase,
  on: string,
): Promise<Check> {
  const random = randomFrom(fixture.seed)
  const problems: string[] = []
  for (const pad of [0, 7, 3000]) {
    const before = pad === 0 ? '' : `${fillerOf(pad - 1)} `
    const text = `${before}${one.text} ${fillerOf(LONG)}`
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
export async function checkReleased(fixture: GuardFixture, one: GuardCase): Promise<Check> {
  const { guard } = fixture
  const most = Math.max(MOST_RETAINED, 2 * (guard.reach ?? 0))
  let worst = 0
  await streamText(fixture, one, slices(fillerOf(LONG), PIECE), (safe, length) => {
    worst = Math.max(worst, length - safe)
  })
  const late = `of a text that passes it keeps ${worst} characters back`
  return toCheck('release', null, worst > most ? [late] : [])
}

export async function checkInterleaved(
  fixture: GuardFixture,
  one: GuardCase,
  on: string,
): Promise<Check> {
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

export async function checkRepeated(
  fixture: GuardFixture,
  one: GuardCase,
  on: string,
): Promise<Check> {
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
export async function checkGuardTime(fixture: GuardFixture, one: GuardCase): Promise<Check> {
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

export async function checkGuardMemory(fixture: GuardFixture, one: GuardCase): Promise<Check> {
  let count = 0
  const bytes = await heapGrowth(CALLS, async () => {
    const text = `${fillerOf(20_000)}${count++}`
    if (fixture.guard.checkInput) await checkTexts(fixture, one, [text])
    if (fixture.guard.checkOutput ?? fixture.guard.streamOutput)
      await checkWholeText(fixture, one, text)
  })
  if (bytes === undefined) return skipped('memory', null, 'memory is measured by testPlugin only')
  const mib = (bytes / 1024 / 1024).toFixed(1)
  const left = `${CALLS} texts leave ${mib} MiB behind`
  return toCheck('memory', null, bytes > MAX_HEAP_BYTES ? [left] : [])
}

/** Checks that a guard of several categories blocks only for those in force. */
export async function checkInForce(
  fixture: GuardFixture,
  one: GuardCase,
  on: string,
): Promise<Check> {
  const { enforces, checkInput } = fixture.guard
  const deny = CATEGORIES.filter(
    (category) => enforces.includes(`deny:${category}`) && one.expect !== `deny:${category}`,
  )
  if (deny.length === 0) return skipped('in force', on, 'the guard enforces one category')
  const without: GuardCase = { ...one, rules: { deny }, expect: 'pass' }
  const block = checkInput
    ? (await checkTexts(fixture, without, [one.text]))[0]
    : await checkWholeText(fixture, without)
  const problem = `it blocks for ${block?.rule}, which is not in force`
  return toCheck('in force', on, block?.rule === one.expect ? [problem] : [])
}

export async function checkLocal(
  fixture: GuardFixture,
  one: GuardCase,
  on: string,
): Promise<Check> {
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

/** A text in pieces of one size. @param end from here on in larger ones */
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
