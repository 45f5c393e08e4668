import { defineConfig } from 'vitest/config'

/** Tests in a browser: one file after the other, because each has the machine's browser. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ['*.browser.ts'],
    setupFiles: '../_watchdog.ts',
    fileParallelism: false,
    // Of tests that may run beside each other.
    maxConcurrency: 2,
    // A browser beside other work can miss its moment.
    retry: 1,
    // Dozens of screens, one after the other.
    testTimeout: 300_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 30_000 } },
  },
})
