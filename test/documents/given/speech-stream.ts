import { ask } from './_ask.ts'

await ask('/v1/audio/speech', {
  model: 'mock/voice',
  voice: 'alloy',
  input: 'Hello.',
  stream_format: 'sse',
})
