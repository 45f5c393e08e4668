import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { promptTokensOf } from '../../../src/endpoints/chat/billing.ts'
import type { ChatRequest } from '../../../src/endpoints/chat/request.ts'
import { formatPico } from '../../../src/money/money.ts'
import { createTestGateway, hello, MOCK_CONFIG } from '../../_setup.ts'

/** 26 tools of seven kinds, and the tokens of their compact JSON text as the encoding `o200k_base` counts them. */
const TOOLS = JSON.parse(readFileSync(join(import.meta.dirname, 'tools.json'), 'utf8'))
const TOOL_TOKENS = 5018

/** A body with this content of one message, and more members. */
function estimateOf(content: unknown, more: object = {}): number {
  const body = { model: 'vendor/model', messages: [{ role: 'user', content }], ...more }
  return promptTokensOf(body as ChatRequest, Buffer.byteLength(JSON.stringify(body)))
}

const data = (bytes: number, type: string) =>
  `data:${type};base64,${Buffer.alloc(bytes, 7).toString('base64')}`

describe('the estimate of a prompt', () => {
  const plain = estimateOf('')

  it('counts a list of tools within a quarter', () => {
    const tokens = estimateOf('', { tools: TOOLS }) - plain
    expect(tokens).toBeGreaterThan(0.75 * TOOL_TOKENS)
    expect(tokens).toBeLessThan(1.25 * TOOL_TOKENS)
  })

  it('counts schemas, calls and their results', () => {
    const text = 'word '.repeat(400)
    const schema = {
      type: 'json_schema',
      json_schema: { name: 'x', schema: { description: text } },
    }
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: text } }
    const results = Array.from({ length: 10 }, () => ({
      role: 'tool',
      tool_call_id: 'c',
      content: text,
    }))
    expect(estimateOf('', { response_format: schema }) - plain).toBeGreaterThanOrEqual(500)
    const messages = [{ role: 'assistant', tool_calls: [call] }, ...results]
    const tokens = estimateOf('', { messages })
    expect(tokens).toBeGreaterThanOrEqual(5500)
    expect(tokens).toBeLessThan(6000)
  })

  it('counts an image by its detail and not by its bytes', () => {
    const image = (url: string, detail?: string) => [
      { type: 'image_url', image_url: { url, ...(detail && { detail }) } },
    ]
    const small = estimateOf(image(data(10, 'image/png')))
    expect(estimateOf(image(data(1_000_000, 'image/png')))).toBe(small)
    expect(small).toBeGreaterThanOrEqual(1500)
    expect(small).toBeLessThan(1550)
    expect(estimateOf(image('https://images.example/one.png'))).toBeGreaterThanOrEqual(1500)
    expect(estimateOf(image(data(1_000_000, 'image/png'), 'low'))).toBeLessThan(150)
    const short = [{ type: 'image_url', image_url: data(1_000_000, 'image/png') }]
    expect(estimateOf(short)).toBeLessThan(1550)
  })

  it('counts files and sound by their size', () => {
    const file = (source: string) => [{ type: 'file', file: { filename: 'x', file_data: source } }]
    const pdf = estimateOf(file(data(1_000_000, 'application/pdf')))
    expect(pdf).toBeGreaterThanOrEqual(20_000)
    expect(pdf).toBeLessThan(20_100)
    expect(estimateOf(file(data(10, 'application/pdf')))).toBeGreaterThanOrEqual(1500)
    expect(estimateOf(file('https://files.example/one.pdf'))).toBeGreaterThanOrEqual(1500)
    const sound = Buffer.alloc(500_000).toString('base64')
    const audio = [{ type: 'input_audio', input_audio: { data: sound, format: 'wav' } }]
    expect(estimateOf(audio)).toBeGreaterThanOrEqual(1000)
    expect(estimateOf(audio)).toBeLessThan(1050)
  })

  it('is at least 1', () => {
    expect(promptTokensOf({ model: 'm', messages: [] }, 0)).toBe(1)
  })

  it('sizes the hold of a request with tools', async () => {
    await using t = await createTestGateway(MOCK_CONFIG)
    const { ledger } = t.gateway.runtime
    const ceilings: bigint[] = []
    const { hold } = ledger
    ledger.hold = (request) => {
      ceilings.push(request.ceiling)
      return hold.call(ledger, request)
    }
    expect((await t.chat(hello)).status).toBe(200)
    expect((await t.chat({ ...hello, tools: TOOLS })).status).toBe(200)
    const added = Number(formatPico(ceilings[1]! - ceilings[0]!)) / 2 / 0.000001
    expect(added).toBeGreaterThan(0.75 * TOOL_TOKENS)
    expect(added).toBeLessThan(1.25 * TOOL_TOKENS)
  })
})
