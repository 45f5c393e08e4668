import { describe, expect, it } from 'vitest'
import { toUsage } from '../../../providers/anthropic/answer.ts'

describe('cache writes', () => {
  const written = (cache_creation: object | undefined, total = 300) =>
    toUsage({
      input_tokens: 100,
      cache_read_input_tokens: 50,
      cache_creation_input_tokens: total,
      cache_creation,
      output_tokens: 5,
    }).prompt_tokens_details

  it('are counted by their lifetime', () => {
    const both = { ephemeral_5m_input_tokens: 200, ephemeral_1h_input_tokens: 100 }
    expect(written(both)).toEqual({
      cached_tokens: 50,
      cache_write_tokens: 300,
      cache_write_1h_tokens: 100,
    })
  })

  it('are those of five minutes where the vendor does not tell', () => {
    expect(written(undefined)).toEqual({ cached_tokens: 50, cache_write_tokens: 300 })
  })
})
