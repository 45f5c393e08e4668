/** Checks whether servers can hold a ledger, and which risks their settings carry. */
import type { Cluster, Redis } from 'ioredis'

interface ServerInfo {
  /** Why a server cannot be used, and the necessary change. */
  readonly refusal?: string
  /** Possible losses in a crash, one sentence each. */
  readonly risks: readonly string[]
}

const OLDEST_MAJOR = 7

type Fields = Readonly<Record<string, string | undefined>>

export function isCluster(client: Redis | Cluster): client is Cluster {
  return client.isCluster
}

export function serversOf(client: Redis | Cluster): readonly Redis[] {
  return isCluster(client) ? client.nodes('master') : [client]
}

/** Reads version, role and settings of the servers. @throws Error when a server does not answer */
export async function inspectServers(client: Redis | Cluster): Promise<ServerInfo> {
  const inspections = await Promise.all(
    serversOf(client).map(async (node) => {
      const fields = fieldsOf(await node.info())
      const refusal = refusalOf(fields, isCluster(client))
      if (refusal !== undefined) return { refusal: `${nameOf(node)} ${refusal}`, risks: [] }
      const risks = risksOf(fields, await settingsOf(node))
      return { risks: risks.map((risk) => `${nameOf(node)} ${risk}`) }
    }),
  )
  const refused = inspections.find(({ refusal }) => refusal !== undefined)
  return refused ?? { risks: inspections.flatMap(({ risks }) => risks) }
}

/** Waits for the servers. @throws Error when one does not answer */
export async function reachServers(client: Redis | Cluster): Promise<ServerInfo> {
  await Promise.all(serversOf(client).map((node) => node.ping()))
  return { risks: [] }
}

/**
 * Rewrites append-only files that were not rewritten since their servers started. A server that is killed while it writes the
 * effects of a script drops them at its next start, but may leave part of them in the file and apply that part at the start
 * after (seen with Redis 7.0; newer versions of Valkey remove the part).
 * @throws Error when a server does not answer, or does not permit the command
 */
export async function renewFiles(client: Redis | Cluster): Promise<void> {
  await Promise.all(
    serversOf(client).map(async (node) => {
      const fields = fieldsOf(await node.info('persistence'))
      const { aof_enabled: enabled, aof_rewrites: done, aof_rewrite_in_progress: running } = fields
      if (enabled === '1' && done === '0' && running === '0') await node.bgrewriteaof()
    }),
  )
}

function refusalOf(fields: Fields, cluster: boolean): string | undefined {
  const { redis_version: version = '', maxmemory_policy: policy = 'noeviction' } = fields
  if (Number.parseInt(version, 10) < OLDEST_MAJOR) {
    return (
      `is version ${version}: ${OLDEST_MAJOR}.0 or newer is needed, because before it a server could ` +
      'replicate scripts as text, and its replicas would then use their own clocks.'
    )
  }
  if (policy !== 'noeviction') {
    return `would throw money away when its memory is full: set its maxmemory-policy to noeviction, not ${policy}.`
  }
  if (fields.role === 'slave') return 'is a replica: take the address of its primary.'
  if (fields.cluster_enabled === '1' && !cluster) {
    return 'is one of a cluster: give "url" a list of its nodes, if only of this one.'
  }
  return undefined
}

/** @param settings undefined when the server does not permit to read them */
function risksOf(fields: Fields, settings: Fields | undefined): string[] {
  if (fields.aof_enabled === '0') {
    return [
      'keeps no append-only file: what was booked since its last snapshot is lost with the process. ' +
        'Set appendonly to yes.',
    ]
  }
  if (!settings) {
    return [
      'does not permit CONFIG GET: whether it writes to disk in time, and waits for replicas, is not known.',
    ]
  }
  const { appendfsync, 'min-replicas-to-write': least } = settings
  const replicated = Number(fields.connected_slaves) > 0
  const risks: string[] = []
  if (appendfsync === 'no') {
    risks.push(
      'leaves it to the system when to write to disk: a power cut takes half a minute of bookings. ' +
        'Set appendfsync to always, or with replicas to everysec.',
    )
  }
  if (appendfsync === 'everysec' && !replicated) {
    risks.push(
      'writes to disk every second: a power cut takes up to two seconds of bookings, and they are ' +
        'booked again only if this process survives it. Set appendfsync to always.',
    )
  }
  if (replicated && least === '0') {
    risks.push(
      'does not wait for its replicas: a failover forgets what they had not yet, and it is booked ' +
        'again only if this process survives it. Set min-replicas-to-write to 1.',
    )
  }
  return risks
}

async function settingsOf(node: Redis): Promise<Fields | undefined> {
  try {
    const answer = (await node.config('GET', 'appendfsync', 'min-replicas-to-write')) as string[]
    const pairs = answer.flatMap((name, i) => (i % 2 === 0 ? [[name, answer[i + 1]]] : []))
    return Object.fromEntries(pairs)
  } catch {
    return undefined
  }
}

function fieldsOf(info: string): Fields {
  const lines = info.split('\r\n').filter((line) => line.includes(':'))
  return Object.fromEntries(lines.map((line) => line.split(/:(.*)/s, 2)))
}

function nameOf({ options: { host, port } }: Redis): string {
  return `Redis at ${host}:${port}`
}
