/** Redis servers for tests, on free ports and in folders of their own. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync } from 'node:fs'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { freePort } from '../../_ports.ts'

export const NOT_INSTALLED = 'redis-server is not installed'
const PATIENCE_MS = 60_000

export interface ServerOptions {
  readonly appendfsync?: 'always' | 'everysec'
  /** More of `redis-server`'s command line. */
  readonly args?: readonly string[]
}

export function hasRedis(): boolean {
  return spawnSync('redis-server', ['--version']).status === 0
}

/** A server that can be paused, killed, and started again with what is in its folder. */
export class RedisServer implements AsyncDisposable {
  readonly port: number
  readonly folder: string
  readonly #options: ServerOptions
  #child: ChildProcess | undefined

  static async start(options: ServerOptions = {}): Promise<RedisServer> {
    const server = new RedisServer(await freePort(), options)
    try {
      await server.start()
    } catch (error) {
      await server[Symbol.asyncDispose]()
      throw error
    }
    return server
  }

  private constructor(port: number, options: ServerOptions) {
    this.port = port
    this.folder = mkdtempSync(join(tmpdir(), 'gateway-redis-'))
    this.#options = options
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`
  }

  /** The id of the process that runs. */
  get pid(): number {
    return this.#child!.pid!
  }

  /** Starts the process, and waits until it has read its files. */
  async start(): Promise<void> {
    const { appendfsync = 'everysec', args = [] } = this.#options
    const own = ['--port', `${this.port}`, '--bind', '127.0.0.1', '--dir', this.folder]
    const durability = ['--save', '', '--appendonly', 'yes', '--appendfsync', appendfsync]
    const replication = ['--repl-diskless-sync-delay', '0']
    const line = [...own, ...durability, ...replication, ...args]
    const child = spawn('redis-server', line, { stdio: 'ignore' })
    this.#child = child
    endWithThisProcess(child, this.folder)
    const end = Date.now() + PATIENCE_MS
    while (!(await this.#answers())) {
      if (child.exitCode !== null) throw new Error(`redis-server ended with ${child.exitCode}`)
      if (Date.now() > end) throw new Error('redis-server does not answer')
      await sleep(10)
    }
  }

  async kill(): Promise<void> {
    const child = this.#child
    this.#child = undefined
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    child.kill('SIGKILL')
    await exit
  }

  pause(): void {
    this.#child!.kill('SIGSTOP')
  }

  resume(): void {
    this.#child!.kill('SIGCONT')
  }

  /** Waits until all that it has answered is in its file: while a sync is under way, it keeps what comes for up to two seconds. */
  async written(): Promise<void> {
    await this.ask((client) => until(client, ['INFO', 'persistence'], /aof_buffer_length:0\b/))
  }

  /** Waits until the append-only file has been rewritten since the start. */
  async wholeFile(): Promise<void> {
    await this.ask(async (client) => {
      await until(client, ['INFO', 'persistence'], /aof_rewrites:[1-9]/)
      await until(client, ['INFO', 'persistence'], /aof_rewrite_in_progress:0/)
    })
  }

  /** Cuts the append-only file of a killed server off in the middle of what the last script wrote. */
  tearFile(): void {
    const folder = join(this.folder, 'appendonlydir')
    const names = readdirSync(folder).filter((name) => name.endsWith('.incr.aof'))
    const last = join(
      folder,
      names.toSorted((a, b) => a.localeCompare(b, 'en', { numeric: true })).at(-1)!,
    )
    const text = readFileSync(last, 'latin1')
    truncateSync(last, text.lastIndexOf('XADD', text.lastIndexOf('EXEC')) + 6)
  }

  /** A connection beside those under test. */
  client(): Redis {
    const client = new Redis(this.url, { maxRetriesPerRequest: 3 })
    // The caller gets the error of its command.
    client.on('error', () => {})
    return client
  }

  /** Runs commands on a connection of their own. */
  async ask<T>(question: (client: Redis) => Promise<T>): Promise<T> {
    const client = this.client()
    try {
      return await question(client)
    } finally {
      client.disconnect()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
    rmSync(this.folder, { recursive: true, force: true })
  }

  /** Whether the server is ready; a server that demands a password is. */
  async #answers(): Promise<boolean> {
    const client = new Redis(this.url, { lazyConnect: true, retryStrategy: () => null })
    client.on('error', () => {})
    try {
      await client.connect()
      return (await client.ping()) === 'PONG'
    } catch (error) {
      return (error as Error).message.startsWith('NOAUTH')
    } finally {
      client.disconnect()
    }
  }
}

/** An address that leads to one server and then to another, like that of a managed Redis in a failover. */
export class Address implements AsyncDisposable {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  /** Those that lead to the server. */
  readonly #outer = new Set<Socket>()
  #target: number | undefined

  static async of({ port }: RedisServer): Promise<Address> {
    const address = new Address(port)
    address.#server.listen(0, '127.0.0.1')
    await once(address.#server, 'listening')
    return address
  }

  private constructor(target: number) {
    this.#target = target
    this.#server = createServer((inner) => {
      if (this.#target === undefined) inner.destroy()
      else this.#join(inner, connect(this.#target, '127.0.0.1'))
    })
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`
  }

