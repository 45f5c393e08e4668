/** The fake upstream of the kit for plugin authors, for the tests of this repository. */
export { boundariesOf, cutAt } from '../src/testing/splits.ts'
export {
  events,
  json,
  sse,
  startUpstream,
  type FakeResponse,
  type FakeUpstream,
  type ReceivedRequest,
} from '../src/testing/fake-upstream.ts'
