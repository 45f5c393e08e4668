/** A vendor on a real socket, and bodies cut as a network may cut them: what plugin authors get, for the tests of the house. */
export { cutAt, cutAtEvents } from '../src/testing/splits.ts'
export {
  events,
  json,
  sse,
  startUpstream,
  type FakeResponse as Answer,
  type FakeUpstream,
  type ReceivedRequest as Seen,
} from '../src/testing/fake-upstream.ts'
