/** Sections of a configuration beside its models. */
import type { Harm } from '../../../src/plugin.ts'
import type { Settings } from '../shared/settings.ts'
import {
  isRaw,
  isUnset,
  listOf,
  numberOf,
  rawOf,
  textOf,
  type Raw,
  type Say,
} from '../shared/values.ts'

/** The note about a member that has no place in the result. */
type Finding = readonly [harm: Harm, message: string, remedy?: string]

/** Members that `answers.ts` reads. */
const OF_ANSWERS =
  /^((default_|context_window_|content_policy_)?fallbacks|cache(_params|_responses)?)$/
const REDIS: Finding = ['elsewhere', 'set "state" to the driver "redis" for several processes']
const ROUTER_ONLY: Finding = ['none', 'a failing deployment rests as "routing" says']

const ROUTER: Readonly<Record<string, Finding>> = {
  provider_budget_config: [
    'wider',
    'budgets of vendors are not kept here: keys and accounts have caps',
  ],
  redis_host: REDIS,
  redis_port: REDIS,
  redis_password: REDIS,
  redis_url: REDIS,
  allowed_fails: ROUTER_ONLY,
  retry_policy: ROUTER_ONLY,
  allowed_fails_policy: ROUTER_ONLY,
  enable_pre_call_checks: ['lost', 'a prompt that is too long is refused by the vendor'],
  routing_strategy_args: ['none', 'deployments are drawn by weight, load and health here'],
}
const LITELLM: Readonly<Record<string, Finding>> = {
  ...ROUTER,
  max_budget: ['wider', 'there is no budget of the whole gateway: keys and accounts have caps'],
  budget_duration: ['wider', 'there is no budget of the whole gateway'],
  max_user_budget: ['wider', 'there is no budget of all users: keys and accounts have caps'],
  max_internal_user_budget: ['wider', 'there is no budget of all users'],
  default_internal_user_params: ['lost', 'accounts are made by an administrator'],
  upperbound_key_generate_params: ['lost', 'keys are made by an administrator'],
  telemetry: ['none', 'nothing is sent to the makers of the gateway'],
  set_verbose: ['elsewhere', 'set "log.level"'],
  json_logs: ['elsewhere', 'set "log.format"'],
  turn_off_message_logging: ['none', 'texts are not logged unless a key asks for it'],
}
const GENERAL: Readonly<Record<string, Finding>> = {
  master_key: ['elsewhere', 'not taken over: the admin token in .env is a new one'],
  salt_key: ['none', 'not needed: keys are known by their hash'],
  database_url: ['elsewhere', 'not asked: accounts and keys are imported from exported tables'],
  database_connection_pool_limit: ['none', 'there is no database'],
  store_model_in_db: ['lost', 'models that LiteLLM keeps in its database are not in its file'],
  alerting: ['elsewhere', 'set "alerts", and a sink "webhook" that sends them'],
  alerting_threshold: ['elsewhere', 'set "alerts"'],
  alert_types: ['elsewhere', 'set "alerts"'],
  proxy_batch_write_at: ['none', 'each call is booked as it ends'],
  max_parallel_requests: ['wider', 'limits are those of keys and accounts: set "defaults.limits"'],
  global_max_parallel_requests: ['wider', 'limits are those of keys and accounts'],
  max_request_size_mb: ['elsewhere', 'set "server.limits"'],
  allowed_ips: ['wider', 'addresses of clients are limited in the proxy in front of the gateway'],
  allowed_routes: ['wider', 'routes are limited in the proxy in front of the gateway'],
  pass_through_endpoints: ['lost', 'requests are not passed on unchanged to other addresses'],
}
const OTHERS: Readonly<Record<string, Finding>> = {
  mcp_servers: ['lost', 'there are no MCP servers'],
  vector_store_registry: ['lost', 'there are no vector stores'],
  search_tools: ['elsewhere', 'set "search.engines"'],
  files_settings: ['lost', 'there are no files and batches'],
}
/** Callbacks and the nearest that there is. */
const CALLBACKS: Readonly<Record<string, Finding>> = {
  prometheus: ['elsewhere', 'GET /metrics has metrics for Prometheus'],
  otel: ['elsewhere', 'set a sink "otlp" with the address of the receiver'],
  arize_phoenix: ['elsewhere', 'set a sink "otlp" with the address of the receiver'],
  langsmith: ['elsewhere', 'set a sink "otlp" with the address of the receiver'],
  datadog: ['elsewhere', 'set a sink "otlp" with the address of the agent'],
  generic_api: ['elsewhere', 'set a sink "webhook"'],
  webhook: ['elsewhere', 'set a sink "webhook"'],
  s3: ['elsewhere', 'set a sink "file", or read the request log'],
  s3_v2: ['elsewhere', 'set a sink "file", or read the request log'],
  gcs_bucket: ['elsewhere', 'set a sink "file", or read the request log'],
}
const POLICY = 'give keys a policy, see docs/policies.md'
/** Guardrails and the nearest that there is. */
const GUARDRAILS: Readonly<Record<string, Finding>> = {
  openai_moderation: [
    'wider',
    'the guard "categories" judges texts here, for keys with a policy',
    POLICY,
  ],
}
const LANGFUSE = ['LANGFUSE_PUBLIC_KEY', 'LANGFUSE_SECRET_KEY', 'LANGFUSE_HOST'] as const
const NOT_MAPPED: Finding = ['lost', 'not mapped']
const MAX_ATTEMPTS = 10
const MAX_SECONDS = 1_000_000

