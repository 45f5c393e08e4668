import { describe, expect, it } from 'vitest'
import { sessionOf } from '../../../src/endpoints/shared/body.ts'
import type { Incoming } from '../../../src/pipeline/http.ts'

/** A request with these headers. */
const withHeaders = (headers: Record<string, string>) =>
  ({ header: (name: string) => headers[name] }) as Partial<Incoming> as Incoming

describe('the session of a request', () => {
  const headers = {
    'x-session-affinity': 'opencode',
    'thread-id': 'thread',
    'session-id': 'codex',
    'x-claude-code-session-id': 'claude',
    'x-session-id': 'plain',
  }

  it('is the first that is named, the body before the headers', () => {
    expect(sessionOf(withHeaders(headers), 'body', 'cache')).toBe('body')
    const left: Record<string, string> = { ...headers }
    for (const name of Object.keys(headers).toReversed() as (keyof typeof headers)[]) {
      expect(sessionOf(withHeaders(left), undefined, 'cache')).toBe(headers[name])
      delete left[name]
    }
    expect(sessionOf(withHeaders({}), undefined, 'cache')).toBe('cache')
    expect(sessionOf(withHeaders({}))).toBeUndefined()
  })

  it('is cut after 256 characters', () => {
    expect(sessionOf(withHeaders({}), undefined, 'x'.repeat(300))).toHaveLength(256)
  })
})
