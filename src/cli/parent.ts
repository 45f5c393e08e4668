/** The npm that started this process, which may end without a signal for it: npm passes no SIGTERM on. */
import { readFileSync } from 'node:fs'

const LOOK_MS = 1000

/** A process, not to be confused with a later one of the same number. */
interface Identity {
  readonly pid: number
  readonly started: string
}

/**
 * Calls back once when the npm above this process has ended. Does nothing for a process that npm did not start.
 * @returns ends the watch
 */
export function watchParent(onGone: () => void): () => void {
  if (process.env.npm_execpath === undefined) return () => {}
  const isAlive = npmAbove() ?? sameParent()
  const timer = setInterval(() => {
    if (isAlive()) return
    clearInterval(timer)
    onGone()
  }, LOOK_MS)
  timer.unref()
  return () => clearInterval(timer)
}

/** Whether the next npm above this process lives; undefined where there is none, or no `/proc`. */
function npmAbove(): (() => boolean) | undefined {
  for (let pid = process.ppid; pid > 1;) {
    const status = statusOf(pid)
    if (!status) return undefined
    const npm = { pid, started: status.started }
    if (isNpm(pid)) return () => lives(npm)
    pid = status.parent
  }
  return undefined
}

function lives({ pid, started }: Identity): boolean {
  return statusOf(pid)?.started === started
}

function sameParent(): () => boolean {
  const parent = process.ppid
  return () => process.ppid === parent
}

/** Parent and start time of a process (proc_pid_stat(5), fields 4 and 22); undefined after its end. */
function statusOf(pid: number): { readonly parent: number; readonly started: string } | undefined {
  const text = read(`/proc/${pid}/stat`)
  if (text === undefined) return undefined
  // The name in the second field may hold blanks and parentheses.
  const [state, parent, ...fields] = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return state === 'Z' ? undefined : { parent: Number(parent), started: fields[17] ?? '' }
}

/**
 * Whether npm runs a process. It names its process after what it runs, such as "npm start"; before that, its script
 * is among the arguments.
 */
function isNpm(pid: number): boolean {
  const words = (read(`/proc/${pid}/cmdline`) ?? '').split(/[\0 ]/)
  return words.some((word) => /(?:^|[/\\])np[mx](?:-cli\.js)?$/.test(word))
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}
