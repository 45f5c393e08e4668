/** A guard at work on one text, held to what a gateway holds it to. */
import {
  ruleFilter,
  checkProgress,
  checkVerdict,
  type RuleFilter,
  type BlockVerdict,
} from '../guard/verdicts.ts'
import {
  CATEGORIES,
  type ActiveRules,
  type Channel,
  type Guard,
  type GuardContext,
  type GuardPlugin,
  type RuleRef,
  type Span,
  type TextItem,
} from '../plugin.ts'
import type { TestHost } from './guard-host.ts'

/** One text, and what the guard is to say of it. */
export interface GuardCase {
  /** For the report; the beginning of the text by default. */
  readonly name?: string
  readonly text: string
  /** Both by default. */
  readonly side?: 'input' | 'output'
  /** Default `content`. */
  readonly channel?: Channel
  /** Rules in force; by default everything that the guard answers, without scopes and patterns. */
  readonly rules?: Partial<ActiveRules>
  /** `pass`, or the rule that blocks. */
  readonly expect: 'pass' | RuleRef
  /** Where it is found, if that is to be checked. */
  readonly spans?: readonly Pick<Span, 'start' | 'end'>[]
}

/** What every check works with. */
export interface GuardFixture {
  readonly plugin: GuardPlugin
  readonly guard: Guard
  readonly host: TestHost
  readonly seed: number
  readonly patienceMs: number
}

/** What a guard made of a text: how much of it may go out, and why no more. */
export interface Outcome {
  readonly safe: number
  readonly block?: BlockVerdict
}

/** One verdict for each text. @throws Error that says what the guard did wrong */
export async function judgeUnits(
  bench: GuardFixture,
  one: GuardCase,
  texts: readonly string[],
): Promise<readonly (BlockVerdict | undefined)[]> {
  const units = Object.freeze(texts.map((text, i) => unitOf(one, text, 'input', i)))
  const context = contextOf(bench, one)
  const answer = await inTime(bench, bench.guard.checkInput!(units, context))
  if (!Array.isArray(answer) || answer.length !== units.length) {
    throw new Error(`it gave ${countOf(answer)} verdicts for ${units.length} units`)
  }
  return answer.map((verdict, i) =>
    checkVerdict(verdict, units[i]!.text.length, admitsOf(bench, one)),
  )
}

/** The verdict of a text that is complete. @throws Error that says what the guard did wrong */
export async function judgeAnswer(
  bench: GuardFixture,
  one: GuardCase,
): Promise<BlockVerdict | undefined> {
  const { guard } = bench
  if (!guard.checkOutput) return (await follow(bench, one, [one.text])).block
  const answer = guard.checkOutput(unitOf(one, one.text, 'output', 0), contextOf(bench, one))
  if (guard.execution === 'local' && answer instanceof Promise) {
    throw new Error('a local guard answers at once: "output" gave a promise')
  }
  return checkVerdict(await inTime(bench, answer), one.text.length, admitsOf(bench, one))
}

/** A text that comes in pieces. @throws Error that says what the guard did wrong */
export async function follow(
  bench: GuardFixture,
  one: GuardCase,
  pieces: readonly string[],
): Promise<Outcome> {
  const { guard } = bench
  const info = { channel: one.channel ?? 'content', choice: 0, index: 0 } as const
  const lane = guard.streamOutput!(Object.freeze(info), contextOf(bench, one))
  let safe = 0
  let length = 0
  for (const piece of [...pieces, undefined]) {
    const answer = piece === undefined ? lane.end() : lane.push(piece)
    if (guard.execution === 'local' && answer instanceof Promise) {
      throw new Error('a local guard answers at once: a lane gave a promise')
    }
    length += piece?.length ?? 0
    const { safeOffset: next, verdict } = checkProgress(await inTime(bench, answer), safe, length)
    safe = next
    const block = verdict && checkVerdict(verdict, length, admitsOf(bench, one))
    if (block) return { safe, block }
  }
  if (safe < length) throw new Error(`it ended and agreed to ${safe} of ${length} characters only`)
  return { safe }
}

/** @throws Error when it takes too long */
export async function inTime<T>({ patienceMs }: GuardFixture, answer: T | Promise<T>): Promise<T> {
  if (!(answer instanceof Promise)) return answer
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => late.reject(new Error(`no answer within ${patienceMs} ms`)),
    patienceMs,
  )
  try {
    return await Promise.race([answer, late.promise])
  } finally {
    clearTimeout(timer)
  }
}

function unitOf(one: GuardCase, text: string, side: TextItem['side'], index: number): TextItem {
  const context = { before: '', question: 'What was asked.' }
  return Object.freeze({
    id: side === 'input' ? `messages[${index}]` : 'choices[0].content[0]#0',
    side,
    channel: one.channel ?? 'content',
    role: side === 'input' ? 'user' : 'assistant',
    current: true,
    text,
    ...(side === 'output' ? { context: Object.freeze(context) } : {}),
  })
}

function rulesOf({ guard }: GuardFixture, { rules }: GuardCase): ActiveRules {
  const deny = CATEGORIES.filter((category) => guard.enforces.includes(`deny:${category}`))
  return Object.freeze({ scopes: [], bannedPatterns: [], deny, ...rules })
}

function contextOf(bench: GuardFixture, one: GuardCase): GuardContext {
  return Object.freeze({
    requestId: 'req_test',
    accountId: 'acme',
    keyId: 'key_test',
    operation: 'chat',
    model: 'test/model',
    origin: 'key',
    rules: rulesOf(bench, one),
    conversation: Object.freeze({ userTurn: 'What was asked.' }),
    signal: bench.host.signal,
    deadline: Date.now() + bench.patienceMs,
  })
}

function admitsOf(bench: GuardFixture, one: GuardCase): RuleFilter {
  const { deny, scopes, bannedPatterns } = rulesOf(bench, one)
  const inForce = new Set<string>(deny.map((category) => `deny:${category}`))
  if (scopes.length > 0) inForce.add('scope')
  if (bannedPatterns.length > 0) inForce.add('bannedPatterns')
  return ruleFilter(bench.plugin.name, bench.guard.enforces, inForce)
}

function countOf(answer: unknown): string {
  return Array.isArray(answer) ? String(answer.length) : 'no list of'
}
