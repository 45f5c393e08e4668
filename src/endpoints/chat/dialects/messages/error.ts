import type { GatewayError } from '../../../../errors/errors.ts'
import type { WireFormat } from '../../../../pipeline/pipeline.ts'
import { messageFor } from '../shared/errors.ts'
import { usageJson } from './usage.ts'

const TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
  529: 'overloaded_error',
}

/** The header in which clients of this API look for the id of a request. */
export const ID_HEADER = 'request-id'

export const writeError: WireFormat['writeError'] = (error, call, id) => {
  const { code, param, receipt } = error
  const status = statusOf(error)
  const type = TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error')
  const usage = receipt && call ? { usage: usageJson(receipt) } : {}
  return {
    status,
    headers: {
      ...error.headers,
      [ID_HEADER]: id,
      ...(receipt && call && { 'x-service-cost': receipt.bill.text }),
    },
    body: {
      type: 'error',
      error: { type, message: messageFor(error, call, true), code, param, ...usage },
      request_id: id,
    },
  }
}

export function errorEvent(body: unknown): string {
  return `event: error\ndata: ${JSON.stringify(body)}\n\n`
}

function statusOf({ status, code }: GatewayError): number {
  // On a 403, coding assistants ask their users to log in again.
  if (code === 'key_limit_exceeded') return 402
  return code === 'provider_overloaded' ? 529 : status
}
