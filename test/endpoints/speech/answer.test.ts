import { expect, it } from 'vitest'
import { toRequestedFormat } from '../../../src/endpoints/speech/answer.ts'
import { toFlow } from '../../../src/stream/flow.ts'

async function* pieces(...all: unknown[]) {
  yield* all as Uint8Array[]
}

it.each([undefined, 24_000])('fails at a piece that is not bytes, at %s samples', async (rate) => {
  const sound = toRequestedFormat(toFlow(pieces(627_506)), rate, 'wav')
  await expect(sound.next()).rejects.toThrow('not bytes')
})
