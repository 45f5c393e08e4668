import { describe, expect, it } from 'vitest'
import { readLines } from '../../src/stream/lines.ts'

async function* bytes(...pieces: readonly (string | Uint8Array)[]): AsyncGenerator<Uint8Array> {
  for (const piece of pieces) yield Buffer.from(piece)
}
async function all(sequence: AsyncIterable<unknown>): Promise<unknown[]> {
  const parts: unknown[] = []
  for await (const part of sequence) parts.push(part)
  return parts
}

describe('lines of a body', () => {
  it('are the same wherever the network cuts them', async () => {
    const body = Buffer.from('{"a":"é👋"}\r\n\n  \n[1]\n"last"')
    for (let at = 0; at <= body.length; at++) {
      const lines = readLines(bytes(body.subarray(0, at), body.subarray(at)))
      expect(await all(lines)).toEqual([{ a: 'é👋' }, [1], 'last'])
    }
    const letters = Array.from(body, (byte) => Uint8Array.of(byte))
    expect(await all(readLines(bytes(...letters)))).toEqual([{ a: 'é👋' }, [1], 'last'])
  })

  it('can be texts', async () => {
    expect(await all(readLines(bytes('a\r\n{b\nc'), { as: 'text' }))).toEqual(['a', '{b', 'c'])
  })

  it('fail after the lines that came before, without quoting what was sent', async () => {
    const lines = readLines(bytes('{"a":1}\nsk-secret'))
    expect((await lines.next()).parts).toEqual([{ a: 1 }])
    const thrown: any = await lines.next().catch((error: unknown) => error)
    expect(thrown).toMatchObject({ failure: 'upstream_error' })
    expect(thrown.cause).toBeUndefined()
    expect(thrown.message).toBe('The model provider sent a line that is not JSON.')
  })

  it('are bounded', async () => {
    async function* endless(): AsyncGenerator<Uint8Array> {
      for (;;) yield new Uint8Array(1 << 20).fill(97)
    }
    await expect(all(readLines(endless()))).rejects.toThrow('a line that is too long')
  })
})
