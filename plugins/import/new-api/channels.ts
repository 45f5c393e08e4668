/** Channels of new-api as providers and deployments. */
import { VENDORS, type Vendor } from '../../../providers/vendors.ts'
import type { MigrationRow } from '../../../src/plugin.ts'
import type { Settings } from '../shared/settings.ts'
import { isUnset, numberOf, rawOf, textOf, unpacked, type Raw, type Say } from '../shared/values.ts'

/** A provider instance, as the configuration has it. */
interface Instance {
  readonly use: string
  readonly options: Readonly<Record<string, unknown>>
}

/** A model of one channel. */
interface ChannelModel {
  /** The name that clients use. */
  readonly name: string
  readonly vendor: string
  readonly deployment: {
    readonly provider: string
    readonly model: string
    readonly weight?: number
  }
  /** Higher ones are asked first. */
  readonly priority: number
  /** Groups of people who are served by the channel. */
  readonly groups: ReadonlySet<string>
}

/** What is known of a type of channel. */
interface Kind {
  readonly vendor: string
  readonly use: string
  readonly line?: Vendor
}

const LINES: ReadonlyMap<number, Vendor> = new Map(
  VENDORS.flatMap((line) => (line.also?.newApi ?? []).map((type) => [type, line] as const)),
)
/** Types whose vendors have a login of their own. */
const CLOUDS: Readonly<Record<number, string>> = { 3: 'azure', 33: 'bedrock', 41: 'vertex' }
/** What is put behind the address of a channel, by vendor. */
const PATHS: Readonly<Record<string, string>> = { google: '/v1beta' }
const ENABLED = 1
/** Columns that change requests on their way. */
const OVERRIDES = ['param_override', 'header_override', 'status_code_mapping', 'setting'] as const

/** The providers of all channels. */
export class Channels {
  readonly providers: Record<string, Instance> = {}
  readonly models: ChannelModel[] = []
  /** Names of models whose channel is not served, with what would serve them. */
  readonly waiting = new Map<string, { readonly provider: string; readonly model: string }>()
  readonly #settings: Settings
  readonly #say: Say

  /** @param say receives what is not as in the source */
  constructor(settings: Settings, say: Say) {
    this.#settings = settings
    this.#say = say
  }

  /** @param number the number of the row, from 1 */
  add(row: MigrationRow, number: number): void {
    const where = `channels row ${number}`
    if (numberOf(row.status) !== ENABLED) {
      return this.#say('none', where, 'left out: it is switched off in the source')
    }
    const kind = this.#kindOf(row)
    const id = textOf(row.id) ?? String(number)
    if (typeof kind === 'string') return this.#wait(row, id, where, kind)
    for (const column of OVERRIDES) {
      if (isUnset(row[column])) continue
      this.#say(
        'differs',
        `${where}: ${column}`,
        'not mapped: requests go to the vendor as they are',
      )
    }
    const keys = keysOf(row)
    const names = keys.flatMap((key, index) => {
      const name = index === 0 ? `channel-${slug(id)}` : `channel-${slug(id)}-${index + 1}`
      const options = this.#options(kind, row, key)
      if (typeof options === 'string') {
        this.#wait(row, id, where, options)
        return []
      }
      this.providers[name] = { use: kind.use, options }
      return [name]
    })
    const groups = new Set(partsOf(row.group))
    const mapping = rawOf(unpacked(row.model_mapping))
    const weight = numberOf(row.weight) ?? 0
    for (const name of new Set(partsOf(row.models))) {
      for (const provider of names) {
        this.models.push({
          name,
          vendor: kind.vendor,
          deployment: {
            provider,
            model: mappedName(mapping, name),
            ...(weight > 0 && { weight: weight / names.length }),
          },
          priority: wholeOf(row.priority),
          groups: groups.size > 0 ? groups : new Set(['default']),
        })
      }
    }
  }

  #wait(row: MigrationRow, id: string, where: string, reason: string): void {
    this.#say(
      'unserved',
      where,
      `left out: ${reason}`,
      'its models are in models.yaml, not enabled',
    )
    for (const model of partsOf(row.models)) {
      this.waiting.set(model, { provider: `channel-${slug(id)}`, model })
    }
  }

  #kindOf(row: MigrationRow): Kind | string {
    const type = numberOf(row.type)
    const cloud = type === undefined ? undefined : CLOUDS[type]
    if (cloud !== undefined) return { vendor: cloud, use: cloud === 'vertex' ? 'google' : cloud }
    const base = textOf(row.base_url)
    const line = type === undefined ? undefined : LINES.get(type)
    // OpenAI's type with another address is any server that speaks its API.
    const isOther =
      line?.name === 'openai' && base !== undefined && !base.includes('api.openai.com')
    if (line && !isOther) return { vendor: line.name, use: line.name, line }
    if (base === undefined)
      return `channels of the type ${type ?? 'that is missing'} are not known here`
    if (!isOther) {
      const message = `served as a vendor with the API of OpenAI, because its type is not known here: check it`
      this.#say('differs', `channel ${textOf(row.id) ?? ''}`.trim(), message)
    }
    return { vendor: 'openai-compatible', use: 'openai-compatible' }
  }

  #options(kind: Kind, row: MigrationRow, key: string): Record<string, unknown> | string {
    const settings = this.#settings
    const base = textOf(row.base_url)?.replace(/\/+$/, '')
    if (kind.vendor === 'azure') {
      if (base === undefined) return 'an Azure channel needs its address'
      const version = textOf(row.other)
      return {
        baseURL: settings.address(base),
        apiKey: settings.secret(key),
        ...(version !== undefined && { surface: 'deployments', apiVersion: version }),
      }
    }
    if (kind.vendor === 'bedrock') return bedrock(key, settings)
    if (kind.vendor === 'vertex') return vertex(key, row, settings)
    const path = PATHS[kind.vendor] ?? '/v1'
    const own = base === undefined || isAddressOf(kind.line, base) ? undefined : base
    const address = own === undefined || own.endsWith(path) ? own : `${own}${path}`
    const organization = kind.vendor === 'openai' ? textOf(row.openai_organization) : undefined
    return {
      ...(address !== undefined && { baseURL: settings.address(address) }),
      ...(key !== '' && { apiKey: settings.secret(key) }),
      ...(organization !== undefined && { organization: settings.plain(organization) }),
    }
  }
}

