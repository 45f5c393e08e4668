import { test } from 'vitest'
import { createTestGateway } from '/work/wt/lean/test/_setup.ts'
test('x', async () => {
  await using t = await createTestGateway()
  const a = await t.chat({ model: 'mock/echo', messages: [{ role: 'user', content: 'hi' }] })
  console.log(a.status, a.text, t.logged.slice(-5).join('\n'))
  const b = await t.chat({ model: 'mock/echo', stream: true, messages: [{ role: 'user', content: 'hi' }] })
  console.log(b.status, b.text)
})
