/** Checks of streams with a missing event, or an event that is an error. */
import { boundariesOf } from '../splits.ts'
import { choicesIn, show } from '../compare.ts'
import { replay, type Case, type Fixture } from '../fixture.ts'
import { notFailure, toCheck, type Check } from '../report.ts'
import type { Outcome } from '../provider-under-test.ts'
import type { RecordedResponse } from '../transcripts.ts'

/** The most events that are left out of a longer answer, spread over it. */
const MAX_LEFT_OUT = 16

export function eventsOf({ headers, body }: RecordedResponse): Uint8Array[] {
  const ends = boundariesOf(body, headers['content-type'] ?? '')
  if (ends.length === 0) return []
  const all = [...ends, body.length].map((end, i) => body.subarray(ends[i - 1] ?? 0, end))
  return all.filter((event) => event.length > 0)
}

/** Leaves out one event after the other: the remainder is an error, or has less content. */
export async function checkLeftOut(
  fixture: Fixture,
  { transcript: { name, answer }, request }: Case,
): Promise<Check> {
  const events = eventsOf(answer!)
  const play = (some: readonly Uint8Array[]) => replay(fixture, request, answer!, some)
  const whole = await play(events)
  const step = Math.ceil(events.length / MAX_LEFT_OUT)
  for (let i = 0; i < events.length; i += step) {
    const outcome = await play(events.toSpliced(i, 1))
    const problem = problemOf(whole, outcome)
    if (problem) return toCheck('left out', name, [`without event ${i + 1}, ${problem}`])
  }
  const end = await endOf(play, events)
  const ended = madeUp(whole, await play(events.toSpliced(end - 1, 1)))
  const problem = `without event ${end}, which brings the finish_reason, it ends with one all the same`
  return toCheck('left out', name, ended ? [problem] : [], [`each of ${events.length} events`])
}

/** Ends another answer in its middle with the event with which a case fails. */
export async function checkErrorEvent(
  fixture: Fixture,
  { transcript: { name, answer }, request }: Case,
  failing: Case,
): Promise<Check> {
  const events = eventsOf(answer!)
  const play = (some: readonly Uint8Array[]) => replay(fixture, request, answer!, some)
  const error = lastEventOf(failing)!
  const { failure } = failing.transcript.expect
  const last = (await endOf(play, events)) - 1
  const on = `in ${name}`
  for (const at of new Set([1, last >> 1, last])) {
    if (at < 1 || at > last) continue
    const outcome = await play([...events.slice(0, at), error])
    const problem = notFailure(outcome.error, [failure!])
    const where = `with the last event of ${failing.transcript.name} after event ${at}`
    if (problem) return toCheck('errors', on, [`${where}, ${problem}`])
  }
  return toCheck('errors', on, [])
}

export function lastEventOf({ transcript: { answer, expect } }: Case): Uint8Array | undefined {
  if (!expect.failure || !answer || answer.status !== 200) return undefined
  return eventsOf(answer).findLast((event) => !Buffer.from(event).includes('[DONE]'))
}

/** The number of events until the provider ends a choice; all, where it never does. */
async function endOf(
  play: (some: readonly Uint8Array[]) => Promise<Outcome>,
  events: readonly Uint8Array[],
): Promise<number> {
  let [none, enough] = [0, events.length]
  while (enough - none > 1) {
    const middle = (none + enough) >> 1
    if (reasonsIn(await play(events.slice(0, middle))).length > 0) enough = middle
    else none = middle
  }
  return enough
}

function problemOf(whole: Outcome, { completion, error, raw }: Outcome): string | undefined {
  if (error !== undefined) return notFailure(error, ['upstream_error'])
  const [all, left] = [choicesIn(whole.completion), choicesIn(completion)]
  const less = left.every((choice, i) => {
    const { text = '', refusal = '', reasoning = '', tool_calls = [] } = all[i] ?? {}
    const calls = choice.tool_calls.every((call) =>
      tool_calls.some((one) => isLess(String(call.arguments), String(one.arguments))),
    )
    const texts =
      isLess(choice.text, text) &&
      isLess(choice.refusal, refusal) &&
      isLess(choice.reasoning, reasoning)
    return texts && calls && choice.tool_calls.length <= tool_calls.length
  })
  if (!less) return `it says what the whole answer does not: ${show(left)}`
  const counts = (outcome: readonly { tool_calls: readonly unknown[] }[]) =>
    outcome.reduce((sum, { tool_calls }) => sum + tool_calls.length, 0)
  const [before, now] = [reasonsIn(whole), reasonsIn({ raw })]
  const other = now.find((reason) => !before.includes(reason))
  return other !== undefined && counts(all) === counts(left)
    ? `its finish_reason is ${show(other)} in place of ${show(before[0])}`
    : undefined
}

/** Whether an answer without the event of its end ends, although the whole one has one end only. */
function madeUp(whole: Outcome, outcome: Outcome): boolean {
  const marks = reasonsIn(whole).length
  const once = marks > 0 && marks === whole.completion.choices.length
  return once && outcome.error === undefined && reasonsIn(outcome).length >= marks
}

function reasonsIn({ raw }: Pick<Outcome, 'raw'>): string[] {
  return raw.flatMap(({ choices }) =>
    (choices ?? []).flatMap(({ finish_reason }) => finish_reason ?? []),
  )
}

/** Whether one text is another without a part of it. */
function isLess(part: string, whole: string): boolean {
  let same = 0
  while (same < part.length && part[same] === whole[same]) same++
  return part.length <= whole.length && whole.endsWith(part.slice(same))
}