/** Members of the result. */
interface SectionSettings {
  readonly server: Record<string, number>
  readonly routing: Record<string, number>
  readonly sinks: object[]
  /** The section `guards`; undefined where the default serves. */
  readonly guards: object | undefined
}

/** Reads the sections. @param say receives what is not as in the source */
export function readSections(source: Raw, settings: Settings, say: Say): SectionSettings {
  const sections = new Sections(say)
  sections.router(rawOf(source.router_settings))
  sections.litellm(rawOf(source.litellm_settings))
  sections.general(rawOf(source.general_settings))
  sections.guardrails(source.guardrails)
  sections.environment(rawOf(source.environment_variables), settings)
  for (const [name, value] of Object.entries(source)) {
    if (READ.has(name) || isUnset(value)) continue
    say(...placed(OTHERS[name] ?? NOT_MAPPED, name))
  }
  return sections
}

const READ: ReadonlySet<string> = new Set([
  'model_list',
  'router_settings',
  'litellm_settings',
  'general_settings',
  'guardrails',
  'environment_variables',
])

class Sections implements SectionSettings {
  readonly server: Record<string, number> = {}
  readonly routing: Record<string, number> = {}
  readonly sinks: object[] = []
  #mask: 'keys' | 'always' | undefined
  readonly #say: Say

  constructor(say: Say) {
    this.#say = say
  }

  router(router: Raw): void {
    for (const [name, value] of Object.entries(router)) {
      const where = `router_settings.${name}`
      if (isUnset(value) || name === 'model_group_alias' || OF_ANSWERS.test(name)) continue
      if (name === 'num_retries') this.#attempts(value, where)
      else if (name === 'cooldown_time') this.#seconds(value, where, this.routing, 'cooldown')
      else if (name !== 'routing_strategy') this.#say(...placed(ROUTER[name] ?? NOT_MAPPED, where))
      else if (textOf(value) !== 'simple-shuffle') {
        this.#say('differs', where, 'deployments are drawn by weight, load and health here')
      }
    }
  }

  litellm(settings: Raw): void {
    for (const [name, value] of Object.entries(settings)) {
      const where = `litellm_settings.${name}`
      // What is turned off, and what is so here.
      if (isUnset(value) || name === 'drop_params' || OF_ANSWERS.test(name)) continue
      if (name === 'request_timeout') {
        this.#seconds(value, where, this.server, 'requestTimeout')
      } else if (name === 'num_retries' && this.routing.attempts === undefined) {
        this.#attempts(value, where)
      } else if (/^(success_|failure_)?callbacks?$/.test(name)) {
        this.#callbacks(listOf(value) ?? [textOf(value) ?? ''], where)
      } else this.#say(...placed(LITELLM[name] ?? NOT_MAPPED, where))
    }
  }

  general(settings: Raw): void {
    for (const [name, value] of Object.entries(settings)) {
      if (isUnset(value)) continue
      this.#say(...placed(GENERAL[name] ?? NOT_MAPPED, `general_settings.${name}`))
    }
  }

  guardrails(value: unknown): void {
    if (!Array.isArray(value)) return
    for (const [index, guardrail] of value.entries()) {
      const params = rawOf(rawOf(guardrail).litellm_params)
      const kind = textOf(params.guardrail) ?? ''
      if (kind === 'presidio') {
        this.#masking(params, `guardrails[${index}]`)
        continue
      }
      const finding = Object.hasOwn(GUARDRAILS, kind) ? GUARDRAILS[kind]! : undefined
      const other: Finding = ['wider', 'this guardrail is not here', POLICY]
      this.#say(...placed(finding ?? other, `guardrails[${index}]`))
    }
  }

