/** What plugins do for a call, for a while. */
import type { Assignment } from '../../../guard/plan.ts'
import type { Call } from '../../pipeline.ts'

export interface Errand {
  /** Aborted with the call, and at the end. */
  readonly signal: AbortSignal
  /** Their answers do not matter any more. */
  readonly end: () => void
}

/** Where no plugin is at work, nothing has to be told that it is over. */
const NO_ERRAND: Errand = { signal: new AbortController().signal, end() {} }

/** Sends plugins on an errand. Whoever calls this ends it. */
export function sendOn(duties: readonly Assignment[], call: Call): Errand {
  if (duties.length === 0) return NO_ERRAND
  const branch = call.abortScope()
  const end = () => {
    call.release(branch)
    branch.abort()
  }
  return { signal: branch.signal, end }
}
