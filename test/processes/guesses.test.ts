/** Wrong tokens at a rate that no person reaches, and the right one among them. */
import { performance } from 'node:perf_hooks'
import { Pool } from 'undici'
import { expect, it, onTestFinished } from 'vitest'
import { inMemory, PACED_CONFIG, TOKEN, urlOf } from '../_cli.ts'
import { folder } from '../_folder.ts'

const GUESSES = 10_000
const AT_ONCE = 20

it('10,000 wrong guesses keep out no right token, at /metrics neither', async () => {
  const cwd = await folder({ 'gateway.config.yaml': PACED_CONFIG })
  const url = await urlOf(await inMemory.start(['serve'], { cwd }))
  const pool = new Pool(url, { connections: AT_ONCE + 1 })
  onTestFinished(() => pool.close())
  const status = async (path: string, token: string) => {
    const headers = { authorization: `Bearer ${token}` }
    const { statusCode, body } = await pool.request({ path, method: 'GET', headers })
    await body.dump()
    return statusCode
  }
  const began = performance.now()
  const guessed: Record<number, number> = {}
  let next = 0
  const guess = async () => {
    while (next < GUESSES) {
      const code = await status('/admin/accounts', `wrong-token-number-${next++}`)
      guessed[code] = (guessed[code] ?? 0) + 1
    }
  }
  const right: number[] = []
  const over = new AbortController()
  const guesses = Promise.all(Array.from({ length: AT_ONCE }, guess)).finally(() => over.abort())
  do {
    right.push(await status('/admin/accounts', TOKEN), await status('/metrics', TOKEN))
  } while (!over.signal.aborted)
  await guesses
  // Ten in each minute that has begun.
  const minutes = Math.floor((performance.now() - began) / 60_000) + 2
  const { 401: wrong = 0, 429: waits = 0 } = guessed
  expect(wrong).toBeGreaterThanOrEqual(10)
  expect(wrong).toBeLessThanOrEqual(10 * minutes)
  expect(wrong + waits).toBe(GUESSES)
  expect(right.length).toBeGreaterThan(100)
  expect(right.filter((code) => code !== 200)).toEqual([])
})
