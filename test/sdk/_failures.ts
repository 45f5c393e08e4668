/** Everything that can go wrong with a request before the head of its answer, and how the official client raises it. */
import {
  APIError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
} from 'openai'
import { expect, vi } from 'vitest'
import type { Call } from '../../src/pipeline/pipeline.ts'
import { json, type FakeResponse } from '../upstream.ts'
import { HELLO, rejected, user, type Setup } from './_setup.ts'

/** A vendor's refusal, in OpenAI's form. */
export function failing(status: number, error: object = {}, headers = {}): FakeResponse {
  return json({ error: { message: 'boom', ...error } }, status, headers)
}

/** Something that goes wrong, and how the official client raises it. */
export interface Failure {
  readonly name: string
  /** Prepares it, and says whose key asks. */
  readonly arrange?: (s: Setup) => Promise<string> | string | void
  readonly body?: object
  readonly raises: abstract new (...args: any) => APIError
  readonly status: number
  readonly code: string
  readonly type: string
  readonly param?: string
}

export const INVALID = 'invalid_request_error'
const bad = (name: string, body: object, code: string, param: string): Failure => ({
  name,
  body,
  raises: BadRequestError,
  status: 400,
  code,
  type: INVALID,
  param,
})

const withCap = async (s: Setup) => {
  const { secret } = await s.t.newKey({ spendCap: { usd: '0.000001', scope: 'month' } })
  await s.connect({ apiKey: secret }).chat.completions.create(HELLO)
  return secret
}
const withoutMoney = async (s: Setup) => {
  const id = `poor-${s.calls.length}`
  await s.t.newAccount(id, '0.000001')
  const { secret } = await s.t.newKey({ account: id })
  await s.connect({ apiKey: secret }).chat.completions.create(HELLO)
  return secret
}
/** The secret of a key of a new account that has never paid. */
export const onFreeTier = async (s: Setup) => {
  const id = `free-${s.calls.length}`
  await s.t.newAccount(id)
  return (await s.t.newKey({ account: id })).secret
}

/** Those that no other try can mend. */
export const FINAL: readonly Failure[] = [
  bad('no messages', { messages: [] }, 'empty_array', 'messages'),
  bad('a bad number', { temperature: 3 }, 'decimal_above_max_value', 'temperature'),
  bad(
    'a bad part, deep inside',
    { messages: [user('a'), { role: 'user', content: [{ type: 'text' }] }] },
    'missing_required_parameter',
    'messages[1].content[0].text',
  ),
  bad(
    'tools for a model that has none',
    { model: 'mock/free', tools: [{ type: 'function', function: { name: 'f' } }] },
    'unsupported_parameter',
    'tools',
  ),
  bad(
    'a search that no engine can make',
    { model: 'acme/swift-1:online' },
    'unsupported_value',
    'model',
  ),
  bad('a policy that is none', { policy: { version: 2 } }, 'invalid_policy', 'policy.version'),
  {
    ...bad('a prompt that is too long', {}, 'context_length_exceeded', 'messages'),
    arrange: (s) => s.vendor.answer(failing(400, { code: 'context_length_exceeded' })),
  },
  {
    ...bad('what the vendor’s filter blocks', {}, 'content_policy_violation', 'messages'),
    arrange: (s) => s.vendor.answer(failing(400, { code: 'content_filter' })),
  },
  {
    name: 'what the vendor rejects',
    arrange: (s) => s.vendor.answer(failing(400, { type: INVALID, message: 'Not like this.' })),
    raises: BadRequestError,
    status: 400,
    code: 'upstream_rejected',
    type: INVALID,
  },
  {
    name: 'a key that is none',
    arrange: () => 'sk-nonsense',
    raises: AuthenticationError,
    status: 401,
    code: 'invalid_api_key',
    type: INVALID,
  },
  {
    name: 'a disabled key',
    arrange: async (s) => (await s.t.newKey({ disabled: true })).secret,
    raises: AuthenticationError,
    status: 401,
    code: 'invalid_api_key',
    type: INVALID,
  },
  {
    name: 'an account without money',
    arrange: withoutMoney,
    raises: APIError,
    status: 402,
    code: 'insufficient_credits',
    type: 'insufficient_quota',
  },
  {
    name: 'a key that has reached its cap',
    arrange: withCap,
    raises: PermissionDeniedError,
    status: 403,
    code: 'key_limit_exceeded',
    type: 'insufficient_quota',
  },
  {
    name: 'a model the key may not use',
    arrange: async (s) => (await s.t.newKey({ models: ['mock/*'] })).secret,
    raises: PermissionDeniedError,
    status: 403,
    code: 'model_not_allowed',
    type: INVALID,
    param: 'model',
  },
  {
    name: 'a model that is not free, on the free tier',
    arrange: onFreeTier,
    raises: PermissionDeniedError,
    status: 403,
    code: 'model_not_allowed',
    type: INVALID,
    param: 'model',
  },
  {
    name: 'a model that does not exist',
    body: { model: 'acme/swift-9' },
    raises: NotFoundError,
    status: 404,
    code: 'model_not_found',
    type: INVALID,
    param: 'model',
  },
  {
    name: 'a body that is too large',
    body: { messages: [user('x'.repeat(3_000_000))] },
    raises: APIError,
    status: 413,
    code: 'request_too_large',
    type: INVALID,
  },
  {
    name: 'a body that is too large for the vendor',
    arrange: (s) => s.vendor.answer(failing(413)),
    raises: APIError,
    status: 413,
    code: 'request_too_large',
    type: INVALID,
  },
  {
    name: 'a vendor that has not answered in time',
    arrange: (s) => s.vendor.answer(failing(408)),
    raises: InternalServerError,
    status: 504,
    code: 'upstream_timeout',
    type: 'server_error',
  },
]

