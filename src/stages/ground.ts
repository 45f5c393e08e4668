import { InvalidRequest } from '../errors.ts'
import type { Stage } from '../pipeline.ts'

/** A request for a web search is refused where no engine is configured: an answer must not look grounded and be none. */
export const ground: Stage = function ground(call, next) {
  if (call.endpoint.wantsSearch?.(call.input, call.online)) {
    throw new InvalidRequest(
      'unsupported_value',
      'This gateway has no search engine configured. Drop ":online" and the web plugin to go on without a search.',
      { param: call.online ? 'model' : 'plugins' },
    )
  }
  return next()
}
