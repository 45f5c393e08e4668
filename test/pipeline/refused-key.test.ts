import { expect, it, onTestFinished } from 'vitest'
import { createTestGateway, hello } from '../_setup.ts'

it('a call with a key that is none is refused without an error in the log', async () => {
  const t = await createTestGateway()
  onTestFinished(() => t.close())
  const { status } = await t.chat(hello, { key: 'sk-sluice-qZMF' })
  expect(status).toBe(401)
  expect(t.logged.filter((line) => line.includes('a callback failed'))).toEqual([])
})