/** Those where another try may help. */
export const PASSING: readonly Failure[] = [
  {
    name: 'a fault of the gateway',
    arrange: (s) => {
      vi.spyOn(s.t.gateway.runtime.ledger, 'hold').mockImplementationOnce(() => {
        throw new Error('secret detail')
      })
    },
    raises: InternalServerError,
    status: 500,
    code: 'internal_error',
    type: 'server_error',
  },
  {
    name: 'a vendor that fails',
    arrange: (s) => s.vendor.answer(failing(500)),
    raises: InternalServerError,
    status: 502,
    code: 'upstream_error',
    type: 'server_error',
  },
  {
    name: 'a vendor that refuses the gateway',
    arrange: (s) => s.vendor.answer(failing(401, { code: 'invalid_api_key' })),
    raises: InternalServerError,
    status: 502,
    code: 'upstream_error',
    type: 'server_error',
  },
  {
    name: 'a vendor that is overloaded',
    arrange: (s) => s.vendor.answer(failing(529)),
    raises: InternalServerError,
    status: 503,
    code: 'provider_overloaded',
    type: 'server_error',
  },
  {
    name: 'a vendor that limits the gateway',
    arrange: (s) => s.vendor.answer(failing(429, {}, { 'retry-after': '3' })),
    raises: RateLimitError,
    status: 429,
    code: 'upstream_rate_limited',
    type: 'requests',
  },
  {
    name: 'rules that no guard looks after',
    arrange: async (s) => {
      const guard = { model: 'guard/nobody', onBlock: 'error' } as const
      return (await s.t.newKey({ policy: { version: 1, deny: ['code'], guard } })).secret
    },
    raises: InternalServerError,
    status: 503,
    code: 'guard_unavailable',
    type: 'server_error',
  },
]

/** Makes it happen. What the client was told cost nothing. */
export async function provoke(
  s: Setup,
  { arrange, body }: Failure,
  { stream, maxRetries }: { readonly stream: boolean; readonly maxRetries: number },
): Promise<{ error: any; calls: readonly Call[] }> {
  const apiKey = await arrange?.(s)
  const client = s.connect({ maxRetries, ...(apiKey ? { apiKey } : {}) })
  const before = await s.t.balance()
  const count = s.calls.length
  const error = await rejected(client.chat.completions.create({ ...HELLO, ...body, stream }))
  expect(await s.t.balance()).toBe(before)
  return { error, calls: s.calls.slice(count) }
}
