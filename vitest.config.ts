import { join } from 'node:path'
import { configDefaults, defineConfig } from 'vitest/config'

export default defineConfig({
  // As the gateway resolves them for plugins.
  resolve: {
    alias: [
      { find: /^sluicegate$/, replacement: join(import.meta.dirname, 'src/index.ts') },
      { find: /^sluicegate\/testing$/, replacement: join(import.meta.dirname, 'src/testing.ts') },
    ],
  },
  test: {
    include: ['test/**/*.test.ts', 'docs/examples/*.test.ts'],
    setupFiles: ['test/_environment.ts', 'test/_watchdog.ts'],
    // The first two have scripts of their own; tests of installed packages are none of ours.
    exclude: ['test/deploy/**', 'test/processes/**', ...configDefaults.exclude],
    // Files share processes: to load the gateway anew for each takes longer than most tests.
    isolate: false,
    // Most of what takes time waits: for sockets, disks, retries.
    maxWorkers: 4,
    testTimeout: 120_000,
    hookTimeout: 60_000,
    // Gateways in processes of their own start in half the time.
    env: { NODE_COMPILE_CACHE: join(import.meta.dirname, 'node_modules/.cache/compiled') },
    expect: { poll: { timeout: 60_000 } },
  },
})
