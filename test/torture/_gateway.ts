/** Gateways as processes of their own, started from a checkout as an operator would, and killed as no operator would. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const ROOT = resolve(import.meta.dirname, '../..')
const PATIENCE_MS = 360_000

export interface GatewayProcess {
  readonly url: string
  readonly pid: number
  /** The end of what it has printed. */
  said(): string
  /** Ends it with a signal, or finds that it has ended. @returns its exit status */
  end(signal?: NodeJS.Signals): Promise<number | null>
  /** The time from the start of the process to its first answer. */
  readonly startMs: number
  /** Ends it at once, with nothing tidied up. @throws when it has ended by itself */
  kill(): Promise<void>
}

/** Those that run; a torture that ends early kills them. */
const running = new Set<() => void>()
process.on('exit', () => running.forEach((kill) => kill()))

/**
 * Starts a gateway on a port of its own, and waits until it is well.
 * @param built whether to start what `npm run build` made, as a package has it, instead of the sources
 */
export async function startGateway(
  config: string,
  folder: string,
  env: Readonly<Record<string, string>> = {},
  built = false,
): Promise<GatewayProcess> {
  const started = performance.now()
  const args = [
    join(ROOT, built ? 'dist/src/cli.js' : 'src/cli.ts'),
    'serve',
    '--config',
    config,
    '--port',
    '0',
  ]
  const options = { env: { ...process.env, ...env }, cwd: folder }
  const child = spawn(process.execPath, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
  const killNow = () => void child.kill('SIGKILL')
  running.add(killNow)
  let [out, err] = ['', '']
  child.stderr.on('data', (text: Buffer) => (err = (err + text).slice(-10_000)))
  const url = await new Promise<string>((found, fail) => {
    const timer = setTimeout(
      () => fail(new Error(`the gateway does not start: ${err}`)),
      PATIENCE_MS,
    )
    child.once('exit', (code) => fail(new Error(`the gateway ended with ${code}: ${err}`)))
    const read = (text: Buffer) => {
      out += text
      const [address] = /http:\/\/127\.0\.0\.1:\d+/.exec(out) ?? []
      if (!address) return
      clearTimeout(timer)
      child.removeAllListeners('exit')
      child.stdout.off('data', read).on('data', (more: Buffer) => {
        out = (out + more).slice(-10_000)
      })
      found(address)
    }
    child.stdout.on('data', read)
  })
  for (;;) {
    const health = await fetch(`${url}/health`)
    const said = await health.text()
    if (health.ok) break
    if (performance.now() - started > PATIENCE_MS) throw new Error(`not well: ${said}`)
    await sleep(20)
  }
  return {
    url,
    pid: child.pid!,
    said: () => out + err,
    async end(signal) {
      const exit = once(child, 'exit')
      if (signal) child.kill(signal)
      if (child.exitCode === null && child.signalCode === null) await exit
      running.delete(killNow)
      return child.exitCode
    },
    startMs: performance.now() - started,
    async kill() {
      running.delete(killNow)
      if (child.exitCode !== null) throw new Error(`the gateway ended by itself: ${err}`)
      const exit = once(child, 'exit')
      killNow()
      await exit
    },
  }
}
