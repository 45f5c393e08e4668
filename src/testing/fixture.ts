/** What all checks of providers work with, and how they report. */
import { UpstreamFailure } from '../errors/errors.ts'
import { boundariesOf } from './splits.ts'
import type { TestRequest } from './requests.ts'
import type { Outcome, ProviderUnderTest } from './provider-under-test.ts'
import type { RecordedResponse, Transcript } from './transcripts.ts'
import type { FakeResponse, FakeUpstream } from './fake-upstream.ts'

/** How a kit runs. */
export interface KitOptions {
  /** Seed of everything random; by default a random one. */
  readonly seed?: number
  /** ms after which an operation of the plugin counts as stalled; default 5,000. */
  readonly timeoutMs?: number
}

/** The results of all checks. */
export interface KitReport {
  readonly seed: number
  /** True if no check has failed. */
  readonly ok: boolean
  readonly checks: readonly Check[]
}

const TIMEOUT_MS = 5000

/** The options with their defaults. */
export function kitDefaults({ seed, timeoutMs = TIMEOUT_MS }: KitOptions): Required<KitOptions> {
  return { seed: seed ?? Math.floor(Math.random() * 2 ** 31), timeoutMs }
}

/** A provider and the fake upstream that it is set up with. */
export interface Fixture extends Required<KitOptions> {
  readonly vendor: FakeUpstream
  readonly provider: ProviderUnderTest
}

/** A transcript, and its request in the form that providers receive. */
export interface Case {
  readonly transcript: Transcript
  readonly request: TestRequest
}

/** The result of one check. */
export interface Check {
  readonly name: string
  /** Name of the transcript or situation that was checked; null if there is none. */
  readonly on: string | null
  readonly result: 'ok' | 'failed' | 'skipped'
  /** The problems, the reason for skipping, or observations. */
  readonly notes: readonly string[]
}

/** Reason for skipping checks of connections. */
export const NO_UPSTREAM = 'it sends no request to a vendor'

/** A check that has failed if there are problems. @param seen notes of a check that has passed */
export function toCheck(
  name: string,
  on: string | null,
  problems: readonly string[],
  seen: readonly string[] = [],
): Check {
  const failed = problems.length > 0
  return { name, on, result: failed ? 'failed' : 'ok', notes: failed ? problems : seen }
}

/** A check that was not possible. */
export function skipped(name: string, on: string | null, why: string): Check {
  return { name, on, result: 'skipped', notes: [why] }
}

/** A recorded response, or a part of it, for the fake upstream. */
export function toFakeResponse(
  { status, headers, body }: RecordedResponse,
  pieces: Iterable<Uint8Array> = [body],
  ending: FakeResponse['ending'] = 'end',
): FakeResponse {
  return { status, headers, pieces, ending }
}

/** The provider's outcome for a recorded response, which arrives in these pieces. */
export async function replay(
  { vendor, provider }: Fixture,
  request: TestRequest,
  ...response: Parameters<typeof toFakeResponse>
): Promise<Outcome> {
  vendor.answer(toFakeResponse(...response))
  return provider.outcome(request)
}

/** Offsets at which a response can be cut: after each event, or else after each eighth of it. Never its end. */
export function splitPoints({ headers, body }: RecordedResponse): number[] {
  const boundaries = boundariesOf(body, headers['content-type'] ?? '').filter(
    (end) => end < body.length,
  )
  if (boundaries.length > 1) return boundaries
  return Array.from({ length: 7 }, (_, i) => Math.floor(((i + 1) * body.length) / 8))
}

/** A thrown value, for a report. */
export function describeError(error: unknown): string {
  if (UpstreamFailure.is(error)) return `${error.failure} (${error.message})`
  if (error instanceof Error) return `${error.name}: ${error.message}`
  return `a thrown ${typeof error}`
}

/** The problem if an error is not a failure of one of the given classes; undefined if it is. */
export function notFailure(error: unknown, classes: readonly string[]): string | undefined {
  const wanted = classes.join(' or ')
  if (error === undefined) return `it ended without an error; expected ${wanted}`
  if (!UpstreamFailure.is(error)) {
    return `it threw ${describeError(error)}; expected host.fail with ${wanted}`
  }
  return classes.includes(error.failure)
    ? undefined
    : `it was ${describeError(error)}; expected ${wanted}`
}
