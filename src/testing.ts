/** Entry point for plugin authors: conformance kits, transcripts, stream rules and a fake upstream. */
export type { Check, KitProgress, KitReport } from './testing/report.ts'
export type { RequestForm } from './testing/checks/conversations.ts'
export { testPlugin, type PluginTestOptions } from './testing/plugin.ts'
export { checkGuard, type GuardCase, type GuardTestOptions } from './testing/guard.ts'
export { testProvider, type TestOptions } from './testing/kit.ts'
export { testSearch, type SearchCase, type SearchTestOptions } from './testing/search.ts'
export {
  testPayments,
  type PaymentsCase,
  type PaymentsTestOptions,
  type SignWebhook,
} from './testing/payments.ts'
export { testSink, type SinkCase, type SinkTestOptions } from './testing/sink.ts'
export {
  readGuardCases,
  readPaymentsCases,
  readSearchCases,
  readSinkCases,
} from './testing/case-files.ts'
export { describePlugin, type DescribedOption, type PluginDescription } from './testing/describe.ts'
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
