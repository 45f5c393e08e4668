/**
 * Schema of the configuration: strict sections with their defaults. Durations are seconds, fractions allowed; sizes are
 * bytes or texts such as `50mib`.
 */
import { isZone } from '../state/ledger/zone.ts'
import { isIP } from 'node:net'
import * as v from 'valibot'
import { driverIssue } from '../answers/drivers.ts'
import { duration, modelsSchema, price, priceShare, MAX_SECONDS } from '../models/entry.ts'
import { accountPricesSchema } from '../models/account-prices.ts'
import { factor, markup } from '../models/markup.ts'
import { fallbacksSchema } from '../models/fallback-list.ts'
import { egress, instanceEgress, listenerTls } from './network.ts'
import { isLoopback } from '../errors/addresses.ts'
import { isObject } from '../errors/checks.ts'
import { CHECKED, hasValidChecksum, isSecret, SECRET } from '../accounts/secrets.ts'
import { parsePico } from '../money/money.ts'
import type { GuardPlugin, PaymentsPlugin, ProviderPlugin, SearchPlugin } from '../plugin.ts'
import { accountSeed } from '../server/admin/resources/account.ts'
import { partyAddress, partyText, taxRate } from '../server/admin/resources/statement.ts'
import { keySeed, secretHash } from '../server/admin/resources/key.ts'
import { teamSeed } from '../server/admin/resources/team.ts'
import { operatorRole } from '../server/admin/resources/session.ts'
import {
  instanceName as name,
  recordId,
  usd,
  usdOrNothing,
} from '../server/admin/resources/settings.ts'
import { ALERT_KINDS } from '../observe/alerts.ts'

// Schemas of single values of the configuration.

const UNITS: Readonly<Record<string, number>> = {
  b: 1,
  kb: 1000,
  mb: 1_000_000,
  gb: 1_000_000_000,
  kib: 1024,
  mib: 1_048_576,
  gib: 1_073_741_824,
}
const SIZE = 'a size such as "50mib", or a number of bytes'
/** A size in bytes, or a text such as `50mib`. */
const size = v.pipe(
  v.union([v.string(), v.number()], SIZE),
  v.rawTransform(({ dataset: { value }, addIssue, NEVER }) => {
    const bytes = toBytes(value)
    if (Number.isSafeInteger(bytes) && bytes > 0) return bytes
    addIssue({ message: SIZE })
    return NEVER
  }),
)

const PAUSE = `a number of seconds from 0 to ${MAX_SECONDS}`
/** Seconds that may be none. */
const pause = v.pipe(v.number(PAUSE), v.minValue(0, PAUSE), v.maxValue(MAX_SECONDS, PAUSE))

const COUNT = 'a whole number above 0'
/** A whole number above 0. */
const count = v.pipe(v.number(COUNT), v.safeInteger(COUNT), v.minValue(1, COUNT))

/** true or false. */
const FLAG = v.boolean('true or false')

/** Text that is not empty. */
function text(expected: string) {
  return v.pipe(v.string(expected), v.minLength(1, expected))
}

/** A whole number from `min` to `max`. */
function number(min: number, max: number, expected: string) {
  return v.pipe(
    v.number(expected),
    v.integer(expected),
    v.minValue(min, expected),
    v.maxValue(max, expected),
  )
}

/** A size in bytes; NaN for a text that is no size. */
function toBytes(value: string | number): number {
  if (typeof value === 'number') return value
  const match = /^(\d{1,15}(?:\.\d{1,6})?)\s*([a-z]*)$/i.exec(value.trim())
  return match ? Math.round(Number(match[1]) * (UNITS[match[2]!.toLowerCase() || 'b'] ?? NaN)) : NaN
}

// Settings of what others are told: sinks, traces, alerts, and metrics of money.

const SINK = 'the name or path of a plugin'
/** One sink. */
const sink = v.strictObject({
  use: text(SINK),
  name: v.optional(name),
  options: v.optional(v.record(v.string(), v.unknown()), {}),
  egress: instanceEgress,
})

