import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: { include: ['*.case.ts'], root: import.meta.dirname, setupFiles: '../../_watchdog.ts' },
})
