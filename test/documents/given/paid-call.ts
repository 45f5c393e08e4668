import { ask } from './_ask.ts'

await ask('/v1/chat/completions', {
  model: 'mock/echo',
  messages: [{ role: 'user', content: 'Hello' }],
})
