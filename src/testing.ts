/** Entry point for plugin authors: conformance kits, transcripts, stream rules and a fake upstream. */
export type { Check } from './testing/fixture.ts'
export type { RequestForm } from './testing/checks/conversations.ts'
export {
  checkGuard,
  type GuardCase,
  type GuardReport,
  type GuardTestOptions,
} from './testing/guard.ts'
export { testProvider, type Report, type TestOptions } from './testing/kit.ts'
export {
  testSearch,
  type SearchCase,
  type SearchReport,
  type SearchTestOptions,
} from './testing/search.ts'
export { streamViolations, usageViolations, type StreamForm } from './testing/rules.ts'
export {
  parseHttp,
  readTranscripts,
  type Expected,
  type ExpectedChoice,
  type RecordedResponse,
  type Transcript,
} from './testing/transcripts.ts'
export {
  events,
  json,
  sse,
  startUpstream,
  type FakeResponse,
  type FakeUpstream,
  type ReceivedRequest,
} from './testing/fake-upstream.ts'
