import type { Stage } from '../pipeline.ts'

const MAX_SESSION_LENGTH = 256

/** Parses and validates what the client sent. */
export const read: Stage = async function read(call, next) {
  const { endpoint, incoming, runtime } = call
  const input = await endpoint.read(incoming, runtime.config.server.limits)
  call.input = input
  const session = endpoint.sessionOf(input) ?? incoming.header('x-session-id')
  call.session = session ? session.slice(0, MAX_SESSION_LENGTH) : null
  return next()
}
