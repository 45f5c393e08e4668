import { ask } from './_ask.ts'

await ask('/v1/images/generations', {
  model: 'mock/painter',
  prompt: 'an otter',
  size: '1024x1024',
  stream: true,
  partial_images: 1,
})