  /** New connections lead to that server, or are refused; the old ones end. */
  leadTo(server: RedisServer | undefined): void {
    this.#target = server?.port
    this.#cut()
  }

  /** Stops all traffic, and keeps the connections open. */
  hold(): void {
    for (const socket of this.#sockets) socket.unpipe().pause()
  }

  /** What is sent arrives from now on, and its answers do not, until the connections end. */
  holdAnswers(): void {
    for (const socket of this.#outer) socket.unpipe().pause()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close()
    this.#cut()
  }

  #cut(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  #join(inner: Socket, outer: Socket): void {
    this.#outer.add(outer)
    outer.on('close', () => this.#outer.delete(outer))
    for (const [socket, other] of [
      [inner, outer],
      [outer, inner],
    ] as const) {
      this.#sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        this.#sockets.delete(socket)
        other.destroy()
      })
      socket.pipe(other)
    }
  }
}

/** A replica that has everything its primary has. @param primary or an address that leads to it */
export async function startReplica(primary: RedisServer | Address): Promise<RedisServer> {
  const args = ['--replicaof', '127.0.0.1', `${primary.port}`]
  const replica = await RedisServer.start({ args })
  await replica.ask((client) => until(client, ['INFO', 'replication'], 'master_link_status:up'))
  return replica
}

/** A cluster of servers that share the slots evenly. */
export async function startCluster(size: number): Promise<RedisServer[]> {
  const servers: RedisServer[] = []
  try {
    for (let i = 0; i < size; i++) servers.push(await startNode())
    for (const [i, server] of servers.entries()) {
      const [from, to] = [i, i + 1].map((part) => Math.floor((16_384 * part) / size))
      await server.ask((client) => client.call('CLUSTER', 'ADDSLOTSRANGE', from!, to! - 1))
      // With every server, because gossip is slow.
      for (const known of servers.slice(0, i)) await meet(server, known)
    }
    for (const server of servers) await server.ask((client) => joined(client, size))
    return servers
  } catch (error) {
    await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()))
    throw error
  }
}

/** Adds a replica of the first server to a cluster of so many. */
export async function addReplica(servers: readonly RedisServer[]): Promise<RedisServer> {
  const [first] = servers
  const replica = await startNode()
  try {
    for (const server of servers) await meet(replica, server)
    const id = String(await first!.ask((client) => client.call('CLUSTER', 'MYID')))
    await replica.ask(async (client) => {
      await joined(client, servers.length + 1)
      await client.call('CLUSTER', 'REPLICATE', id)
      await until(client, ['INFO', 'replication'], 'master_link_status:up')
    })
    return replica
  } catch (error) {
    await replica[Symbol.asyncDispose]()
    throw error
  }
}

async function startNode(): Promise<RedisServer> {
  const args = ['--cluster-enabled', 'yes', '--cluster-port', String(await freePort())]
  return RedisServer.start({ args })
}

async function meet(server: RedisServer, known: RedisServer): Promise<void> {
  const [, bus] = (await known.ask((client) => client.config('GET', 'cluster-port'))) as string[]
  await server.ask((client) => client.call('CLUSTER', 'MEET', '127.0.0.1', known.port, bus!))
}

async function joined(client: Redis, size: number): Promise<void> {
  for (const line of [`known_nodes:${size}`, 'slots_ok:16384', 'state:ok']) {
    await until(client, ['CLUSTER', 'INFO'], `cluster_${line}`)
  }
}

async function until(
  client: Redis,
  [command, ...args]: readonly string[],
  line: string | RegExp,
): Promise<void> {
  const end = Date.now() + PATIENCE_MS
  while (String(await client.call(command!, ...args)).search(line) < 0) {
    if (Date.now() > end) throw new Error(`${command} ${args.join(' ')} never says ${line}`)
    await sleep(20)
  }
}

/** Kills a server and removes its folder when this process ends, even after `kill -9`: the pipe to the watcher ends with it. */
function endWithThisProcess(server: ChildProcess, folder: string): void {
  const script = `read -r _; kill -9 ${server.pid}; rm -rf '${folder}'`
  const watcher = spawn('sh', ['-c', script], { stdio: ['pipe', 'ignore', 'ignore'] })
  watcher.unref()
  ;(watcher.stdin as Socket).unref()
  server.once('exit', () => watcher.kill('SIGKILL'))
}
