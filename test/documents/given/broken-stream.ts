import { ask } from './_ask.ts'

await ask('/v1/chat/completions', {
  model: 'openai/gpt-6-sol',
  messages: [{ role: 'user', content: 'Break off.' }],
  stream: true,
})
