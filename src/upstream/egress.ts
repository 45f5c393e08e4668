/** The way of every outgoing connection: directly or through a proxy, and with which certificates. Chosen once for each origin. */
import { lookup } from 'node:dns'
import type { LookupFunction } from 'node:net'
import tls, { createSecureContext } from 'node:tls'
import { type buildConnector, Client, type Dispatcher, Pool, ProxyAgent } from 'undici'
import {
  BYPASS_VARIABLES,
  bypassOf,
  contextOf,
  NO_NETWORK,
  PROXY_VARIABLES,
  proxyUrl,
  type Network,
} from '../config/network.ts'
import type { Config } from '../config/config.ts'

/** The member `egress` of an instance, and of the top level. */
export type EgressSettings = NonNullable<Config['providers'][string]['egress']>

/** How an origin is reached. */
interface Way {
  /** The proxy without user information; null for a direct connection. */
  readonly via: string | null
  readonly why: 'setting' | 'environment' | 'bypass' | 'local' | 'none'
  /** The variable or the entry that decided. */
  readonly by?: string
}

/** The way of one configured instance. */
interface InstanceWay extends Way {
  /** Its name; for anything but a provider with its kind before it, such as `sink:slack`. */
  readonly instance: string
}

/** One line for each way, with the instances that take it. */
export function waysInWords(ways: readonly InstanceWay[]): string[] {
  const byWay = Map.groupBy(ways, ({ via, why, by }) => {
    const reason = why === 'bypass' ? `bypass ${by}` : (by ?? (why === 'none' ? '' : why))
    return `${via === null ? 'direct' : `via ${via}`}${reason && ` (${reason})`}`
  })
  return [...byWay].map(([way, all]) => `${all.map(({ instance }) => instance).join(', ')}: ${way}`)
}

/** Connections to one origin. */
export interface OpenedWay {
  readonly dispatcher: Dispatcher
  /** It is absent for a direct connection. */
  readonly proxy?: Proxy
}

/** The way of one instance. */
export interface EgressRoute {
  open(origin: string, options: OpenOptions): OpenedWay
  explain(origin: string): Way
}

interface OpenOptions {
  readonly connections: number
  /** Receives errors that belong to no request. */
  readonly onError: (error: unknown) => void
}

/** The proxy of a dispatcher, which reports whether answers come through it. */
export interface Proxy {
  /** `host:port` */
  readonly name: string
  answered(): void
  /** @param text the text for the operator */
  failed(text: string): void
}

/** A connection to the proxy failed. Told apart from what fails behind it. */
export class ProxyUnreachable extends Error {
  readonly code: string
  constructor(cause: Error & { code?: string }) {
    super('the proxy cannot be reached', { cause })
    this.code = cause.code ?? 'UND_ERR_SOCKET'
  }
}

/** Time for a proxy to open a tunnel; as long as undici waits for a connection. */
const TUNNEL_MS = 10_000

/** Failures in a row from which on a proxy counts as down, and the least time between the first and the last. */
const FAILURES = 3
const FAILING_MS = 10_000

