/** What is shipped: the package, and everything in `config/deploy/`. Run by `npm run test:deploy`. */
import { resolve } from 'node:path'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  root: resolve(import.meta.dirname, '../..'),
  test: {
    include: ['test/deploy/**/*.test.ts'],
    setupFiles: 'test/_watchdog.ts',
    globalSetup: 'test/deploy/_installed.ts',
    maxWorkers: 2,
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 60_000 } },
  },
})
