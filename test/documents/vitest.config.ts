/** The blocks of the pages that are dear to run, and the drawing in a browser. Run by `npm run test:docs`. */
import { join, resolve } from 'node:path'
import { defineConfig } from 'vitest/config'

const root = resolve(import.meta.dirname, '../..')

export default defineConfig({
  root,
  test: {
    include: ['test/documents/**/*.pages.ts'],
    setupFiles: 'test/_watchdog.ts',
    maxWorkers: 2,
    testTimeout: 180_000,
    env: { NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/compiled') },
  },
})
