/** Provider instances for the models of a configuration: one for each vendor, address and key. */
import type { Settings } from '../shared/settings.ts'
import { isRaw, isUnset, rawOf, textOf, type Raw } from '../shared/values.ts'
import { targetOf, type Target } from './vendors.ts'

/** A provider instance, as the configuration has it. */
interface Instance {
  readonly use: string
  readonly options?: Readonly<Record<string, unknown>>
}

/** Where a model is served. */
export interface Served {
  readonly target: Target
  /** Name of the instance. */
  readonly provider: string
  /** Options of the deployment. */
  readonly options: Readonly<Record<string, unknown>>
}

/** Members of `litellm_params` that an instance is made of. */
export const INSTANCE_MEMBERS: ReadonlySet<string> = new Set([
  'model',
  'custom_llm_provider',
  'api_base',
  'base_url',
  'api_key',
  'api_version',
  'organization',
  'extra_headers',
  'headers',
  'aws_region_name',
  'aws_access_key_id',
  'aws_secret_access_key',
  'aws_session_token',
  'aws_profile_name',
  'aws_role_name',
  'aws_session_name',
  'aws_external_id',
  'vertex_project',
  'vertex_location',
  'vertex_credentials',
])

/** Versions of Azure's API that are dates belong to its older surface. */
const DATED = /^\d{4}-\d\d-\d\d/

/** The instances of a configuration. */
export class Instances {
  readonly byName = new Map<string, Instance>()
  /** Variables with the keys of vendors, which the configuration does not name. */
  readonly variables = new Set<string>()
  readonly #settings: Settings
  readonly #names = new Map<string, string>()

  constructor(settings: Settings) {
    this.#settings = settings
  }

