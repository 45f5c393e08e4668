import { describe, expect, it } from 'vitest'
import {
  fromCarrier,
  isCarrier,
  toCarrier,
} from '../../../../../src/endpoints/chat/dialects/shared/reasoning.ts'
import { InvalidRequest } from '../../../../../src/errors/errors.ts'
import type { ReasoningDetail } from '../../../../../src/plugin.ts'

describe('carriers of reasoning', () => {
  it.each<[string, ReasoningDetail]>([
    [
      'signed text',
      { type: 'reasoning.text', text: 'Why?', signature: 'sig=', id: 'a', format: 'f-v1' },
    ],
    ['text without a signature', { type: 'reasoning.text', text: 'Why?', id: null, format: null }],
    [
      'a summary',
      { type: 'reasoning.summary', summary: 'Why?', id: 'rs_1', format: 'openai-responses-v1' },
    ],
    [
      'encrypted reasoning',
      { type: 'reasoning.encrypted', data: 'bm8=', id: 'ü', format: 'google-gemini-v1' },
    ],
  ])('bring %s back', (_what, entry) => {
    const carrier = toCarrier({ ...entry, index: 3 })
    expect(isCarrier(carrier)).toBe(true)
    expect(carrier).toMatch(/^sg1\.[\w-]+$/)
    expect(fromCarrier(carrier, 'Why?', 'x')).toEqual(entry)
  })

  it('never hold visible text', () => {
    const carrier = toCarrier({ type: 'reasoning.text', text: 'secret words' })
    expect(Buffer.from(carrier.slice(4), 'base64url').toString()).not.toContain('secret')
  })

  it.each([
    'sg1.',
    'sg1.%%%',
    `sg1.${Buffer.from('{"t":"other"}').toString('base64url')}`,
    `sg1.${Buffer.from('{"t":"reasoning.text","s":5}').toString('base64url')}`,
    `${toCarrier({ type: 'reasoning.text', signature: 'abc' })}A=`,
    toCarrier({ type: 'reasoning.text', signature: 'abc' }).slice(0, -3),
  ])('are refused when they were changed: %s', (carrier) => {
    const path = 'messages[1].content[0].signature'
    const read = () => fromCarrier(carrier, '', path)
    expect(read).toThrow(InvalidRequest)
    expect(read).toThrow(/invalid signature in thinking block/)
    expect(read).toThrow(expect.objectContaining({ code: 'invalid_value', param: path }))
  })
})