/** Which proxies answer. Outlives a configuration. */
export class ProxyHealth {
  readonly #failing = new Map<
    string,
    { count: number; readonly since: number; text: string; down: boolean }
  >()
  readonly #now: () => number

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** Proxies that are down, with why. */
  get down(): [name: string, text: string][] {
    return [...this.#failing].flatMap(([name, { down, text }]) => (down ? [[name, text]] : []))
  }

  answered(name: string): void {
    if (this.#failing.size > 0) this.#failing.delete(name)
  }

  failed(name: string, text: string): void {
    const now = this.#now()
    const failing = this.#failing.get(name) ?? { count: 0, since: now, text, down: false }
    failing.count++
    failing.text = text
    if (failing.count >= FAILURES && now - failing.since >= FAILING_MS) failing.down = true
    this.#failing.set(name, failing)
  }
}

type ConnectOptions = buildConnector.BuildOptions & { servername?: string }

/** Names that are reached directly, unless an instance itself names a proxy. */
const LOCAL = [
  'localhost',
  '127.0.0.0/8',
  '::1',
  '169.254.0.0/16',
  'fe80::/10',
  'metadata.google.internal',
]

const isLocal = LOCAL.map((entry) => bypassOf(entry)!)

/** The ways of one configuration. */
export class Egress {
  readonly #top: EgressSettings
  readonly #network: Network
  readonly #health: ProxyHealth
  readonly #environment: readonly string[]
  #authorities: readonly string[] | undefined
  /** The ways of each instance that has connected, by origin. */
  readonly #opened = new Map<string, Map<string, Way>>()
  /** The way of each instance that has an address, in the order of the configuration. */
  readonly ways: InstanceWay[] = []

  constructor(top: EgressSettings, network: Network, health = new ProxyHealth()) {
    this.#top = top
    this.#network = network
    this.#health = health
    const { variables } = network
    this.#environment = BYPASS_VARIABLES.flatMap((name) => (variables[name] ?? '').split(/[\s,]+/))
  }

  /** Proxies that are down, with why. */
  get down(): [name: string, text: string][] {
    return this.#health.down
  }

  /**
   * Notes the way of an instance.
   * @param options where its address is; a provider without one reaches its vendor by https, and one with null nothing
   */
  note(instance: string, options: unknown, own: EgressSettings | undefined): void {
    const texts = Object.values(Object(options)).filter((one) => typeof one === 'string')
    const url = texts.map((text) => (/^https?:/i.test(text) ? URL.parse(text) : null)).find(Boolean)
    const isProvider = !instance.includes(':')
    const connects = isProvider && Object(options).address !== null
    if (!url && !connects) return
    const origin = url?.origin ?? 'https://vendor.example'
    this.ways.push({ instance, ...this.route(own).explain(origin) })
  }

  /**
   * The ways that the login of a provider has taken, where nothing else was asked for yet.
   * @param address the address of the provider, which may have named its models
   */
  loginWays(instance: string, address: string | null = null): InstanceWay[] {
    const own = address === null ? undefined : URL.parse(address)?.origin
    const opened = [...(this.#opened.get(instance) ?? [])]
    const ways = opened.flatMap(([origin, way]) => (origin === own ? [] : [way]))
    const distinct = new Map(ways.map((way) => [JSON.stringify(way), way]))
    return [...distinct.values()].map((way) => ({ instance: `login:${instance}`, ...way }))
  }

  /**
   * The way of one instance; without settings that of the top level.
   * @param refuses addresses to which no connection is made, by number and after a name was resolved
   * @param instance whose connections are noted
   */
  route(
    own: EgressSettings = {},
    refuses?: (address: string) => boolean,
    instance?: string,
  ): EgressRoute {
    const { proxy = this.#top.proxy ?? 'environment', bypass = this.#top.bypass ?? [] } = own
    const namesProxy = own.proxy?.includes('://') === true
    const entries = [...this.#environment, ...bypass].flatMap((entry) => {
      const covers = bypassOf(entry)
      return covers ? [{ entry, covers }] : []
    })
    const find = (origin: string): Way & { readonly url?: URL } => {
      const { protocol, hostname, port } = new URL(origin)
      const host = hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '')
      const number = Number(port) || (protocol === 'http:' ? 80 : 443)
      if (proxy === 'none') return { via: null, why: 'setting' }
      const by = entries.find(({ covers }) => covers(host, number))?.entry
      if (by !== undefined) return { via: null, why: 'bypass', by }
      if (!namesProxy && isLocal.some((covers) => covers(host, number))) {
        return { via: null, why: 'local' }
      }
      const { variables } = this.#network
      const variable = PROXY_VARIABLES[protocol]?.find((name) => variables[name])
      const text = proxy === 'environment' ? variable && variables[variable] : proxy
      const url = text === undefined ? undefined : proxyUrl(text)
      if (!url) return { via: null, why: 'none' }
      if (proxy !== 'environment') return { via: url.origin, why: 'setting', url }
      return { via: url.origin, why: 'environment', by: variable!, url }
    }
    const certificates = own.tls ?? this.#top.tls
    const secured = certificates && this.#connectOptions(certificates)
    const connect = refuses ? { ...secured, lookup: checkedLookup(refuses) } : secured
    return {
      open: (origin, options) => {
        if (refuses?.(new URL(origin).hostname)) throw refused(origin)
        const { url, ...way } = find(origin)
        if (instance !== undefined) this.#note(instance, origin, way)
        return this.#open(origin, url, connect, options)
      },
      explain(origin) {
        const { url: _, ...way } = find(origin)
        return way
      },
    }
  }

  #note(instance: string, origin: string, way: Way): void {
    const opened = this.#opened.get(instance) ?? new Map<string, Way>()
    this.#opened.set(instance, opened.set(origin, way))
  }

  #connectOptions(settings: NonNullable<EgressSettings['tls']>): ConnectOptions {
    const { ca, ...context } = contextOf(settings, this.#network)
    const authorities = (this.#authorities ??= tls.getCACertificates('default'))
    const secureContext = createSecureContext({
      ...context,
      ...(ca && { ca: [...authorities, ...ca] }),
    })
    const { serverName } = settings
    return { secureContext, ...(serverName !== undefined && { servername: serverName }) }
  }

  #open(
    origin: string,
    url: URL | undefined,
    connect: ConnectOptions | undefined,
    { connections, onError }: OpenOptions,
  ): OpenedWay {
    const limits = { connections, pipelining: 1 }
    const factory = (to: string | URL, options: object) => {
      const client: NodeJS.EventEmitter & Dispatcher = new Client(to, options)
      return client.on('error', onError)
    }
    if (!url)
      return { dispatcher: new Pool(origin, { ...limits, factory, ...(connect && { connect }) }) }
    const name = `${url.hostname}:${url.port || (url.protocol === 'http:' ? 80 : 443)}`
    const poolOf = (to: string | URL, options: object) =>
      new Pool(to, { ...options, ...limits, factory })
    const marked = (options: { connect?: buildConnector.connector }) => ({
      ...options,
      connect: markingUnreachable(options.connect!),
    })
    const { servername: _, ...toProxy } = connect ?? {}
    const dispatcher = new ProxyAgent({
      uri: url.href,
      ...limits,
      proxyTunnel: false,
      ...(connect && { requestTls: connect, proxyTls: toProxy }),
      // Connections to the proxy: to ask for a tunnel, and for http to send the request itself.
      clientFactory: (to, options) => poolOf(to, { ...marked(options), headersTimeout: TUNNEL_MS }),
      factory: (to, options: { connect?: buildConnector.connector }) =>
        poolOf(to, String(to) === url.href ? marked(options) : options),
    })
    const health = this.#health
    const proxy = {
      name,
      answered: () => health.answered(name),
      failed: (text: string) => health.failed(name, text),
    }
    return { dispatcher, proxy }
  }
}

function refused(host: string): Error {
  return Object.assign(new Error(`no connection is made to ${host}`), { code: 'ENOTFOUND' })
}

/** Resolves names, and fails where one has an address that is refused. */
function checkedLookup(refuses: (address: string) => boolean): LookupFunction {
  return (hostname, options, callback) =>
    lookup(hostname, options, (error, address, family) => {
      const all = Array.isArray(address) ? address : [{ address, family }]
      const isRefused = !error && all.some((one) => refuses(one.address))
      callback(isRefused ? refused(hostname) : error, address, family)
    })
}

function markingUnreachable(connect: buildConnector.connector): buildConnector.connector {
  return (options, callback) =>
    connect(options, (error, socket) => {
      if (error) callback(new ProxyUnreachable(error), null)
      else callback(null, socket!)
    })
}

/** The status with which a proxy refused; undefined for another error. */
export function refusedByProxy({ message }: Error): string | undefined {
  return /^Proxy response \((\d+)\)|^Proxy Authentication Required \((\d+)\)/
    .exec(message)
    ?.slice(1)
    .find(Boolean)
}

/** Direct connections, for tests of plugins. */
export const DIRECT: EgressRoute = new Egress({ proxy: 'none' }, NO_NETWORK).route()
