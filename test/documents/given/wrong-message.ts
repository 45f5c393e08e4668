import { ask } from './_ask.ts'

await ask('/v1/messages', { model: 'mock/echo', messages: [{ role: 'user', content: 'Hello' }] })
