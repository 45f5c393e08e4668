/** Runs a guard on one text, and checks its results as the gateway does. */
import {
  ruleFilter,
  checkProgress,
  checkVerdict,
  type RuleFilter,
  type BlockVerdict,
} from '../guard/runner.ts'
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
import type { FakeUpstream } from './fake-upstream.ts'
import type { Patience } from './report.ts'
import type { TestHost } from './hosts.ts'
import type { RecordedResponse } from './transcripts.ts'

export interface GuardCase {
  /** Name in the report; by default the beginning of the text. */
  readonly name?: string
  readonly text: string
  /** The side of the text; by default both. */
  readonly side?: 'input' | 'output'
  /** Default `content`. */
  readonly channel?: Channel
  /** Active rules; by default every category that the guard enforces, without scopes and patterns. */
  readonly rules?: Partial<ActiveRules>
  readonly expect: 'pass' | RuleRef
  /** The answer of every model that the guard asks about this text. */
  readonly model?: string
  /** The answer of the guard's service about this text. */
  readonly answer?: RecordedResponse
  /** Expected spans; when absent, spans are not checked. */
  readonly spans?: readonly Pick<Span, 'start' | 'end'>[]
  /** The ranges that `locate` has to find, with their labels; when absent, they are not compared. */
  readonly locates?: readonly Span[]
}

export interface GuardFixture {
  readonly seed: number
  readonly patience: Patience
  readonly plugin: GuardPlugin
  readonly guard: Guard
  readonly host: TestHost
  readonly service: FakeUpstream
  readonly cases: readonly GuardCase[]
}

/** The result for a streamed text: how many characters may be released, and the block if there is one. */
export interface Outcome {
  readonly safe: number
  /** The most characters that may have been released, the answer that blocks included. */
  readonly released: number
  readonly block?: BlockVerdict
}

/** The verdicts for input texts. @throws Error that describes a mistake of the guard */
export async function checkTexts(
  fixture: GuardFixture,
  one: GuardCase,
  texts: readonly string[],
): Promise<readonly (BlockVerdict | undefined)[]> {
  prepare(fixture, one)
  const items = Object.freeze(texts.map((text, i) => textItem(one, text, 'input', i)))
  const context = contextOf(fixture, one)
  const answer = await answered(fixture, fixture.guard.checkInput!(items, context))
  if (!Array.isArray(answer) || answer.length !== items.length) {
    throw new Error(`it gave ${countOf(answer)} verdicts for ${items.length} texts`)
  }
  return answer.map((verdict, i) =>
    checkVerdict(verdict, items[i]!.text.length, ruleFilterFor(fixture, one)),
  )
}

/** The verdict for a complete output text. @throws Error that describes a mistake of the guard */
export async function checkWholeText(
  fixture: GuardFixture,
  one: GuardCase,
  text = one.text,
): Promise<BlockVerdict | undefined> {
  const { guard } = fixture
  if (!guard.checkOutput) return (await streamText(fixture, one, [text])).block
  prepare(fixture, one)
  const answer = guard.checkOutput(textItem(one, text, 'output', 0), contextOf(fixture, one))
  refusePromise(guard, answer, '"checkOutput"')
  return checkVerdict(await answered(fixture, answer), text.length, ruleFilterFor(fixture, one))
}

/** The result for an output text in pieces. @throws Error that describes a mistake of the guard */
export async function streamText(
  fixture: GuardFixture,
  one: GuardCase,
  pieces: readonly string[],
  onProgress?: (safe: number, length: number) => void,
): Promise<Outcome> {
  const progress = progressOf(fixture, one)
  let length = 0
  for (const piece of [...pieces, undefined]) {
    length += piece?.length ?? 0
    const outcome = await progress.push(piece)
    if (outcome.block) return outcome
    if (piece === undefined) return outcome
    onProgress?.(outcome.safe, length)
  }
  throw new Error('a text has an end')
}

interface Progress {
  /** Takes the next piece, or the end of the text. @throws Error that describes a mistake of the guard */
  push(piece: string | undefined): Promise<Outcome>
}

/** @param choice its index */
export function progressOf(fixture: GuardFixture, one: GuardCase, choice = 0): Progress {
  const { guard } = fixture
  prepare(fixture, one)
  const info = { channel: one.channel ?? 'content', choice, index: 0 } as const
  const check = guard.streamOutput!(Object.freeze(info), contextOf(fixture, one))
  let safe = 0
  let released = 0
  let length = 0
  return {
    async push(piece) {
      const answer = piece === undefined ? check.end() : check.push(piece)
      refusePromise(guard, answer, 'its output check')
      length += piece?.length ?? 0
      const result = await answered(fixture, answer)
      const { safeOffset: next, verdict } = checkProgress(result, safe, length)
      safe = next
      const block = verdict && checkVerdict(verdict, length, ruleFilterFor(fixture, one))
      if (!block) released = safe
      if (!block && piece === undefined && safe < length) {
        const short = `${safe} of ${length} characters only`
        throw new Error(`at the end of the text it agreed to ${short}`)
      }
      return { safe, released: Math.max(released, safe), ...(block && { block }) }
    },
  }
}

function refusePromise({ execution }: Guard, answer: unknown, what: string): void {
  const later = (answer as { then?: unknown } | undefined)?.then
  if (execution === 'local' && typeof later === 'function') {
    throw new Error(`a local guard must not return a promise: ${what} did`)
  }
}

export async function answered<T>({ patience }: GuardFixture, answer: T | Promise<T>): Promise<T> {
  return answer instanceof Promise ? patience.wait(answer, 'no answer') : answer
}

export function prepare({ host, service }: GuardFixture, { model, answer }: GuardCase): void {
  host.model = model
  if (!answer) return
  const { status, headers, body } = answer
  service.answer({ status, headers, pieces: [body] })
}

export function textItem(
  one: GuardCase,
  text: string,
  side: TextItem['side'],
  index: number,
): TextItem {
  const context = { before: '', userTurn: 'What was asked.' }
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

export function contextOf(fixture: GuardFixture, one: GuardCase): GuardContext {
  return Object.freeze({
    requestId: 'req_test',
    accountId: 'acme',
    keyId: 'key_test',
    operation: 'chat',
    model: 'test/model',
    origin: 'key',
    rules: rulesOf(fixture, one),
    conversation: Object.freeze({ userTurn: 'What was asked.' }),
    signal: fixture.host.signal,
    deadline: Date.now() + fixture.patience.ms,
  })
}

function ruleFilterFor(fixture: GuardFixture, one: GuardCase): RuleFilter {
  const { plugin, guard } = fixture
  return ruleFilter(plugin.name, guard.enforces, rulesOf(fixture, one))
}

function countOf(answer: unknown): string {
  return Array.isArray(answer) ? String(answer.length) : 'no list of'
}