const RATIO = 'a number from 0 to 1'
/** What traces are made of, and of which calls. */
const telemetry = v.strictObject({
  semconv: v.optional(v.picklist(['v1.41', 'genai-dev']), 'v1.41'),
  service: v.optional(text('a name'), 'sluicegate'),
  ratio: v.optional(v.pipe(v.number(RATIO), v.minValue(0, RATIO), v.maxValue(1, RATIO)), 1),
  slow: v.optional(duration, 30),
  content: v.optional(v.boolean('true or false'), false),
})

/** Which alerts are raised, and the balance that is low where an account has no bound of its own. */
const alerts = v.strictObject({
  balance: v.optional(v.pipe(usdOrNothing, v.transform(parsePico)), '1'),
  off: v.optional(v.array(v.picklist(ALERT_KINDS)), []),
})

const MONEY = 'false, or an object with "top"'
/** Gauges of money, which are off because their labels are accounts and keys. */
const metrics = v.strictObject({
  money: v.optional(
    v.union(
      [
        v.literal(false),
        v.strictObject({ top: v.optional(number(1, 1000, 'a whole number from 1 to 1000'), 50) }),
      ],
      MONEY,
    ),
    false,
  ),
})

const limits = v.strictObject({
  chat: v.optional(size, '50mib'),
  image: v.optional(size, '8mib'),
  document: v.optional(size, '50mib'),
  audio: v.optional(size, '25mib'),
  files: v.optional(count, 16),
  ratio: v.optional(count, 100),
  // Serialising is recursive, and fails at ten thousand levels.
  depth: v.optional(number(1, 1000, 'a whole number from 1 to 1000'), 128),
  containers: v.optional(count, 100_000),
  values: v.optional(count, 500_000),
  literal: v.optional(count, 1_024),
  key: v.optional(count, 65_536),
  bodyMemory: v.optional(size),
})

const WORKERS = 'a whole number from 1 to 256, or "auto"'

const BASE_PATH =
  'a path such as "/ai/llm": at most four segments of letters, digits, ".", "_", "~" and "-", and none of the gateway\'s own first'
/** First segments of the gateway's own paths. */
const OWN_PATHS: ReadonlySet<string> = new Set(
  'v1 admin console me login payments metrics openapi.json livez readyz startupz health'.split(' '),
)
const isBasePath = (path: string) =>
  /^(?:\/(?!\.{1,2}(?:\/|$))[\w.~-]{1,64}){1,4}$/.test(path) && !OWN_PATHS.has(path.split('/')[1]!)

const PUBLIC_URL =
  'the address that clients use, such as "https://llm.example.com/ai": https, or http on this machine, and without a query'
const isPublicUrl = (text: string) => {
  const url = URL.parse(text)
  if (!url || url.search !== '' || url.hash !== '' || url.username !== '') return false
  const isWeb = url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url))
  const path = url.pathname.replace(/\/$/, '')
  return isWeb && (path === '' || isBasePath(path))
}

const NETWORK = 'an address, or a network such as "10.0.0.0/8"'
const network = v.pipe(v.string(NETWORK), v.check(isNetwork, NETWORK))

const server = v.pipe(
  v.strictObject({
    host: v.optional(text('a host name or address'), '127.0.0.1'),
    port: v.optional(number(0, 65_535, 'a port from 0 to 65535'), 8787),
    workers: v.optional(v.union([number(1, 256, WORKERS), v.literal('auto', WORKERS)], WORKERS), 1),
    requestTimeout: v.optional(duration, 590),
    streamTimeout: v.optional(duration, 3600),
    bodyTimeout: v.optional(duration, 60),
    keepAlive: v.optional(duration, 15),
    headTimeout: v.optional(duration, 10),
    shutdownDelay: v.optional(pause, 0),
    shutdownGrace: v.optional(pause, 30),
    basePath: v.optional(v.pipe(v.string(BASE_PATH), v.check(isBasePath, BASE_PATH))),
    publicUrl: v.optional(
      v.pipe(
        v.string(PUBLIC_URL),
        v.check(isPublicUrl, PUBLIC_URL),
        v.transform((url) => url.replace(/\/$/, '')),
      ),
    ),
    trustedProxies: v.optional(v.array(network), []),
    limits: v.optional(limits, {}),
    modelsByKey: v.optional(FLAG, true),
    tls: v.optional(listenerTls),
  }),
  v.check(
    ({ basePath, publicUrl }) =>
      basePath === undefined || publicUrl === undefined || basePath === pathOf(publicUrl),
    'a basePath that is the path of publicUrl',
  ),
  v.transform((server) => ({ ...server, basePath: server.basePath ?? pathOf(server.publicUrl) })),
)

