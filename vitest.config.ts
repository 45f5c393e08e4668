import { join } from 'node:path'
import { configDefaults, defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts', 'docs/examples/*.test.ts'],
    reporters: ['default', './test/_skipped.ts'],
    setupFiles: ['test/_environment.ts', 'test/_watchdog.ts'],
    // The first three have scripts of their own; tests of installed packages are none of ours.
    exclude: [
      'test/deploy/**',
      'test/processes/**',
      'test/**/*.long.test.ts',
      ...configDefaults.exclude,
    ],
    // Files share processes: to load the gateway anew for each takes longer than most tests.
    isolate: false,
    // Node loads TypeScript itself, as it does for the gateway: nothing is transformed, and no import is a getter.
    experimental: { viteModuleRunner: false, nodeLoader: false },
    // Tests wait for sockets and disks, so twice as many as a small machine has processors. Six take a fifth longer than four.
    maxWorkers: 4,
    testTimeout: 120_000,
    hookTimeout: 60_000,
    // Gateways in processes of their own start in half the time.
    env: { NODE_COMPILE_CACHE: join(import.meta.dirname, 'node_modules/.cache/compiled') },
    expect: { poll: { timeout: 60_000 } },
  },
})
