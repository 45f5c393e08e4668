/** What a configuration says about connections to others: proxies of the environment, names without one, certificates. */
import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { BlockList, isIP } from 'node:net'
import { resolve } from 'node:path'
import { createSecureContext } from 'node:tls'
import * as v from 'valibot'
import type { ConfigIssue } from '../errors/errors.ts'
import type { Environment } from './environment.ts'

/** Plain data, because the thread of sinks needs it too. */
export interface Network {
  /** The variables that choose a proxy and that are set, by their names as they are written. */
  readonly variables: Readonly<Record<string, string>>
  /** Texts in PEM form, by the setting's path. */
  readonly pem: ReadonlyMap<string, string>
  /** Sentences for the operator: certificates that end soon, and checks that are switched off. */
  readonly warnings: readonly string[]
}

/** Variables that choose a proxy, the first that is set and not empty counts. */
export const PROXY_VARIABLES: Readonly<Record<string, readonly string[]>> = {
  'https:': ['https_proxy', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY'],
  'http:': ['http_proxy', 'HTTP_PROXY', 'all_proxy', 'ALL_PROXY'],
}
export const BYPASS_VARIABLES: readonly string[] = ['no_proxy', 'NO_PROXY']

const IN_PEM = '-----BEGIN'
const SOON_DAYS = 14
const DAY_MS = 24 * 3_600_000

/** The address of a proxy; undefined for a text that is none. A host and port alone are reached by http. */
export function proxyUrl(text: string): URL | undefined {
  const url = URL.parse(/^[a-z][a-z\d+.-]*:\/\//i.test(text) ? text : `http://${text}`)
  return url && /^https?:$/.test(url.protocol) && url.hostname !== '' ? url : undefined
}

/** Whether a text is a value of `egress.proxy`. */
function isProxy(text: string): boolean {
  return ['environment', 'none'].includes(text) || (text.includes('://') && !!proxyUrl(text))
}

/** Whether a text is an entry of `egress.bypass`. */
export function isBypass(entry: string): boolean {
  return bypassOf(entry) !== undefined
}

/** Whether an entry of a list of names without a proxy covers a target. */
type Covers = (host: string, port: number) => boolean

/** @returns undefined for a text that is no entry */
export function bypassOf(entry: string): Covers | undefined {
  const text = entry.trim().toLowerCase()
  if (text === '*') return () => true
  const [, network, bits] = /^([\da-f.:]+)\/(\d{1,3})$/.exec(text) ?? []
  if (network !== undefined) return inNetwork(network, Number(bits))
  const literal = text.replace(/^\[(.*)\]$/, '$1')
  if (isIP(literal)) return inNetwork(literal, isIP(literal) === 6 ? 128 : 32)
  const [, start, name, port] =
    /^(\*?\.)?([a-z\d_-][a-z\d_.-]*|\[[\da-f:.]+\])(?::(\d{1,5}))?$/.exec(text) ?? []
  if (name === undefined) return undefined
  const host = name.replace(/^\[(.*)\]$/, '$1')
  const isBelow = isIP(host) ? () => false : (target: string) => target.endsWith(`.${host}`)
  return (target, targetPort) =>
    (port === undefined || Number(port) === targetPort) &&
    ((start === undefined && target === host) || isBelow(target))
}

function inNetwork(network: string, bits: number): Covers | undefined {
  const family = isIP(network)
  if (family === 0 || bits > (family === 6 ? 128 : 32)) return undefined
  const list = new BlockList()
  list.addSubnet(network, bits, family === 6 ? 'ipv6' : 'ipv4')
  return (host) => {
    const targetFamily = isIP(host)
    return targetFamily !== 0 && list.check(host, targetFamily === 6 ? 'ipv6' : 'ipv4')
  }
}

// The way of connections to others: proxies and certificates.

const PROXY = '"environment", "none", or an address such as "http://proxy.corp:3128"'
const BYPASS = 'a name, ".name", "name:port", an address, a network such as "10.0.0.0/8", or "*"'
const PEM = 'the path of a file, or the text of a certificate in PEM form'
const BOTH = 'a certificate "cert" and its "key", or none of them'
const pem = v.pipe(v.string(PEM), v.minLength(1, PEM))
const tlsMembers = {
  ca: v.optional(v.union([pem, v.array(pem)], PEM), []),
  cert: v.optional(pem),
  key: v.optional(pem),
  passphrase: v.optional(v.string()),
}
const hasBoth = ({ cert, key }: { cert?: string | undefined; key?: string | undefined }) =>
  (cert === undefined) === (key === undefined)
const egressMembers = {
  proxy: v.optional(v.pipe(v.string(PROXY), v.check(isProxy, PROXY))),
  bypass: v.optional(
    v.pipe(v.array(v.pipe(v.string(BYPASS), v.check(isBypass, BYPASS))), v.maxLength(200)),
  ),
}
/** The way of everything that names none. */
export const egress = v.strictObject({
  ...egressMembers,
  tls: v.optional(
    v.pipe(
      v.strictObject(tlsMembers),
      v.check((tls) => hasBoth(tls), BOTH),
    ),
  ),
})
/** The way of one instance. Members that are absent are those of the top level. */
export const instanceEgress = v.optional(
  v.strictObject({
    ...egressMembers,
    tls: v.optional(
      v.pipe(
        v.strictObject({
          ...tlsMembers,
          serverName: v.optional(v.pipe(v.string('a host name'), v.minLength(1, 'a host name'))),
        }),
        v.check((tls) => hasBoth(tls), BOTH),
      ),
    ),
  }),
)

/** The certificate of the listening socket. */
export const listenerTls = v.strictObject({
  cert: pem,
  key: pem,
  passphrase: v.optional(v.string()),
})

type Egress = v.InferOutput<typeof egress>
type Tls = NonNullable<Egress['tls']>

/** The sections of a configuration with certificates. */
interface Sections {
  readonly egress: Egress
  readonly server: { readonly tls?: v.InferOutput<typeof listenerTls> | undefined }
  readonly providers: Readonly<Record<string, Instance>>
  readonly search: { readonly engines: Readonly<Record<string, Instance>> }
  readonly guards: { readonly use: readonly Instance[] }
  readonly sinks: readonly Instance[]
}

interface Instance {
  readonly egress?: v.InferOutput<typeof instanceEgress> | undefined
}

/** A network without proxies and certificates. */
export const NO_NETWORK: Network = { variables: {}, pem: new Map(), warnings: [] }

/** The proxies that variables name. */
export function networkOfEnvironment(environment: Environment): Network {
  const names = [...new Set([...Object.values(PROXY_VARIABLES).flat(), ...BYPASS_VARIABLES])]
  const set = names.flatMap((name) => (environment[name] ? [[name, environment[name]]] : []))
  return { ...NO_NETWORK, variables: Object.fromEntries(set) }
}

/** Reads variables and certificates. @returns issues at their settings, for what cannot be used */
export async function readNetwork(
  settings: Sections,
  directory: string,
  environment: Environment,
): Promise<{
  readonly network: Network
  readonly files: string[]
  readonly issues: ConfigIssue[]
}> {
  const { variables } = networkOfEnvironment(environment)
  const issues = Object.keys(variables)
    .filter((name) => !BYPASS_VARIABLES.includes(name) && !proxyUrl(variables[name]!))
    .map((path) => ({ path, message: 'expected an address such as "http://proxy.corp:3128"' }))
  const pem = new Map<string, string>()
  const files = new Set<string>()
  const warnings: string[] = []
  for (const [path, tls] of tlsOf(settings)) {
    const texts = Object.entries(tls).flatMap(([name, value]) =>
      ['ca', 'cert', 'key'].includes(name)
        ? [value].flat().map((text) => [name, text!] as const)
        : [],
    )
    const before = issues.length
    for (const [name, text] of texts) {
      if (text.includes(IN_PEM)) continue
      const file = resolve(directory, text)
      files.add(file)
      try {
        pem.set(text, await readFile(file, 'utf8'))
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException
        issues.push({ path: `${path}.${name}`, message: `${text} cannot be read (${code})` })
      }
    }
    if (issues.length > before) continue
    const read = { pem, variables, warnings }
    try {
      createSecureContext(contextOf(tls, read))
      for (const [name, text] of texts) {
        if (name !== 'key') warnings.push(...ending(`${path}.${name}`, pem.get(text) ?? text))
      }
    } catch (error) {
      const { code = 'unknown' } = error as NodeJS.ErrnoException
      const message = `the certificates cannot be used (${code}): expected texts in PEM form, and a "key" that belongs to "cert"`
      issues.push({ path, message })
    }
  }
  if (environment.NODE_TLS_REJECT_UNAUTHORIZED === '0') {
    warnings.push(
      'NODE_TLS_REJECT_UNAUTHORIZED=0 accepts any certificate, also of one who listens: egress.tls.ca takes the certificate of the server itself',
    )
  }
  return { network: { variables, pem, warnings }, files: [...files], issues }
}

/** The texts of certificates in place of their paths. */
export function contextOf(
  { ca = [], cert, key, passphrase }: Tls,
  { pem }: Network,
): { ca?: string[]; cert?: string; key?: string; passphrase?: string } {
  const textOf = (text: string) => pem.get(text) ?? text
  const own = [ca].flat().map(textOf)
  return {
    ...(own.length > 0 && { ca: own }),
    ...(cert !== undefined && { cert: textOf(cert) }),
    ...(key !== undefined && { key: textOf(key) }),
    ...(passphrase !== undefined && { passphrase }),
  }
}

/** Passwords in addresses of proxies. */
export function proxySecrets(settings: Sections, { variables }: Network): string[] {
  const own = instancesOf(settings).map(([, { egress }]) => egress?.proxy ?? '')
  return [...Object.values(variables), ...own].flatMap((text) => {
    const { password = '' } = proxyUrl(text) ?? {}
    return password === '' ? [] : [...new Set([password, decoded(password)])]
  })
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** All members `tls` of a configuration, with their paths. */
function tlsOf(settings: Sections): [string, Tls][] {
  const all = instancesOf(settings).flatMap(([path, { egress: own }]): [string, Tls][] =>
    own?.tls ? [[`${path}egress.tls`, own.tls]] : [],
  )
  const { tls } = settings.server
  return tls ? [...all, ['server.tls', { ca: [], ...tls }]] : all
}

/** Everything that has a member `egress`, with the start of its path. */
function instancesOf({ egress, providers, search, guards, sinks }: Sections) {
  const engines = Object.entries(search.engines)
  const all: (readonly [string, Instance])[] = [
    ['', { egress }],
    ...Object.entries(providers).map(([name, one]) => [`providers.${name}.`, one] as const),
    ...engines.map(([name, one]) => [`search.engines.${name}.`, one] as const),
    ...guards.use.map((one, index) => [`guards.use.${index}.`, one] as const),
    ...sinks.map((one, index) => [`sinks.${index}.`, one] as const),
  ]
  return all
}

/** A sentence for each certificate of a text that has expired, or ends soon. */
function ending(path: string, text: string): string[] {
  const certificates =
    text.match(/-----BEGIN CERTIFICATE-----[^]*?-----END CERTIFICATE-----/g) ?? []
  return certificates.flatMap((one) => {
    const { validToDate, subject } = new X509Certificate(one)
    const days = (validToDate.getTime() - Date.now()) / DAY_MS
    if (days >= SOON_DAYS) return []
    const name = subject.replaceAll('\n', ', ')
    const when = validToDate.toISOString().slice(0, 10)
    return [`${path}: the certificate of ${name} ${days < 0 ? 'has expired' : 'ends'} on ${when}`]
  })
}