/** Whether a network has so many addresses that trusting it is a mistake. */
function isWide(text: string): boolean {
  const [base = '', bits] = text.split('/')
  return bits !== undefined && Number(bits) < (isIP(base) === 4 ? 8 : 16)
}

/** The path of an address, without a slash at its end. */
function pathOf(url: string | undefined): string {
  return url === undefined ? '' : new URL(url).pathname.replace(/\/$/, '')
}

/** Whether a text is an address, or a network in the form of a prefix. */
function isNetwork(text: string): boolean {
  const [, base = '', bits] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? []
  const family = isIP(base)
  return family !== 0 && Number(bits ?? 0) <= (family === 4 ? 32 : 128)
}

const SHARE = 'a number from 0 to 1'
const share = v.pipe(v.number(SHARE), v.minValue(0, SHARE), v.maxValue(1, SHARE))

const DAYS = 'a whole number of days from 1 to 3650'
const content = v.strictObject({
  enabled: v.optional(FLAG, false),
  keep: v.optional(number(1, 3650, DAYS), 7),
  sample: v.optional(share, 1),
})

const NODES = 'an address such as "redis://localhost:6379"; of a cluster, a list of them'
/** One server, or nodes of a cluster. */
const nodes = v.union([text(NODES), v.pipe(v.array(text(NODES)), v.minLength(1, NODES))], NODES)

const log = v.strictObject({
  level: v.optional(v.picklist(['silent', 'error', 'warn', 'info', 'debug', 'trace']), 'info'),
  format: v.optional(v.picklist(['pretty', 'json']), 'pretty'),
  access: v.optional(FLAG, true),
  requests: v.optional(FLAG, true),
  usage: v.optional(FLAG, true),
  holders: v.optional(FLAG, true),
  users: v.optional(v.picklist(['plain', 'hash', 'none']), 'plain'),
  address: v.optional(v.picklist(['none', 'truncated', 'full']), 'none'),
  path: v.optional(text('a path')),
  keep: v.optional(number(1, 3650, DAYS), 40),
  size: v.optional(size, '2gib'),
  url: v.optional(nodes),
  content: v.optional(content, {}),
})

const RETENTION = 'a whole number of days from 2 to 36500'
const archive = v.union([
  v.literal(false),
  v.strictObject({
    path: v.optional(text('a path')),
    keep: v.optional(number(1, 36_500, 'a whole number of days from 1 to 36500'), 400),
    size: v.optional(size, '1gib'),
  }),
])
const state = v.variant('driver', [
  v.strictObject({ driver: v.literal('memory') }),
  v.strictObject({
    driver: v.optional(v.literal('file'), 'file'),
    path: v.optional(text('a path'), './data'),
    retention: v.optional(number(2, 36_500, RETENTION)),
    archive: v.optional(archive, {}),
    copies: v.optional(number(2, 366, 'a whole number of copies from 2 to 366')),
  }),
  v.strictObject({
    driver: v.literal('redis'),
    url: nodes,
    outbox: v.optional(text('a path'), './outbox'),
    outboxLimit: v.optional(size, '1gib'),
    outboxKept: v.optional(FLAG, true),
    retention: v.optional(number(2, 36_500, RETENTION), 31),
    archive: v.optional(archive, {}),
  }),
])

const PLUGIN = 'the name or path of a plugin, or a plugin object'
const provider = v.strictObject({
  use: v.union([text(PLUGIN), v.custom<ProviderPlugin>(isObject)], PLUGIN),
  options: v.optional(v.record(v.string(), v.unknown()), {}),
  egress: instanceEgress,
  timeout: v.optional(duration, 300),
  firstPartTimeout: v.optional(duration, 60),
  idleTimeout: v.optional(duration, 120),
  connections: v.optional(count, 256),
  markup: v.optional(markup),
  cost: v.optional(v.strictObject({ factor })),
  privateUrls: v.optional(FLAG, false),
  passes: v.optional(v.array(v.string()), []),
  forwardTrace: v.optional(FLAG, false),
  maxAnswer: v.optional(size, '64mib'),
  maxStream: v.optional(size, '256mib'),
})

