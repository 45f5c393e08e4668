import type { UnservedReason } from '../models/unserved.ts'
import { logEvent } from '../observe/events.ts'
import type { Call } from './pipeline.ts'

/** Tells the operator of a name that is not served. @param meant the id that the client is told, if one is near */
export function tellUnserved(
  { runtime, admission, startedAt }: Call,
  name: string,
  reason: UnservedReason,
  meant?: string,
): void {
  const { unserved, log } = runtime
  const line = unserved.note(name, reason, admission.account.id, startedAt, meant)
  if (line === undefined) return
  logEvent(log, 'warn', { event: 'model.unserved', message: line, members: { reason } })
}
