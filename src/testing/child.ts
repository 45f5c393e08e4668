/** The process in which {@link testPlugin} runs a kit: it gets one job, and reports its progress. */
import { dirname, relative } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createHook } from 'node:async_hooks'
import { Worker } from 'node:worker_threads'
import { subscribe } from 'node:diagnostics_channel'
import { ConfigError, type ConfigIssue } from '../errors/errors.ts'
import { findPlugin } from '../gateway/plugin-code.ts'
import { providePluginImports } from '../gateway/plugin-imports.ts'
import { runPluginJob, type PluginJob } from './plugin-job.ts'
import { describeError, type Check, type KitProgress, type KitReport, toCheck } from './report.ts'
import { frameIn } from './code-frame.ts'
import { inHostCall } from './hosts.ts'

// Watches a process in which a plugin is tested: what it prints, connects to, throws outside of calls, and leaves behind.

const LASTING =
  /^(?:Timeout|Immediate|TCP.*WRAP|PIPE.*WRAP|PipeWrap|TLSWRAP|UDPWRAP|PROCESSWRAP|FSEVENTWRAP|StatWatcher|MESSAGEPORT|WORKER)$/
const MAX_NOTES = 5

/** Observations of a process since {@link watchProcess}. */
interface ProcessWatch {
  checks(): Check[]
  /** Resources that still keep the process alive, with the place in the plugin that made them. */
  leftovers(): string[]
}

/** Watches this process for the rest of its life. @param folder the folder of the plugin's code */
function watchProcess(folder: string): ProcessWatch {
  const printed = new Set<string>()
  const connected = new Set<string>()
  const uncaught = new Set<string>()
  for (const stream of [process.stdout, process.stderr]) {
    stream.write = (text: unknown) => {
      if (printed.size >= MAX_NOTES) return true
      // Warnings of Node are not the plugin's.
      const frame = placeOf(folder)
      if (frame) printed.add(`${frame}: ${String(text).trim().slice(0, 80)}`)
      return true
    }
  }
  for (const channel of ['net.client.socket', 'undici:request:create']) {
    subscribe(channel, () => {
      if (inHostCall() || connected.size >= MAX_NOTES) return
      connected.add(`a connection that no method of the host made${at(placeOf(folder))}`)
    })
  }
  const note = (error: unknown) => {
    const frame = placeOf(folder, error instanceof Error ? error.stack : '')
    const text = describeError(error)
    uncaught.add(text.endsWith(')') ? text : `${text}${at(frame)}`)
  }
  process.on('uncaughtException', note)
  process.on('unhandledRejection', note)
  const lasting = new Map<number, { readonly type: string; readonly made: { stack?: string } }>()
  createHook({
    init(id, type) {
      // The text of a stack is made when it is read, which is dear: for what is left alone.
      if (LASTING.test(type)) lasting.set(id, { type, made: traced() })
    },
    destroy: (id) => void lasting.delete(id),
    trackPromises: false,
  }).enable()
  return {
    checks: () => [
      toCheck('console', null, [...printed]),
      toCheck('own connections', null, [...connected]),
      toCheck('uncaught', null, [...uncaught].slice(0, MAX_NOTES)),
    ],
    leftovers() {
      const kinds = process.getActiveResourcesInfo().filter((kind) => LASTING.test(kind))
      const made = [...lasting.values()].flatMap(({ type, made }) => {
        const frame = placeOf(folder, made.stack)
        return frame ? [`${type}${at(frame)}`] : []
      })
      return [...new Set(made.length > 0 ? made : kinds)].slice(0, MAX_NOTES)
    },
  }
}

/** The innermost place of a stack in a folder, as `file:line:column`. */
function placeOf(folder: string, stack = traced().stack): string | undefined {
  const frame = frameIn(stack ?? '', folder)
  return frame && `${relative(folder, frame.file)}:${frame.line}:${frame.column}`
}

/** An object with the stack of its making. */
function traced(): { stack?: string } {
  const before = Error.stackTraceLimit
  Error.stackTraceLimit = 50
  const made = {}
  Error.captureStackTrace(made, traced)
  Error.stackTraceLimit = before
  return made
}

function at(frame: string | undefined): string {
  return frame ? ` (${frame})` : ''
}

export type ChildMessage =
  /** It is sent all the time: a process that is busy cannot send. */
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
/** Timers below 100 ms have ended by then. */
const AFTER_MS = 120

// A plugin may keep this thread busy, so another one sees that the caller is gone, even after it was killed.
const watchdog = new Worker(
  `setInterval(() => {
    if (process.ppid !== ${process.ppid}) process.kill(process.pid, 'SIGKILL')
  }, 500)`,
  { eval: true, execArgv: [] },
)
// A process that has no memory for a thread ends by its caller's limit instead.
watchdog.on('error', () => {})
watchdog.unref()
process.once('disconnect', () => process.exit())
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
    // What throws soon after a call is told too, as are rejections without a handler.
    await sleep(AFTER_MS)
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