const search = v.strictObject({
  default: v.optional(name),
  engines: v.optional(
    v.record(
      name,
      v.strictObject({
        use: v.union([text(PLUGIN), v.custom<SearchPlugin>(isObject)], PLUGIN),
        options: v.optional(v.record(v.string(), v.unknown()), {}),
        egress: instanceEgress,
        price,
        cost: v.optional(price),
        timeout: v.optional(duration, 5),
      }),
    ),
    {},
  ),
  onError: v.optional(v.picklist(['ignore', 'fail']), 'ignore'),
})

const guardPlugin = v.strictObject({
  use: v.union([text(PLUGIN), v.custom<GuardPlugin>(isObject)], PLUGIN),
  name: v.optional(name),
  options: v.optional(v.record(v.string(), v.unknown()), {}),
  egress: instanceEgress,
  applies: v.optional(v.picklist(['with-rules', 'selected', 'always']), 'with-rules'),
  mode: v.optional(v.picklist(['block', 'monitor']), 'block'),
  billing: v.optional(v.picklist(['account', 'operator']), 'account'),
  mask: v.optional(v.picklist(['off', 'keys', 'always']), 'off'),
})
const WEB_ADDRESS = 'an address that begins with https:// or http://'
const guards = v.strictObject({
  use: v.optional(v.array(guardPlugin), [{ use: 'pii' }, { use: 'categories' }]),
  overlapInput: v.optional(FLAG, false),
  billMonitor: v.optional(FLAG, false),
  evidence: v.optional(v.picklist(['none', 'hash', 'text']), 'hash'),
  escalate: v.optional(
    v.strictObject({
      url: v.pipe(v.string(WEB_ADDRESS), v.url(WEB_ADDRESS), v.regex(/^https?:/i, WEB_ADDRESS)),
      headers: v.optional(v.record(v.string(), v.string()), {}),
      secret: v.optional(v.string()),
    }),
  ),
  limits: v.optional(
    v.strictObject({
      maxHeld: v.optional(size, '64kib'),
      maxBuffer: v.optional(size, '4mib'),
      maxToolCall: v.optional(size, '256kib'),
    }),
    {},
  ),
  deadlines: v.optional(
    v.strictObject({
      input: v.optional(duration, 4),
      output: v.optional(duration, 3),
      stall: v.optional(duration, 20),
    }),
    {},
  ),
})

const CURRENCY = 'the code of a currency in lower case, such as "eur"'
const RATE = 'the price of 1 USD of credit as decimal text above 0, such as "0.92"'
const isRate = (text: string) => /^\d{1,6}(\.\d{1,12})?$/.test(text) && parsePico(text) > 0n
/** Where customers pay for credit; absent where they do not. */
const payments = v.pipe(
  v.strictObject({
    use: v.union([text(PLUGIN), v.custom<PaymentsPlugin>(isObject)], PLUGIN),
    options: v.optional(v.record(v.string(), v.unknown()), {}),
    egress: instanceEgress,
    currency: v.optional(v.pipe(v.string(CURRENCY), v.regex(/^[a-z]{3}$/, CURRENCY)), 'usd'),
    rate: v.optional(v.pipe(v.string(RATE), v.check(isRate, RATE)), '1'),
    amounts: v.optional(v.array(usd), ['10', '25', '100']),
    min: v.optional(usd, '5'),
    max: v.optional(usd, '1000'),
    holders: v.optional(FLAG, true),
  }),
  v.check(({ min, max }) => parsePico(min) <= parsePico(max), 'a "min" that is at most "max"'),
  v.check(
    ({ min, max, amounts }) =>
      amounts.every((one) => parsePico(one) >= parsePico(min) && parsePico(one) <= parsePico(max)),
    '"amounts" from "min" to "max"',
  ),
)

const fetch = v.strictObject({
  enabled: v.optional(FLAG, true),
  limit: v.optional(size, '50mib'),
  timeout: v.optional(duration, 20),
})

const ZONE = 'the name of a time zone, such as "Europe/Berlin"'

