/** What every check works with: a provider, its vendor, and the words of a report. */
import { UpstreamFailure } from '../errors/errors.ts'
import { bordersOf } from './splits.ts'
import type { TestRequest } from './requests.ts'
import type { ProviderUnderTest } from './provider-under-test.ts'
import type { RecordedResponse, Transcript } from './transcripts.ts'
import type { FakeResponse, FakeUpstream } from './vendor.ts'

export interface Fixture {
  readonly vendor: FakeUpstream
  readonly subject: ProviderUnderTest
  /** Of everything random. */
  readonly seed: number
  /** ms that anything may take. */
  readonly patienceMs: number
}

/** A transcript, and its request as the provider gets it. */
export interface Case {
  readonly transcript: Transcript
  readonly question: TestRequest
}

/** One line of a report. */
export interface Check {
  readonly name: string
  /** The transcript or the situation, if the check is about one. */
  readonly on: string | null
  readonly result: 'ok' | 'failed' | 'skipped'
  /** What is wrong, why it was skipped, or what was seen. */
  readonly notes: readonly string[]
}

/** Why there is nothing to see of vendors, connections and cuts. */
export const ASKS_NOBODY = 'it asks no vendor'

/** Failed if there are problems. */
export function judged(
  name: string,
  on: string | null,
  problems: readonly string[],
  seen: readonly string[] = [],
): Check {
  const failed = problems.length > 0
  return { name, on, result: failed ? 'failed' : 'ok', notes: failed ? problems : seen }
}

export function skipped(name: string, on: string | null, why: string): Check {
  return { name, on, result: 'skipped', notes: [why] }
}

/** A recorded answer, or part of it, as the vendor gives it. */
export function answerOf(
  { status, headers, body }: RecordedResponse,
  pieces: Iterable<Uint8Array> = [body],
  ending: FakeResponse['ending'] = 'end',
): FakeResponse {
  return { status, headers, pieces, ending }
}

/** Where an answer may be broken off: at its borders where it has any, else at every eighth of it. Not at its end. */
export function breaksOf({ headers, body }: RecordedResponse): number[] {
  const borders = bordersOf(body, headers['content-type'] ?? '').filter((end) => end < body.length)
  if (borders.length > 1) return borders
  return Array.from({ length: 7 }, (_, i) => Math.floor(((i + 1) * body.length) / 8))
}

/** What was thrown, for a report. */
export function named(error: unknown): string {
  if (UpstreamFailure.is(error)) return `${error.failure} (${error.message})`
  if (error instanceof Error) return `${error.name}: ${error.message}`
  return `a thrown ${typeof error}`
}

/** What is wrong with an error in place of a failure of one of these classes. */
export function notFailure(error: unknown, classes: readonly string[]): string | undefined {
  const wanted = classes.join(' or ')
  if (error === undefined) return `it ended as if all were well; expected ${wanted}`
  if (!UpstreamFailure.is(error)) {
    return `it threw ${named(error)}; expected host.fail with ${wanted}`
  }
  return classes.includes(error.failure) ? undefined : `it was ${named(error)}; expected ${wanted}`
}
