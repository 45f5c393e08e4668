/** For authors of providers and guards: a vendor on a real socket, transcripts, the rules of streams, and the kit that uses them all. */
export type { Check } from './testing/fixture.ts'
export {
  checkGuard,
  type GuardCase,
  type GuardReport,
  type GuardTestOptions,
} from './testing/guard.ts'
export { testProvider, type Report, type TestOptions } from './testing/kit.ts'
export {
  streamViolations as breachesOf,
  usageViolations as impossibleCounts,
  type StreamForm,
} from './testing/rules.ts'
export {
  parseHttp,
  readTranscripts,
  type Expected,
  type RecordedResponse as Recorded,
  type ExpectedChoice as Said,
  type Transcript,
} from './testing/transcripts.ts'
export {
  events,
  json,
  sse,
  startUpstream,
  type FakeResponse as Answer,
  type FakeUpstream,
  type ReceivedRequest as Seen,
} from './testing/vendor.ts'