const defaults = v.strictObject({
  limits: v.optional(
    v.strictObject({ rpm: v.optional(count, 600), concurrency: v.optional(count, 30) }),
    {},
  ),
  freeTier: v.optional(
    v.strictObject({
      rpm: v.optional(count, 20),
      perDay: v.optional(count, 200),
      concurrency: v.optional(count, 5),
    }),
    {},
  ),
  timeZone: v.optional(v.pipe(v.string(ZONE), v.check(isZone, ZONE)), 'UTC'),
})

const HOLD = '"adaptive" or "ceiling"'

const PATIENCE = 'a number of seconds from 0 to 30'
const billing = v.strictObject({
  hold: v.optional(v.picklist(['adaptive', 'ceiling'], HOLD), 'adaptive'),
  exposure: v.optional(
    v.strictObject({
      share: v.optional(share, 0.25),
      most: v.optional(v.pipe(usdOrNothing, v.transform(parsePico)), '10'),
    }),
    {},
  ),
  onDisconnect: v.optional(v.picklist(['cancel', 'drain']), 'cancel'),
  patience: v.optional(
    v.pipe(v.number(PATIENCE), v.minValue(0, PATIENCE), v.maxValue(30, PATIENCE)),
    2,
  ),
  // They have no effect: answers are read on to their report.
  drainSeconds: v.optional(v.unknown()),
  drainBytes: v.optional(v.unknown()),
  mostPerCall: v.optional(v.pipe(usd, v.transform(parsePico)), '1000'),
})

const REMEMBER = 'a number of seconds from 0 to 3600'
const responses = v.strictObject({
  remember: v.optional(
    v.pipe(v.number(REMEMBER), v.minValue(0, REMEMBER), v.maxValue(3600, REMEMBER)),
    900,
  ),
})

const KEEP = 'a duration such as "24h", from 1m to 47h'
const keep = v.pipe(
  v.union([v.string(KEEP), v.number(KEEP)], KEEP),
  v.transform(toSeconds),
  v.number(KEEP),
  v.minValue(60, KEEP),
  v.maxValue(47 * 3600, KEEP),
)
const MOST = 'a size from 1kib to 8mib'
/** Seconds of a number, or of a text such as `24h`; NaN for a text that is no duration. */
function toSeconds(value: string | number): number {
  if (typeof value === 'number') return value
  const [, amount, unit] = /^(\d{1,6})([smh])$/.exec(value.trim()) ?? []
  return unit === undefined ? NaN : Number(amount) * { s: 1, m: 60, h: 3600 }[unit]!
}

const idempotency = v.strictObject({
  enabled: v.optional(FLAG, true),
  keep: v.optional(keep, '24h'),
  most: v.optional(v.pipe(size, v.minValue(1024, MOST), v.maxValue(8 * 1_048_576, MOST)), '1mib'),
})

const KEPT = 'a duration from 10 s to 7 d, such as "24h" or 3600'
const WAITS = 'a number of seconds from 0 to 600'
const TIMELY = 'a number of seconds from 0.01 to 5'
const MOST_ENTRY = 'at most 16 MiB'
const store = v.pipe(
  v.looseObject({ driver: text('the name of a driver') }),
  v.rawCheck(({ dataset, addIssue }) => {
    const message = dataset.typed ? driverIssue(dataset.value) : undefined
    if (message) addIssue({ message })
  }),
)
/** Answers that equal requests get again; absent where none are stored. */
const answers = v.strictObject({
  store: v.optional(store, { driver: 'lru-cache' }),
  maxSize: v.optional(size),
  maxEntry: v.optional(v.pipe(size, v.maxValue(16 * 1_048_576, MOST_ENTRY)), '1mib'),
  ttl: v.optional(
    v.pipe(
      v.union([v.string(), v.number()], KEPT),
      v.transform(toSeconds),
      v.minValue(10, KEPT),
      v.maxValue(604_800, KEPT),
    ),
    3600,
  ),
  scope: v.optional(v.picklist(['account', 'key'], '"account" or "key"'), 'account'),
  price: v.optional(priceShare, '0'),
  wait: v.optional(v.pipe(v.number(WAITS), v.minValue(0, WAITS), v.maxValue(600, WAITS)), 30),
  timeout: v.optional(
    v.pipe(v.number(TIMELY), v.minValue(0.01, TIMELY), v.maxValue(5, TIMELY)),
    0.25,
  ),
})

const PREFIX = 'at most 20 letters, digits, "-" and "_"'

