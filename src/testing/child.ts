/** The process in which {@link testPlugin} runs a kit: it gets one job, and reports its progress. */
import { dirname } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { ConfigError, type ConfigIssue } from '../errors/errors.ts'
import { findPlugin } from '../gateway/plugin-code.ts'
import { providePluginImports } from '../gateway/plugin-imports.ts'
import { runPluginJob, type PluginJob } from './plugin-job.ts'
import { watchProcess } from './process-watch.ts'
import { describeError, type Check, type KitProgress, type KitReport } from './report.ts'

export type ChildMessage =
  /** Sent all the time: a process that is busy cannot send. */
  | { readonly alive: true }
  | { readonly found: Pick<KitReport, 'kind' | 'name' | 'api'> }
  | { readonly progress: KitProgress }
  | { readonly report: KitReport; readonly more: readonly Check[] }
  | { readonly leftovers: readonly string[] }
  /** No check was possible. */
  | { readonly refused: string; readonly issues?: readonly ConfigIssue[] }

/** ms that a process may live on when everything is closed. */
const END_MS = 2000
const ALIVE_MS = 250

process.once('message', (job: PluginJob) => void run(job))

async function run(job: PluginJob): Promise<void> {
  tell({ alive: true })
  const heartbeat = setInterval(() => tell({ alive: true }), ALIVE_MS).unref()
  try {
    providePluginImports()
    const plugin = await findPlugin(job.plugin, job.directory)
    const { kind, name, api } = plugin.plugin
    tell({ found: { kind, name, api } })
    const watch = watchProcess(dirname(plugin.file))
    const report = await runPluginJob(job, plugin, (progress) => tell({ progress }))
    // Rejections without a handler are told after the microtasks.
    await nextTurn()
    tell({ report, more: watch.checks() })
    const ended = () => {
      tell({ leftovers: watch.leftovers() })
      process.exit()
    }
    setTimeout(ended, END_MS).unref()
  } catch (error) {
    tell({
      refused: error instanceof Error ? error.message : describeError(error),
      ...(error instanceof ConfigError && { issues: error.issues }),
    })
  }
  clearInterval(heartbeat)
  process.channel?.unref()
}

function tell(message: ChildMessage): void {
  process.send?.(message)
}
