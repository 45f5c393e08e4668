/** The conformance check for guards: what a gateway would hold against one, seen without a gateway. */
import { ConfigError } from '../errors/errors.ts'
import type { BlockVerdict } from '../guard/verdicts.ts'
import { toConfigIssues } from '../errors/issues.ts'
import { CATEGORIES, type Guard, type GuardHost, type GuardPlugin, type Span } from '../plugin.ts'
import { judged, named, skipped, type Check } from './fixture.ts'
import { cutAt, randomFrom } from './splits.ts'
import { TestHost, type FakeModel } from './guard-host.ts'
import {
  follow,
  inTime,
  judgeAnswer,
  judgeUnits,
  type GuardFixture,
  type GuardCase,
  type Outcome,
} from './guard-cases.ts'

export type { GuardCase }

export interface GuardTestOptions {
  /** The plugin's options. */
  readonly options?: Readonly<Record<string, unknown>>
  /** Speaks for every model that the guard asks. */
  readonly ask?: FakeModel
  /** Of everything random; a random one by default. */
  readonly seed?: number
  /** ms that anything may take before it counts as stuck; default 5,000. */
  readonly patienceMs?: number
}

export interface GuardReport {
  /** The plugin's own name. */
  readonly guard: string
  readonly seed: number
  /** None failed. */
  readonly ok: boolean
  readonly checks: readonly Check[]
}

const PATIENCE_MS = 5000
const RANDOM_CUTS = 20
const MOST_NAME_CHARACTERS = 40

/**
 * Looks for what would make a gateway treat a guard as one that could not look: wrong numbers, offsets and rules, promises
 * where there must not be any, answers that depend on how a text is cut, and a pass in place of an error.
 * @throws ConfigError when the options are wrong; whatever `setup` throws
 */
export async function checkGuard(
  plugin: GuardPlugin,
  cases: readonly GuardCase[],
  options: GuardTestOptions = {},
): Promise<GuardReport> {
  const seed = options.seed ?? Math.floor(Math.random() * 2 ** 31)
  const host = new TestHost(options.ask)
  const checks: Check[] = []
  try {
    const guard = await setUp(plugin, options.options ?? {}, host.host(plugin.name))
    checks.push(checkShape(plugin, guard))
    const patienceMs = options.patienceMs ?? PATIENCE_MS
    const bench: GuardFixture = { plugin, guard, host, seed, patienceMs }
    for (const one of cases) checks.push(...(await checkCase(bench, one)))
    const problems = await tried(async () => {
      await inTime(bench, guard.close?.())
      return []
    })
    checks.push(judged('close', null, problems))
  } finally {
    await host.close()
  }
  return { guard: plugin.name, seed, ok: checks.every(({ result }) => result !== 'failed'), checks }
}

async function setUp(plugin: GuardPlugin, given: object, host: GuardHost): Promise<Guard> {
  const result = await plugin.options['~standard'].validate(given)
  if (result.issues) {
    const source = { path: ['options'], value: given, secrets: new Set<string>() }
    throw new ConfigError(plugin.name, toConfigIssues(result.issues, source, plugin.options))
  }
  return plugin.setup(result.value, host)
}

function checkShape({ name }: GuardPlugin, guard: Guard): Check {
  const { enforces, execution, checkInput, checkOutput, streamOutput } = guard
  const problems: string[] = []
  if (execution !== 'local' && execution !== 'remote')
    problems.push('"execution" is neither local nor remote')
  if (!checkInput && !checkOutput && !streamOutput) problems.push('it looks at nothing')
  if (!Array.isArray(enforces)) problems.push('"enforces" is no list of rules')
  else {
    const unknown = enforces.filter((rule) => !isKnown(rule))
    problems.push(...unknown.map((rule) => `${rule} is no rule; one of its own is x:${name}/<id>`))
  }
  return judged('set up', null, problems)
}

function isKnown(rule: string): boolean {
  if (/^x:[\w-]+\/./.test(rule)) return true
  if (rule === 'scope' || rule === 'bannedPatterns' || rule === 'tampering') return true
  return CATEGORIES.some((category) => rule === `deny:${category}`)
}

