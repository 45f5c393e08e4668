import { createConsola, type ConsolaInstance } from 'consola'
import type { LoadedConfig } from '../config/config.ts'
import { jsonReporter } from '../observe/json-reporter.ts'

export function createLog({ config }: LoadedConfig): ConsolaInstance {
  const { level, format } = config.log
  const options = { level: LEVELS[level], fancy: format === 'pretty' }
  return createConsola(format === 'json' ? { ...options, reporters: [jsonReporter] } : options)
}

const LEVELS = { silent: -999, error: 0, warn: 1, info: 3, debug: 4, trace: 5 } as const
