/** Sets up the sinks of a configuration in a thread of their own. */
import { extname } from 'node:path'
import type { ConsolaInstance } from 'consola'
import type { LoadedConfig } from '../../config/config.ts'
import { ConfigError, type ConfigIssue } from '../../errors/errors.ts'
import { Sinks } from '../../observe/sinks/sinks.ts'
import type { SinkMetrics } from '../../observe/metrics.ts'
import { startAlone } from '../../threads/client.ts'
import type { Telemetry } from '../../plugin.ts'
import type { SinksInit } from './thread.ts'

interface SinkSetup {
  readonly loaded: LoadedConfig
  readonly gatewayId: string
  readonly telemetry: Telemetry
  readonly log: ConsolaInstance
  readonly metrics: SinkMetrics
  readonly mask: (sink: string, secrets: readonly string[]) => void
}

/** @throws ConfigError with issues at `sinks.<index>.use` and `.options` */
export async function setUpSinks(setup: SinkSetup): Promise<Sinks | undefined> {
  const { loaded, gatewayId, telemetry, log, metrics, mask } = setup
  const { config, file, directory, secrets } = loaded
  if (config.sinks.length === 0) return undefined
  const issues = config.sinks.flatMap(({ options }, index) => notPlain(options, index))
  if (issues.length > 0) throw new ConfigError(file, issues)
  const init = {
    sinks: config.sinks,
    directory,
    secrets: [...secrets],
    gateway: gatewayId,
    telemetry,
  }
  const script = new URL(`./thread${extname(import.meta.url)}`, import.meta.url)
  const start = (entered: Int32Array, without: readonly number[]) =>
    startAlone('sinks', script, { ...init, entered, without } satisfies SinksInit)
  const sinks = new Sinks({ gateway: gatewayId, start, log, metrics, mask })
  try {
    const issues = await sinks.open()
    if (issues.length > 0) throw new ConfigError(file, issues)
    return sinks
  } catch (error) {
    await sinks.close()
    throw error
  }
}

/** Issues of options that are not plain data: a thread gets only data. */
function notPlain(options: object, index: number): ConfigIssue[] {
  try {
    structuredClone(options)
    return []
  } catch {
    const message = 'expected plain data, because a sink runs in a thread of its own'
    return [{ path: `sinks.${index}.options`, message }]
  }
}