function bedrock(key: string, settings: Settings): Record<string, unknown> | string {
  const parts = key.split('|')
  const [first, second, third] = parts
  if (parts.length === 2) return { region: second, apiKey: settings.secret(first) }
  if (parts.length !== 3) return 'the key of an AWS channel has neither two nor three parts'
  return {
    region: third,
    accessKeyId: settings.secret(first),
    secretAccessKey: settings.secret(second),
  }
}

function vertex(
  key: string,
  row: MigrationRow,
  settings: Settings,
): Record<string, unknown> | string {
  const project = textOf(rawOf(unpacked(key)).project_id)
  if (project === undefined) return 'the key of a Vertex AI channel is no service account'
  const other = unpacked(row.other)
  const location = textOf(rawOf(other).default) ?? textOf(other) ?? 'us-central1'
  return {
    vertex: {
      project: settings.plain(project),
      location: settings.plain(location),
      credentials: settings.secret(key),
    },
  }
}

/** Whether an address is the vendor's own, which the table of vendors or the plugin has. */
function isAddressOf(line: Vendor | undefined, base: string): boolean {
  if (!line || !URL.canParse(base)) return false
  const { host } = new URL(base)
  if (line.baseURL !== undefined) return new URL(line.baseURL).host === host
  return (
    host === `api.${line.name}.com` || (line.name === 'google' && host.endsWith('.googleapis.com'))
  )
}

/** Keys of a channel: one a line. A service account is one key on several lines. */
function keysOf(row: MigrationRow): string[] {
  const text = textOf(row.key) ?? ''
  if (text.startsWith('{')) return [text]
  const lines = text.split('\n').map((line) => line.trim())
  const keys = lines.filter((line) => line !== '')
  return keys.length > 0 ? keys : ['']
}

/** A mapping may lead from name to name. */
function mappedName(mapping: Raw, name: string): string {
  const seen = new Set<string>()
  let mapped = name
  for (let next = mapping[name]; typeof next === 'string' && next !== '' && !seen.has(next);) {
    seen.add(next)
    mapped = next
    next = Object.hasOwn(mapping, next) ? mapping[next] : undefined
  }
  return mapped
}

/** A whole number, which may be below 0; 0 where there is none. */
function wholeOf(value: unknown): number {
  const number = Number(textOf(value) ?? '0')
  return Number.isSafeInteger(number) ? number : 0
}

/** The parts of a list that is separated by commas. */
export function partsOf(value: unknown): string[] {
  const parts = (textOf(value) ?? '').split(',').map((part) => part.trim())
  return parts.filter((part) => part !== '')
}

function slug(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^a-z0-9_-]+/g, '-')
    .slice(0, 40)
}
