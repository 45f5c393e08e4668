/** The conformance kit for guards: checks a guard as the gateway would, without a gateway. */
import { ConfigError } from '../errors/errors.ts'
import { methodProblem, withDerivedMethods } from '../guard/check.ts'
import type { BlockVerdict } from '../guard/verdicts.ts'
import { toConfigIssues } from '../errors/issues.ts'
import { CATEGORIES, type Guard, type GuardHost, type GuardPlugin, type Span } from '../plugin.ts'
import {
  describeError,
  kitDefaults,
  skipped,
  toCheck,
  type Check,
  type KitOptions,
  type KitReport,
} from './fixture.ts'
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

/** How to test a guard. */
export interface GuardTestOptions extends KitOptions {
  /** Options of the plugin. */
  readonly options?: Readonly<Record<string, unknown>>
  /** Answers in place of every model that the guard asks. */
  readonly ask?: FakeModel
}

/** The results of all checks of a guard. */
export interface GuardReport extends KitReport {
  /** Name of the plugin. */
  readonly guard: string
}

const RANDOM_SPLITS = 20
const MAX_NAME_CHARACTERS = 40

/**
 * Checks a guard against cases. Finds everything that the gateway would treat as a failure of the guard: wrong counts,
 * offsets and rules, promises of a local guard, results that depend on how a text is split, and a pass in place of an error.
 * @throws ConfigError if the options are invalid; whatever `setup` throws
 */
export async function checkGuard(
  plugin: GuardPlugin,
  cases: readonly GuardCase[],
  options: GuardTestOptions = {},
): Promise<GuardReport> {
  const { seed, timeoutMs } = kitDefaults(options)
  const host = new TestHost(options.ask)
  const checks: Check[] = []
  try {
    const guard = await setUp(plugin, options.options ?? {}, host.hostOf(plugin.name))
    checks.push(checkShape(plugin, guard))
    const fixture: GuardFixture = { plugin, guard, host, seed, timeoutMs }
    for (const one of cases) checks.push(...(await checkCase(fixture, one)))
    const problems = await tried(async () => {
      await answered(fixture, guard.close?.())
      return []
    })
    checks.push(toCheck('close', null, problems))
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
  return withDerivedMethods(await plugin.setup(result.value, host))
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

async function checkCase(fixture: GuardFixture, one: GuardCase): Promise<Check[]> {
  const { guard } = fixture
  const on = one.name ?? shortened(one.text)
  const checks: Check[] = []
  if (one.side !== 'output' && guard.checkInput) checks.push(await checkInput(fixture, one, on))
  if (one.side !== 'input' && (guard.checkOutput || guard.streamOutput)) {
    checks.push(await checkOutput(fixture, one, on))
    if (guard.streamOutput) checks.push(await checkCuts(fixture, one, on))
  }
  if (guard.execution === 'remote' && one.expect !== 'pass')
    checks.push(await checkDown(fixture, one, on))
  if (checks.length === 0) return [skipped('verdict', on, `the guard does not check ${one.side}`)]
  return checks
}

/** Checks the text alone and between others: one verdict per text, in their order. */
async function checkInput(fixture: GuardFixture, one: GuardCase, on: string): Promise<Check> {
  const problems = await tried(async () => {
    const [alone] = await checkTexts(fixture, one, [one.text])
    const found = expectedIn(one, alone)
    const three = await checkTexts(fixture, one, ['', one.text, ''])
    if (three.some((block, i) => block?.rule !== (i === 1 ? alone?.rule : undefined))) {
      found.push('among other texts the verdict differs, or verdicts are out of order')
    }
    return found
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
    const found = expectedIn(one, whole.block)
    for (const ends of ways) {
      const cut = await streamText(fixture, one, piecesOf(text, ends))
      if (cut.safe !== whole.safe || cut.block?.rule !== whole.block?.rule) {
        const told = ({ safe, block }: Outcome) => `${block?.rule ?? 'pass'} after ${safe}`
        found.push(`split at ${ends.slice(0, 8).join(', ')}: ${told(cut)}; whole: ${told(whole)}`)
        break
      }
    }
    return found
  })
  return toCheck('cuts', on, problems)
}

/** Checks that a remote guard does not pass a text while its service is down. */
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

function shortened(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim()
  return line.length > MAX_NAME_CHARACTERS ? `${line.slice(0, MAX_NAME_CHARACTERS - 1)}…` : line
}
