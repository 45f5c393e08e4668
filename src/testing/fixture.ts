/** The fixture of all checks of providers. */
import { boundariesOf } from './splits.ts'
import type { TestRequest } from './requests.ts'
import type { Outcome, ProviderUnderTest } from './provider-under-test.ts'
import type { RecordedResponse, Transcript } from './transcripts.ts'
import type { FakeResponse, FakeUpstream } from './fake-upstream.ts'
import type { Patience } from './report.ts'

/** The most parts of an answer: a few for each byte of the vendor. */
const FEW_PARTS = 10_000
const PARTS_PER_BYTE = 2

export const NO_UPSTREAM = 'it sends no request to a vendor'

export interface Fixture {
  readonly seed: number
  readonly patience: Patience
  readonly vendor: FakeUpstream
  readonly provider: ProviderUnderTest
}

export interface Case {
  readonly transcript: Transcript
  readonly request: TestRequest
}

/** Cases that have answers, and what each was answered when it was asked for the first time. */
export interface Answered {
  readonly cases: readonly Case[]
  readonly first: Map<Case, Outcome>
}

export function toFakeResponse(
  { status, headers, body }: RecordedResponse,
  pieces: Iterable<Uint8Array> = [body],
  ending: FakeResponse['ending'] = 'end',
): FakeResponse {
  return { status, headers, pieces, ending }
}

export async function replay(
  { vendor, provider }: Fixture,
  request: TestRequest,
  ...response: Parameters<typeof toFakeResponse>
): Promise<Outcome> {
  const answer = toFakeResponse(...response)
  vendor.answer(answer)
  let bytes = 0
  for (const piece of answer.pieces) bytes += piece.length
  return provider.outcome(request, FEW_PARTS + PARTS_PER_BYTE * bytes)
}

/** Offsets at which a response can be cut: after each event, or else after each eighth of it. Never its end. */
export function splitPoints({ headers, body }: RecordedResponse): number[] {
  const boundaries = boundariesOf(body, headers['content-type'] ?? '').filter(
    (end) => end < body.length,
  )
  if (boundaries.length > 0) return boundaries
  return Array.from({ length: 7 }, (_, i) => Math.floor(((i + 1) * body.length) / 8))
}

/** The events of a response; none of one without borders. */
export function eventsOf({ headers, body }: RecordedResponse): Uint8Array[] {
  const ends = boundariesOf(body, headers['content-type'] ?? '')
  if (ends.length === 0) return []
  const all = [...ends, body.length].map((end, i) => body.subarray(ends[i - 1] ?? 0, end))
  return all.filter((event) => event.length > 0)
}
