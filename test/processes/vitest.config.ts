/**
 * Gateways as processes that streams run in: their signals, faults, restarts and memory; and tests that take long, because they
 * stop real servers again and again or go through thousands of cases. Run by `npm run test:processes`.
 */
import { join } from 'node:path'
import { configDefaults, defineConfig, mergeConfig } from 'vitest/config'
import base from '../../vitest.config.ts'

export default mergeConfig(
  { ...base, test: { ...base.test, include: [], exclude: [...configDefaults.exclude] } },
  defineConfig({
    root: join(import.meta.dirname, '../..'),
    test: {
      include: ['test/processes/**/*.test.ts', 'test/**/*.long.test.ts'],
      // They wait for processes more than they work.
      maxWorkers: 3,
    },
  }),
)
