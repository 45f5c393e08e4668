/** Watches a process in which a plugin is tested: what it prints, connects to, throws outside of calls, and leaves behind. */
import { createHook } from 'node:async_hooks'
import { subscribe } from 'node:diagnostics_channel'
import { relative } from 'node:path'
import { frameIn } from './code-frame.ts'
import { inHostCall } from './hosts.ts'
import { describeError, toCheck, type Check } from './report.ts'

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
export function watchProcess(folder: string): ProcessWatch {
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
    uncaught.add(`${describeError(error)}${at(frame)}`)
  }
  process.on('uncaughtException', note)
  process.on('unhandledRejection', note)
  const lasting = new Map<number, string>()
  createHook({
    init(id, type) {
      if (!LASTING.test(type)) return
      const frame = placeOf(folder)
      if (frame) lasting.set(id, `${type}${at(frame)}`)
    },
    destroy: (id) => void lasting.delete(id),
  }).enable()
  return {
    checks: () => [
      toCheck('console', null, [...printed]),
      toCheck('own connections', null, [...connected]),
      toCheck('uncaught', null, [...uncaught].slice(0, MAX_NOTES)),
    ],
    leftovers() {
      const kinds = process.getActiveResourcesInfo().filter((kind) => LASTING.test(kind))
      const made = [...new Set(lasting.values())]
      return (made.length > 0 ? made : [...new Set(kinds)]).slice(0, MAX_NOTES)
    },
  }
}

/** The innermost place of a stack in a folder, as `file:line:column`. */
function placeOf(folder: string, stack: string | undefined = stackHere()): string | undefined {
  const frame = frameIn(stack, folder)
  return frame && `${relative(folder, frame.file)}:${frame.line}:${frame.column}`
}

function stackHere(): string {
  const before = Error.stackTraceLimit
  Error.stackTraceLimit = 50
  const { stack = '' } = new Error()
  Error.stackTraceLimit = before
  return stack
}

function at(frame: string | undefined): string {
  return frame ? ` (${frame})` : ''
}
