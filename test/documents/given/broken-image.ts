import { ask } from './_ask.ts'

await ask('/v1/images/generations', {
  model: 'openai/gpt-image-1',
  prompt: 'Break off.',
  stream: true,
  partial_images: 1,
})
