import type { Stage } from '../pipeline.ts'

/** Reads and validates the request. @throws InvalidRequest */
export const read: Stage = async function read(call, next) {
  const { format, incoming, runtime } = call
  call.request = await format.read(incoming, runtime.config.server.limits)
  return next()
}
