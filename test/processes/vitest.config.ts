/** Gateways as processes that streams run in: their signals, faults, restarts and memory. Run by `npm run test:processes`. */
import { join } from 'node:path'
import { defineConfig } from 'vitest/config'

const ROOT = join(import.meta.dirname, '../..')

export default defineConfig({
  root: ROOT,
  test: {
    include: ['test/processes/**/*.test.ts'],
    setupFiles: 'test/_watchdog.ts',
    maxWorkers: 2,
    testTimeout: 120_000,
    hookTimeout: 60_000,
    env: { NODE_COMPILE_CACHE: join(ROOT, 'node_modules/.cache/compiled') },
    expect: { poll: { timeout: 60_000 } },
  },
})
