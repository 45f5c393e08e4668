/**
 * The command line, as users start it and as the function behind it. What a process adds is the same for all commands: one
 * is started for it, and `serve` for what it does as a process; all else is called.
 */
import { once } from 'node:events'
import { spawn, type ChildProcess, type ChildProcessByStdio } from 'node:child_process'
import { delimiter, dirname, resolve } from 'node:path'
import type { Readable } from 'node:stream'
import { expect, onTestFinished, vi } from 'vitest'
import { main } from '../src/cli/main.ts'
import { keepUpToDate } from '../src/cli/reload.ts'
import { prepareState } from '../src/cli/serving.ts'
import { loadConfig } from '../src/config/config.ts'
import { withChangesLogged } from '../src/gateway/changes.ts'
import { folder } from './_folder.ts'
import { createTestGateway, send, type TestGateway } from './_setup.ts'

const CLI = resolve(import.meta.dirname, '../src/cli.ts')

export interface Said {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

export interface Ended extends Said {
  readonly signal: NodeJS.Signals | null
}

export interface Running {
  readonly child: ChildProcess
  /** What it has printed so far. */
  readonly said: () => string
  readonly ended: Promise<Ended>
}

export interface Where {
  /** An empty folder by default. */
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
}

/** Starts the command line; it is killed with the test. @param node options of Node itself */
export async function start(
  args: readonly string[],
  { cwd, env }: Where = {},
  node: readonly string[] = [],
  descriptors?: number,
): Promise<Running> {
  const command = [process.execPath, ...node, CLI, ...args]
  // A shell sets the limit and becomes the process.
  const limited = ['sh', '-c', `ulimit -n ${descriptors}; exec "$0" "$@"`, ...command]
  const [program, ...words] = descriptors === undefined ? command : limited
  const child = spawn(program!, words, {
    cwd: cwd ?? (await folder({})),
    env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  return watched(child)
}

/** Starts a command of npm, whose Node is that of the test; the whole process group is killed with the test. */
export function startWithNpm(
  program: 'npm' | 'npx',
  args: readonly string[],
  cwd: string,
): Running {
  const child = spawn(program, args, {
    cwd,
    env: { PATH: `${dirname(process.execPath)}${delimiter}${process.env.PATH}`, HOME: cwd },
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
  return watched(child)
}

function watched(child: ChildProcessByStdio<null, Readable, Readable>): Running {
  let [out, err] = ['', '']
  child.stdout.on('data', (text: Buffer) => (out += text))
  child.stderr.on('data', (text: Buffer) => (err += text))
  const ended = once(child, 'close').then(([code, signal]) => ({ code, signal, out, err }))
  return { child, said: () => out + err, ended }
}

/**
 * What `serve` serves in this folder, within this process: its configuration and its state. It is closed with the test. No line
 * of its calls comes between those of a command that is called meanwhile.
 */
export async function served(where: Where & { readonly cwd: string }): Promise<string> {
  return (await gatewayIn(optionsOf(where))).url
}

/** The same, which follows changes of its files. @returns where it answers, and what it has logged */
export async function upToDate(
  where: Where & { readonly cwd: string },
): Promise<{ readonly url: string; readonly said: () => string }> {
  const options = optionsOf(where)
  const { url, gateway, logged } = await gatewayIn(options)
  const { log } = gateway.runtime
  const watcher = await keepUpToDate({ log, loaded: gateway.loaded, options }, (next) =>
    withChangesLogged(gateway, () => gateway.reload(next)),
  )
  onTestFinished(() => watcher.close())
  return { url, said: () => logged.join('\n') }
}

function optionsOf({ cwd, env = {} }: Where & { readonly cwd: string }) {
  return { cwd, env: { ...env, SLUICEGATE__LOG__ACCESS: 'false' } }
}

async function gatewayIn(options: ReturnType<typeof optionsOf>): Promise<TestGateway> {
  const gateway = await createTestGateway(await loadConfig(options), undefined, {
    withAccount: false,
    adminToken: true,
  })
  onTestFinished(() => gateway.close())
  await prepareState(gateway.gateway, true)
  return gateway
}

export async function run(...args: Parameters<typeof start>): Promise<Ended> {
  return (await start(...args)).ended
}

/** Calls the command line within this process, whose folder and environment are those of the call: one call at a time. */
export async function call(args: readonly string[], { cwd, env = {} }: Where = {}): Promise<Said> {
  const [home, variables] = [process.cwd(), { ...process.env }]
  const streams = [process.stdout, process.stderr] as const
  const listeners = streams.map((stream) => stream.listeners('error'))
  const written = streams.map(() => '')
  const spies = streams.map((stream, i) =>
    vi.spyOn(stream, 'write').mockImplementation((text) => {
      written[i] += text
      return true
    }),
  )
  // Each thread of each gateway in this process listens to the output too.
  for (const stream of streams) stream.setMaxListeners(0)
  process.chdir(cwd ?? (await folder({})))
  Object.assign(process.env, env)
  try {
    const code = await main(args)
    return { code, out: written[0]!, err: written[1]! }
  } finally {
    process.chdir(home)
    for (const name of Object.keys(process.env)) if (!(name in variables)) delete process.env[name]
    Object.assign(process.env, variables)
    for (const spy of spies) spy.mockRestore()
    for (const [i, stream] of streams.entries()) {
      for (const added of stream.listeners('error')) {
        if (!listeners[i]!.includes(added)) stream.off('error', added as () => void)
      }
    }
  }
}

/** Where a gateway answers, once it does. */
export async function urlOf({ said }: Running): Promise<string> {
  const pretty = /Sluicegate \S+ +(http\S+)\n[^]*\n {2}Models +\S[^]*\n\n/
  const json = /"event":"started",.*"url":"(http[^"]+)".*\n/
  await expect.poll(() => pretty.test(said()) || json.test(said()), { message: said() }).toBe(true)
  return (pretty.exec(said()) ?? json.exec(said()))![1]!
}

export function keyIn(text: string): string {
  return /sk-sluice-\w+/.exec(text)![0]
}

/** Sends a request with a secret: a POST where there is a body, otherwise a GET. */
export function ask(url: string, secret: string, path: string, body?: object) {
  const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' }
  return send(url + path, body ? 'POST' : 'GET', body && JSON.stringify(body), headers)
}

/** The admin token of {@link PACED_CONFIG}. */
export const TOKEN = 'admin-token-of-the-test'
/** A configuration whose model pauses between words. */
export const PACED_CONFIG = `
server: { port: 0, shutdownGrace: 20 }
state: { driver: memory }
admin: { token: '${TOKEN}' }
log: { access: false }
providers: { mock: { use: mock } }
models:
  mock/echo:
    pricing: { prompt: '0.000001', completion: '0.000002' }
    capabilities: [STREAMING]
    deployments: [{ provider: mock, model: echo, options: { paceMs: 50 } }]
`

/** State that is forgotten, unless a test is about its folder. */
const memory = ({ cwd, env }: Where = {}): Where => ({
  ...(cwd !== undefined && { cwd }),
  env: { SLUICEGATE__STATE: '{"driver":"memory"}', ...env },
})
const startInMemory = (args: readonly string[], where?: Where, node?: readonly string[]) =>
  start(args, memory(where), node)
const runInMemory = (args: readonly string[], where?: Where, node?: readonly string[]) =>
  run(args, memory(where), node)
const callInMemory = (args: readonly string[], where?: Where) => call(args, memory(where))
const servedInMemory = (where: Parameters<typeof served>[0]) =>
  served({ ...where, ...memory(where) })

/** Commands whose state is forgotten. */
export const inMemory = {
  start: startInMemory,
  run: runInMemory,
  call: callInMemory,
  served: servedInMemory,
}
