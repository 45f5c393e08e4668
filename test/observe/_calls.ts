/** Records of calls for tests. */
import type { KnownCall } from '../../src/observe/record.ts'
import { requestId } from '../../src/state/ids.ts'

/** A chat of account `acme` that has ended well. @param at ms since epoch */
export function callAt(at: number, more: Partial<KnownCall> = {}): KnownCall {
  return {
    id: requestId(at),
    at: new Date(at).toISOString(),
    method: 'POST',
    endpoint: '/v1/chat/completions',
    status: 200,
    outcome: 'completed',
    times: { total_ms: 12 },
    account_id: 'acme',
    key_id: 'k1',
    ...more,
  }
}
