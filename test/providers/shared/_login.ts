/** A host for logins, whose log lines and masked texts a test can read. */
import { createConsola } from 'consola'
import type { Host } from '../../../src/plugin.ts'
import { createHost } from '../../../src/upstream/host.ts'

export interface LoginHost extends AsyncDisposable {
  readonly host: Host
  readonly lines: readonly string[]
  /** What the login has asked to mask last. */
  readonly masked: readonly string[]
}

const LIMITS = {
  timeoutMs: 60_000,
  firstPartTimeoutMs: 60_000,
  idleTimeoutMs: 60_000,
  connections: 8,
}

export function loginHost(): LoginHost {
  const lines: string[] = []
  let masked: readonly string[] = []
  const log = createConsola({
    level: 5,
    throttle: 0,
    reporters: [{ log: ({ args }) => void lines.push(args.map(String).join(' ')) }],
  })
  const { host, close } = createHost('test', LIMITS, log, {
    mask: (secrets) => {
      masked = secrets
    },
  })
  return {
    host,
    lines,
    get masked() {
      return masked
    },
    [Symbol.asyncDispose]: close,
  }
}

/** A request that is never given up. */
export const patient = new AbortController().signal