const prices = v.strictObject({
  packaged: v.optional(FLAG, true),
  markup: v.optional(markup, '1'),
  lists: v.optional(accountPricesSchema(name), {}),
})

/** What statements of accounts say of who sells. */
const statements = v.strictObject({
  seller: v.optional(
    v.strictObject({
      name: partyText,
      address: partyAddress,
      email: v.optional(partyText),
      tax_id: v.optional(partyText),
      web: v.optional(partyText),
    }),
  ),
  prefix: v.optional(v.pipe(v.string(PREFIX), v.regex(/^[\w-]{0,20}$/, PREFIX)), 'S-'),
  tax: v.optional(
    v.strictObject({
      name: partyText,
      rate: taxRate,
      included: v.optional(FLAG, false),
      note: v.optional(partyText),
    }),
  ),
  footer: v.optional(partyText),
})

const names = v.strictObject({
  bare: v.optional(FLAG, true),
  prefer: v.optional(v.array(text('the name of a vendor'), 'a list of names of vendors'), []),
})

const routing = v.strictObject({
  attempts: v.optional(number(1, 10, 'a whole number from 1 to 10'), 3),
  cooldown: v.optional(pause, 30),
  fallbacks: v.optional(fallbacksSchema),
})

const METRICS = '"admin", "public" or false'
const HOST = 'a host name in lower case, without a port'
const IDLE = 'a number of seconds from 300 to 2592000'
const LIFETIME = 'a number of seconds from 3600 to 7776000'
/** How long sessions last: without use, and in all. */
const sessions = (idle: number, lifetime: number) =>
  v.strictObject({
    idle: v.optional(number(300, 2_592_000, IDLE), idle),
    lifetime: v.optional(number(3600, 7_776_000, LIFETIME), lifetime),
  })

const CLAIM_VALUES = 'a list of values of the claim'
const claimRule = {
  claim: text('the name of a claim, such as "groups"'),
  values: v.pipe(v.array(v.string(CLAIM_VALUES), CLAIM_VALUES), v.minLength(1, CLAIM_VALUES)),
}
const roleRules = v.optional(v.array(v.strictObject({ ...claimRule, role: operatorRole })), [])
/** People of accounts, who make keys themselves. */
const members = v.strictObject({
  enabled: v.optional(FLAG, true),
  sessions: v.optional(sessions(2_592_000, 7_776_000), {}),
  keys: v.optional(number(0, 100, 'a whole number from 0 to 100'), 5),
  join: v.optional(
    v.array(
      v.strictObject({
        provider: name,
        ...claimRule,
        account: text('the id of an account'),
        team: v.optional(text('the id of a team of the account')),
        manages: v.optional(FLAG, false),
      }),
    ),
    [],
  ),
})

const ISSUER = 'the https address of a provider; http on this machine'
const isIssuer = (text: string) => {
  const url = URL.parse(text)
  return url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url))
}
const HEADER =
  'the name of a header in lower case, other than authorization, cookie, host and x-forwarded-for'
const header = v.pipe(
  v.string(HEADER),
  v.check(
    (name) =>
      /^[a-z0-9-]{1,100}$/.test(name) &&
      !/^(?:authorization|cookie|host|x-forwarded-for.*)$/.test(name),
    HEADER,
  ),
)
const PEER = 'the address of a proxy, or a network of at most /8, or /16 of IPv6'
const peer = v.pipe(
  v.string(PEER),
  v.check((text) => isNetwork(text) && !isWide(text), PEER),
)
const PROVIDERS = 'at most five providers'

/** How operators sign in without a token. */
const login = v.strictObject({
  oidc: v.optional(
    v.pipe(
      v.record(
        name,
        v.strictObject({
          label: v.optional(text('a text')),
          issuer: v.pipe(v.string(ISSUER), v.check(isIssuer, ISSUER)),
          clientId: text('the id of the gateway at the provider'),
          clientSecret: v.optional(text('a text')),
          scopes: v.optional(v.array(text('a scope')), ['openid', 'profile', 'email']),
          userinfo: v.optional(FLAG, false),
          members: v.optional(FLAG, false),
          roles: roleRules,
        }),
      ),
      v.check((providers) => Object.keys(providers).length <= 5, PROVIDERS),
    ),
    {},
  ),
  proxy: v.optional(
    v.strictObject({
      from: v.pipe(v.array(peer), v.minLength(1, 'at least one address')),
      user: v.optional(header, 'x-forwarded-user'),
      email: v.optional(header),
      groups: v.optional(header),
      signOut: v.optional(text('a path or an address')),
      roles: roleRules,
    }),
  ),
})

