/** A test that never gives the event loop back ends the run, which names it. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

it('a spinning test ends by its name', async () => {
  const vitest = join(import.meta.dirname, '../../node_modules/vitest/vitest.mjs')
  const config = join(import.meta.dirname, 'spinning/vitest.config.ts')
  const ended = promisify(execFile)(process.execPath, [vitest, 'run', '--config', config], {
    env: { ...process.env, WATCHDOG_SECONDS: '3' },
  })
  const error = await ended.then(
    () => undefined,
    (one: { code: number; stdout: string; stderr: string }) => one,
  )
  expect(error?.code).toBe(1)
  expect(error!.stdout + error!.stderr).toMatch(/spinning\.case\.ts > spins for ever: does not end/)
})