  /** Personal data is masked by the guard `pii`, for all keys or those that are told to. */
  #masking(params: Raw, where: string): void {
    const modes = listOf(params.mode) ?? [textOf(params.mode) ?? 'pre_call']
    const actions = Object.values(rawOf(params.pii_entities_config))
    if (actions.includes('BLOCK') || !modes.some((mode) => mode.startsWith('pre'))) {
      const message = 'the guard "pii" refuses personal data for keys whose policy denies it'
      this.#say('differs', where, message, 'policy: { "deny": ["personal-data"] }')
    }
    if (!modes.some((mode) => mode.startsWith('pre'))) return
    const mask = params.default_on === true || this.#mask === 'always' ? 'always' : 'keys'
    this.#mask = mask
    if (mask === 'keys') {
      this.#say('differs', where, 'keys mask personal data that are told to', 'mask: true')
    }
    if (params.output_parse_pii !== true) {
      this.#say('differs', where, 'values are put back into the answer here')
    }
  }

  get guards(): object | undefined {
    if (!this.#mask) return undefined
    return { use: [{ use: 'pii', mask: this.#mask }, { use: 'categories' }] }
  }

  /** Values that the result refers to go into `.env`; the others have to be set where they are needed. */
  environment(variables: Raw, settings: Settings): void {
    const used = JSON.stringify(this.sinks)
    for (const [name, value] of Object.entries(variables)) {
      const text = textOf(value)
      const isUsed = used.includes(`\${${name}}`)
      if (isUsed && text !== undefined && !text.startsWith('os.environ/')) settings.set(name, text)
      else if (!isUsed) {
        const where = `environment_variables.${name}`
        this.#say('elsewhere', where, 'set it in the environment of the gateway, or in .env')
      }
    }
    const [sink] = this.sinks
    if (sink && 'LANGFUSE_HOST' in variables) {
      Object.assign((sink as { options: object }).options, { host: '${LANGFUSE_HOST}' })
      const host = textOf(variables.LANGFUSE_HOST)
      if (host !== undefined && !host.startsWith('os.environ/')) settings.set('LANGFUSE_HOST', host)
    }
  }

  #callbacks(names: readonly string[], where: string): void {
    for (const name of names) {
      if (name === 'langfuse' || name === 'langfuse_otel') {
        const [publicKey, secretKey] = LANGFUSE.map((variable) => `\${${variable}}`)
        if (this.sinks.length === 0) {
          this.sinks.push({ use: 'langfuse', options: { publicKey, secretKey } })
        }
      } else {
        const finding = Object.hasOwn(CALLBACKS, name) ? CALLBACKS[name]! : undefined
        const other: Finding = ['lost', 'there is no sink for it', 'see docs/operate/sinks.md']
        this.#say(...placed(finding ?? other, where))
      }
    }
  }

  #attempts(value: unknown, where: string): void {
    const retries = numberOf(value)
    if (retries === undefined || !Number.isSafeInteger(retries)) {
      return this.#say('differs', where, 'not a number that is possible here')
    }
    if (retries >= MAX_ATTEMPTS) this.#say('differs', where, `cut to ${MAX_ATTEMPTS} attempts`)
    this.routing.attempts = Math.min(retries + 1, MAX_ATTEMPTS)
  }

  #seconds(value: unknown, where: string, into: Record<string, number>, name: string): void {
    const seconds = numberOf(value)
    const least = name === 'cooldown' ? 0 : Number.MIN_VALUE
    if (seconds === undefined || seconds < least || seconds > MAX_SECONDS) {
      return this.#say('differs', where, 'not a number of seconds that is possible here')
    }
    into[name] = seconds
  }
}

function placed([harm, message, remedy]: Finding, where: string): Parameters<Say> {
  return remedy === undefined ? [harm, where, message] : [harm, where, message, remedy]
}

/** Other names of models, `model_group_alias`. */
export function groupAliases(source: Raw): [alias: string, name: string][] {
  const aliases = rawOf(rawOf(source.router_settings).model_group_alias)
  return Object.entries(aliases).map(([alias, meant]) => [
    alias,
    textOf(isRaw(meant) ? meant.model : meant) ?? '',
  ])
}
