import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/bench/**'],
    // Most of what takes time waits: for sockets, disks, retries.
    maxWorkers: 4,
    testTimeout: 20_000,
    hookTimeout: 20_000,
  },
})
