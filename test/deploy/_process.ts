/** Processes of the unprivileged user. */
import { once } from 'node:events'
import { spawn, type ChildProcess } from 'node:child_process'
import { expect, onTestFinished } from 'vitest'
import { environment, unprivileged } from './_installed.ts'

export interface Started {
  readonly child: ChildProcess
  /** What it has printed so far, on each output. */
  readonly out: () => string
  readonly err: () => string
  readonly ended: Promise<{
    readonly code: number | null
    readonly out: string
    readonly err: string
  }>
}

/** Starts a program as the unprivileged user; its whole process group is killed with the test. */
export function startAs(
  words: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): Started {
  const [program, args] = unprivileged(...words)
  const child = spawn(program, args, {
    cwd,
    env: environment({ HOME: cwd, ...env }),
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  onTestFinished(() => {
    try {
      process.kill(-child.pid!, 'SIGKILL')
    } catch {
      // All of them have ended.
    }
  })
  let [out, err] = ['', '']
  child.stdout.on('data', (text: Buffer) => (out += text))
  child.stderr.on('data', (text: Buffer) => (err += text))
  const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, out, err }))
  return { child, out: () => out, err: () => err, ended }
}

/** The address of a gateway, once it has printed it. */
export async function addressOf({ out, err, child }: Started): Promise<string> {
  const found = () =>
    /Sluicegate \S+ +(http\S+)\n[^]*\n\n/.exec(out()) ?? /"url":"(http[^"]+)"/.exec(out())
  const isOver = () => found() !== null || child.exitCode !== null
  await expect.poll(isOver).toBe(true)
  const address = found()?.[1]
  if (address === undefined) throw new Error(`it has not started: ${out()}${err()}`)
  return address
}

/** Whether a process lives that has this text among its arguments. */
export async function isRunning(text: string): Promise<boolean> {
  const { readdir, readFile } = await import('node:fs/promises')
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const lines = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')),
  )
  return lines.some((line) => line.includes(text))
}