  /**
   * The instance for these parameters of a model.
   * @param unused called with each parameter that the vendor's plugin has no setting for
   * @returns a text that says why there is none
   */
  serve(params: Raw, unused: (name: string) => void): Served | string {
    const name = textOf(params.model)
    if (name === undefined) return 'it names no model'
    const base = params.api_base ?? params.base_url
    const target = targetOf(name, textOf(params.custom_llm_provider), textOf(base))
    if (typeof target === 'string') return target
    const used = new Set(['model', 'custom_llm_provider', 'api_base', 'base_url'])
    const take = (member: string) => {
      used.add(member)
      return params[member]
    }
    const options = this.#options(target, base, take)
    if (typeof options === 'string') return options
    for (const member of INSTANCE_MEMBERS) {
      if (!used.has(member) && !isUnset(params[member])) unused(member)
    }
    const version = target.kind === 'azure' ? this.#settings.plain(params.api_version) : undefined
    return {
      target,
      provider: this.#instance(target.vendor, {
        use: target.use,
        ...(Object.keys(options).length > 0 && { options }),
      }),
      options: {
        ...(version !== undefined && { apiVersion: version }),
        ...(target.responses && { api: 'responses' }),
      },
    }
  }

  #options(
    target: Target,
    base: unknown,
    take: (member: string) => unknown,
  ): Record<string, unknown> | string {
    const headers = this.#headers(take('extra_headers'), take('headers'))
    const own: Record<string, unknown> = { ...target.options, ...(headers && { headers }) }
    switch (target.kind) {
      case 'bedrock':
        return { ...own, ...this.#bedrock(base, take) }
      case 'vertex':
        return compact({ ...own, ...this.#vertex(base, take) })
      case 'azure':
        return this.#azure(target, own, base, take)
      case 'hosted':
        return this.#hosted(target, own, base, take)
    }
  }

  /** Models of a vendor of the table, which knows address and key, or of an address of one's own. */
  #hosted(
    { line, use }: Target,
    own: Record<string, unknown>,
    base: unknown,
    take: (member: string) => unknown,
  ): Record<string, unknown> | string {
    const apiKey = this.#settings.secret(take('api_key'))
    const baseURL = this.#settings.address(base)
    if (line === undefined) {
      return baseURL === undefined ? 'it has no api_base' : compact({ ...own, baseURL, apiKey })
    }
    const [variable] = line.variables
    if (apiKey === undefined && variable !== undefined && baseURL === undefined) {
      this.variables.add(variable)
    }
    const organization = use === 'openai' ? this.#settings.plain(take('organization')) : undefined
    return compact({ ...own, baseURL: withPath(line, baseURL), apiKey, organization })
  }

  #azure(
    { vendor }: Target,
    own: Record<string, unknown>,
    base: unknown,
    take: (member: string) => unknown,
  ): Record<string, unknown> {
    const settings = this.#settings
    const variables = vendor === 'azure' ? 'AZURE' : 'AZURE_AI'
    const version = textOf(take('api_version'))
    const isDated = vendor === 'azure' && version !== undefined && DATED.test(version)
    return compact({
      ...own,
      baseURL: settings.address(base) ?? `\${${variables}_API_BASE}`,
      apiKey: settings.secret(take('api_key')) ?? `\${${variables}_API_KEY}`,
      surface: isDated ? 'deployments' : own.surface,
    })
  }

  #vertex(base: unknown, take: (member: string) => unknown): Record<string, unknown> {
    const settings = this.#settings
    const credentials = take('vertex_credentials')
    const isPath = typeof credentials === 'string' && !/^\s*\{/.test(credentials)
    const text = isRaw(credentials) ? JSON.stringify(credentials) : credentials
    return {
      baseURL: settings.address(base),
      vertex: compact({
        project: settings.plain(take('vertex_project')) ?? '${VERTEXAI_PROJECT}',
        location: settings.plain(take('vertex_location')) ?? '${VERTEXAI_LOCATION}',
        credentials: isPath ? settings.plain(text) : settings.secret(text),
      }),
    }
  }

  #bedrock(base: unknown, take: (member: string) => unknown): Record<string, unknown> {
    const settings = this.#settings
    const apiKey = settings.secret(take('api_key'))
    const accessKeyId = settings.secret(take('aws_access_key_id'))
    const secretAccessKey = settings.secret(take('aws_secret_access_key'))
    const sessionToken = settings.secret(take('aws_session_token'))
    const keys = accessKeyId !== undefined && secretAccessKey !== undefined
    const shared = {
      region: settings.plain(take('aws_region_name')) ?? '${AWS_REGION_NAME}',
      baseURL: settings.address(base),
    }
    if (apiKey !== undefined) return compact({ ...shared, apiKey })
    if (keys) return compact({ ...shared, accessKeyId, secretAccessKey, sessionToken })
    return compact({
      ...shared,
      credentials: 'chain',
      profile: settings.plain(take('aws_profile_name')),
      roleArn: settings.plain(take('aws_role_name')),
      sessionName: settings.plain(take('aws_session_name')),
      externalId: settings.secret(take('aws_external_id')),
    })
  }

  #headers(...given: readonly unknown[]): Record<string, string> | undefined {
    const headers = given.flatMap((value) => Object.entries(rawOf(value)))
    if (headers.length === 0) return undefined
    // Any of them may hold a secret.
    return Object.fromEntries(
      headers.flatMap(([name, value]) => {
        const secret = this.#settings.secret(value)
        return secret === undefined ? [] : [[name, secret]]
      }),
    )
  }

  #instance(vendor: string, instance: Instance): string {
    const key = JSON.stringify([vendor, instance])
    let name = this.#names.get(key)
    if (name === undefined) {
      name = vendor
      for (let n = 2; this.byName.has(name); n++) name = `${vendor}-${n}`
      this.#names.set(key, name)
      this.byName.set(name, instance)
    }
    return name
  }
}

/**
 * The address of a server of the operator's own. LiteLLM adds the version to that of Ollama, and has one for llamafile.
 * @param base absent where the table of vendors has one, or a variable
 */
function withPath(
  { name, local, address, baseURL }: NonNullable<Target['line']>,
  base: string | undefined,
): string | undefined {
  if (base === undefined) {
    const variable = address?.at(-1)
    if (!local || variable === undefined || baseURL !== undefined) return undefined
    return name === 'llamacpp' ? `\${${variable}:-http://127.0.0.1:8080/v1}` : `\${${variable}}`
  }
  if (name !== 'ollama' || base.endsWith('/v1')) return base
  return `${base.replace(/\/+$/, '')}/v1`
}

/** Leaves out members that are undefined. */
function compact(members: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))
}