const CONTACT = 'a text of 1 to 200 characters'
const adminToken = v.pipe(v.string(), v.minLength(8, 'a token of at least 8 characters'))
const admin = v.pipe(
  v.strictObject({
    enabled: v.optional(FLAG, true),
    token: v.optional(adminToken),
    tokens: v.optional(
      v.array(
        v.strictObject({
          name,
          token: adminToken,
          role: operatorRole,
        }),
      ),
      [],
    ),
    metrics: v.optional(
      v.union([v.literal('admin'), v.literal('public'), v.literal(false)], METRICS),
      'admin',
    ),
    console: v.optional(FLAG, true),
    sessions: v.optional(sessions(43_200, 604_800), {}),
    login: v.optional(login, {}),
    members: v.optional(members, {}),
    contact: v.optional(v.pipe(text(CONTACT), v.maxLength(200, CONTACT))),
    hosts: v.optional(v.array(v.pipe(v.string(HOST), v.regex(/^[a-z0-9.-]{1,253}$/, HOST))), []),
  }),
  v.transform((admin) => (admin.enabled ? admin : withoutAdmin(admin))),
)

const seedKey = v.pipe(
  v.strictObject({
    id: recordId,
    name: v.string(),
    sha256: v.optional(secretHash),
    secret: v.optional(
      v.pipe(v.string(SECRET), v.check(isSecret, SECRET), v.check(hasValidChecksum, CHECKED)),
    ),
    ...keySeed,
  }),
  v.check(
    (key) => (key.sha256 === undefined) !== (key.secret === undefined),
    'either "sha256" or "secret"',
  ),
)

const seedTeam = v.strictObject({ id: recordId, name: v.string(), ...teamSeed })

const seed = v.strictObject({
  manage: v.optional(FLAG, false),
  accounts: v.optional(
    v.array(
      v.strictObject({
        id: recordId,
        name: v.string(),
        credits: v.optional(usd),
        ...accountSeed,
        teams: v.optional(v.array(seedTeam), []),
        keys: v.optional(v.array(seedKey), []),
      }),
    ),
    [],
  ),
})

/** Schema of the whole configuration; `models` holds entries, not the path of a file. */
export const configSchema = v.strictObject({
  extends: v.optional(v.literal('starter', '"starter"')),
  server: v.optional(server, {}),
  log: v.optional(log, {}),
  state: v.optional(state, {}),
  providers: v.optional(v.record(name, provider), {}),
  models: v.optional(modelsSchema, {}),
  prices: v.optional(prices, {}),
  statements: v.optional(statements, {}),
  names: v.optional(names, {}),
  search: v.optional(search, {}),
  guards: v.optional(guards, {}),
  payments: v.optional(payments),
  fetch: v.optional(fetch, {}),
  egress: v.optional(egress, {}),
  defaults: v.optional(defaults, {}),
  billing: v.optional(billing, {}),
  routing: v.optional(routing, {}),
  responses: v.optional(responses, {}),
  idempotency: v.optional(idempotency, {}),
  answers: v.optional(answers),
  admin: v.optional(admin, {}),
  metrics: v.optional(metrics, {}),
  alerts: v.optional(alerts, {}),
  telemetry: v.optional(telemetry, {}),
  sinks: v.optional(v.array(sink), []),
  seed: v.optional(seed, {}),
  managed: v.optional(FLAG, true),
})

/** The sections with their defaults. */
export type Settings = v.InferOutput<typeof configSchema>

/** There is no admin API without tokens; without the API no console, and no metrics for holders of a token. */
function withoutAdmin<Admin extends { metrics: 'admin' | 'public' | false }>({
  metrics,
  ...admin
}: Admin) {
  return {
    ...admin,
    metrics: metrics === 'admin' ? (false as const) : metrics,
    token: undefined,
    tokens: [],
    login: { oidc: {} },
    console: false,
  }
}