async function checkCase(bench: GuardFixture, one: GuardCase): Promise<Check[]> {
  const { guard } = bench
  const on = one.name ?? shortened(one.text)
  const checks: Check[] = []
  if (one.side !== 'output' && guard.checkInput) checks.push(await checkInput(bench, one, on))
  if (one.side !== 'input' && (guard.checkOutput || guard.streamOutput)) {
    checks.push(await checkOutput(bench, one, on))
    if (guard.streamOutput) checks.push(await checkCuts(bench, one, on))
  }
  if (guard.execution === 'remote' && one.expect !== 'pass')
    checks.push(await checkDown(bench, one, on))
  if (checks.length === 0) return [skipped('verdict', on, `the guard does not look at ${one.side}`)]
  return checks
}

/** The text alone, and between others: a verdict for each unit, in their order. */
async function checkInput(bench: GuardFixture, one: GuardCase, on: string): Promise<Check> {
  const problems = await tried(async () => {
    const [alone] = await judgeUnits(bench, one, [one.text])
    const found = expectedIn(one, alone)
    const three = await judgeUnits(bench, one, ['', one.text, ''])
    if (three.some((block, i) => block?.rule !== (i === 1 ? alone?.rule : undefined))) {
      found.push('among other units it is judged otherwise, or verdicts are not in their order')
    }
    return found
  })
  return judged('input', on, problems)
}

async function checkOutput(bench: GuardFixture, one: GuardCase, on: string): Promise<Check> {
  const problems = await tried(async () => expectedIn(one, await judgeAnswer(bench, one)))
  return judged('output', on, problems)
}

/** Whole, letter by letter, and at random places: it is the same text. */
async function checkCuts(bench: GuardFixture, one: GuardCase, on: string): Promise<Check> {
  const { text } = one
  const random = randomFrom(bench.seed)
  const ways = [
    Array.from({ length: text.length }, (_, i) => i + 1),
    ...Array.from({ length: RANDOM_CUTS }, () =>
      Array.from({ length: 1 + random(8) }, () => 1 + random(Math.max(1, text.length))),
    ),
  ]
  const problems = await tried(async () => {
    const whole = await follow(bench, one, [text])
    const found = expectedIn(one, whole.block)
    for (const ends of ways) {
      const cut = await follow(bench, one, piecesOf(text, ends))
      if (cut.safe !== whole.safe || cut.block?.rule !== whole.block?.rule) {
        const told = ({ safe, block }: Outcome) => `${block?.rule ?? 'pass'} after ${safe}`
        found.push(
          `cut at ${ends.slice(0, 8).join(', ')} it is ${told(cut)}; whole it is ${told(whole)}`,
        )
        break
      }
    }
    return found
  })
  return judged('cuts', on, problems)
}

/** Whoever cannot ask must not let pass: it throws, or says that it could not look. */
async function checkDown(bench: GuardFixture, one: GuardCase, on: string): Promise<Check> {
  const { guard, host } = bench
  // Another text, for guards that remember.
  const other = { ...one, text: `${one.text} ` }
  const before = host.asked
  const passed = await host.whileDown(async () => {
    try {
      const block =
        guard.checkInput && one.side !== 'output'
          ? (await judgeUnits(bench, other, [other.text]))[0]
          : await judgeAnswer(bench, other)
      return block === undefined
    } catch {
      return false
    }
  })
  const wrong = passed && host.asked > before
  return judged('down', on, wrong ? ['whoever it asks is down, and it let the text pass'] : [])
}

function expectedIn({ expect, spans }: GuardCase, block: BlockVerdict | undefined): string[] {
  const found = block?.rule ?? 'pass'
  if (found !== expect) return [`it was ${found}, expected ${expect}`]
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
    return [named(error)]
  }
}

/** The text in UTF-16 units: a guard is told half a character too. */
function piecesOf(text: string, ends: readonly number[]): string[] {
  let at = 0
  return cutAt(new Uint8Array(text.length), ends).map(({ length }) =>
    text.slice(at, (at += length)),
  )
}

function shortened(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim()
  return line.length > MOST_NAME_CHARACTERS ? `${line.slice(0, MOST_NAME_CHARACTERS - 1)}…` : line
}
