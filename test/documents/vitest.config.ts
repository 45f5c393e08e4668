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
    // Of the pages of a file, each with a folder, ports and a gateway of its own: a page waits for each of its commands.
    maxConcurrency: 2,
    testTimeout: 600_000,
    env: { NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/compiled') },
  },
})
