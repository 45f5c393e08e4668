import { readFileSync } from 'node:fs'
import { ask } from './_ask.ts'

await ask('/v1/chat/completions', {
  model: 'mock/echo',
  messages: [{ role: 'user', content: 'What is project heron?' }],
  policy: JSON.parse(readFileSync('policy.json', 'utf8')),
})
