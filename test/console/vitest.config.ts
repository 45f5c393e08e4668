import { join } from 'node:path'
import { defineConfig } from 'vitest/config'

/** Tests in a browser. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ['*.browser.ts'],
    setupFiles: '../_watchdog.ts',
    // A browser waits for its gateway, and the test for both.
    maxWorkers: 2,
    // Of tests that may run beside each other.
    maxConcurrency: 2,
    // A browser beside other work can miss its moment.
    retry: 1,
    // The gateway is loaded once for each process, by Node itself, as in the other tests.
    isolate: false,
    experimental: { viteModuleRunner: false, nodeLoader: false },
    env: { NODE_COMPILE_CACHE: join(import.meta.dirname, '../../node_modules/.cache/compiled') },
    // Dozens of screens, one after the other.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 60_000 } },
  },
})
