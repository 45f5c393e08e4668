import { expect, it } from 'vitest'
import { SpeechAnswer } from '../../../src/endpoints/speech/endpoint.ts'
import type { SpeechInput } from '../../../src/plugin.ts'
import { partsOf } from '../../_parts.ts'

async function* pieces(...all: unknown[]) {
  yield* all
}

it.each([undefined, 24_000])('fails at a piece that is not bytes, at %s samples', async (rate) => {
  const input: SpeechInput = { input: 'Hi.', voice: 'alloy', response_format: 'wav' }
  const sound = partsOf(new SpeechAnswer(input), { bytes: pieces(627_506), pcmSampleRate: rate })
  await expect(sound).rejects.toThrow('not bytes')
})
