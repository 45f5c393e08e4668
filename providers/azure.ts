/**
 * Azure OpenAI, and models of other makers on the same resources. A deployment's model is its deployment name at Azure.
 */
import * as v from 'valibot'
import { defineProvider, type OptionField } from '../src/plugin.ts'
import { createAudio } from './openai-compatible/audio.ts'
import { createEmbeddings } from './openai-compatible/embeddings.ts'
import { createImages } from './openai-compatible/images.ts'
import { deploymentFields, deploymentMembers, jsonHeaders } from './openai-compatible/options.ts'
import type { Quirks } from './openai-compatible/quirks.ts'
import { AS_MAX_TOKENS, OPEN_WEIGHTS, quirksOf, WITH_USAGE } from './openai-compatible/rows.ts'
import { effortLevels } from './openai-compatible/reasoning.ts'
import { nativeResponses } from './openai-responses/native.ts'
import { API_FIELD, apiOption, createEitherChat } from './openai-responses/wire.ts'
import { entraLogin, entraOption } from './shared/cloud/entra.ts'
import { withLogin } from './shared/cloud/login.ts'
import { joinUrl } from './shared/http.ts'
import { ADDRESS_FIELD, KEY_FIELD, apiKey, baseURL, headersOption } from './shared/options.ts'

/** Versions are dates; the newest ones are words. */
const apiVersion = v.pipe(v.string(), v.regex(/^[\w-]+$/, 'a version such as "2024-10-21"'))

const members = v.strictObject({
  headers: headersOption,
  /** Address of the resource: `https://<resource>.openai.azure.com`, or with `services.ai` in place of `openai`. */
  baseURL,
  apiKey: v.optional(apiKey),
  /** The gateway logs in with Microsoft Entra, in place of a key. */
  entra: v.optional(entraOption),
  /** The API: `v1`; `deployments`, with a version; or `models` for models of other makers, with a version. */
  surface: v.optional(v.picklist(['v1', 'deployments', 'models']), 'v1'),
  apiVersion: v.optional(apiVersion),
})

const options = v.pipe(
  members,
  v.check(
    ({ apiKey, entra }) => apiKey === undefined || entra === undefined,
    'either "apiKey" or "entra", which logs in by itself',
  ),
)

const deploymentOptions = v.strictObject({
  ...deploymentMembers,
  api: apiOption,
  /** The version of a deployment that needs another one. */
  apiVersion: v.optional(apiVersion),
})
/** The Responses API is at the surface `v1` only. */
const withoutResponses = v.strictObject({
  ...deploymentOptions.entries,
  api: v.optional(
    v.picklist(
      ['auto', 'chat'],
      '"auto" or "chat", because only the surface "v1" has the Responses API',
    ),
    'auto',
  ),
})
type DeploymentOptions = v.InferOutput<typeof deploymentOptions>

type Surface = v.InferOutput<typeof members>['surface']

/** Marks reasoning of models at Azure. */
const FORMAT = 'azure-openai-responses-v1'

/** The latest stable versions by Microsoft's documentation. */
const VERSIONS: Readonly<Record<Surface, string | undefined>> = {
  v1: undefined,
  deployments: '2024-10-21',
  models: '2024-05-01-preview',
}

const VERSION_FIELD: OptionField = {
  name: 'apiVersion',
  label: 'Version of the API',
  kind: 'text',
  example: '2024-10-21',
}
const fields: readonly OptionField[] = [
  {
    ...ADDRESS_FIELD,
    help: 'Address of the resource.',
    example: 'https://acme.openai.azure.com',
    required: true,
  },
  KEY_FIELD,
  { name: 'surface', label: 'API', kind: 'choice', choices: ['v1', 'deployments', 'models'] },
  VERSION_FIELD,
]

export default defineProvider({
  name: 'azure',
  telemetryName: 'azure.ai.openai',
  options,
  fields,
  deploymentOptions,
  deploymentFields: [...deploymentFields, API_FIELD, VERSION_FIELD],
  setup(given, plain) {
    const { baseURL: url, apiKey, entra, surface, apiVersion = VERSIONS[surface] } = given
    const login = entra && entraLogin(plain, entra, scopeOf(url))
    const host = login ? withLogin(plain, login) : plain
    // The Azure portal shows addresses with and without this path.
    const resource = url.replace(/\/openai(\/v1)?\/?$/, '')
    const sent = jsonHeaders(apiKey ? { 'api-key': apiKey } : {}, given.headers)
    const quirks = quirksAt(surface, apiVersion)
    const target = (path: string, model: string, { apiVersion: own }: DeploymentOptions) => ({
      url: joinUrl(resource, pathOf(surface, path, model, own ?? apiVersion)),
      headers: sent,
      quirks: own === undefined ? quirks : quirksAt(surface, own),
    })
    const chat = createEitherChat<DeploymentOptions>(
      host,
      (model, own) => target('chat/completions', model, own),
      (model, own) => ({ ...target('responses', model, own), format: FORMAT }),
      surface === 'v1',
    )
    const embeddings = createEmbeddings<DeploymentOptions>(host, (model, own) =>
      target('embeddings', model, own),
    )
    const base = { ...login?.members, chat, ...embeddings }
    if (surface === 'models') return { ...base, deploymentOptions: withoutResponses }
    const images = createImages<DeploymentOptions>(host, (path, model, own) =>
      target(`images/${path}`, model, own),
    )
    const audio = createAudio<DeploymentOptions>(host, (path, model, own) =>
      target(`audio/${path}`, model, own),
    )
    const all = { ...base, ...images, ...audio }
    const native = nativeResponses<DeploymentOptions>(host, (model, own) => ({
      ...target('responses', model, own),
      format: FORMAT,
    }))
    return surface === 'v1'
      ? { ...all, ...native }
      : { ...all, deploymentOptions: withoutResponses }
  },
})

/** Resources for models of other makers have tokens of their own. */
function scopeOf(base: string): string {
  const own = new URL(base).hostname.endsWith('.services.ai.azure.com')
  return own ? 'https://ai.azure.com/.default' : 'https://cognitiveservices.azure.com/.default'
}

function pathOf(
  surface: Surface,
  path: string,
  model: string,
  version: string | undefined,
): string {
  const query = version === undefined ? '' : `?api-version=${version}`
  switch (surface) {
    case 'v1':
      return `openai/v1/${path}${query}`
    case 'deployments':
      return `openai/deployments/${encodeURIComponent(model)}/${path}${query}`
    case 'models':
      return `models/${path}${query}`
  }
}

/** OpenAI's quirks, without parameters that the API version does not have yet. */
function quirksAt(surface: Surface, version: string | undefined): Quirks {
  if (surface === 'models') {
    return {
      ...OPEN_WEIGHTS,
      drops: [...OPEN_WEIGHTS.drops, 'data_sources'],
      toReasoning: effortLevels('low', 'medium', 'high'),
    }
  }
  const openai = quirksOf('openai')
  const knows = (since: string) => version === undefined || version >= since
  return {
    ...openai,
    ...(!knows('2024-12-01') && { drops: NEWER_MEMBERS }),
    streamed: knows('2024-09-01') ? WITH_USAGE : {},
    renames: knows('2024-09-01') ? {} : AS_MAX_TOKENS,
    current: knows('2024-12-01') || undefined,
    sessionAsCacheKey: version === undefined || undefined,
  }
}

/** Members that older versions refuse. */
const NEWER_MEMBERS = [
  'metadata',
  'modalities',
  'prediction',
  'prompt_cache_key',
  'prompt_cache_options',
  'prompt_cache_retention',
  'reasoning_effort',
  'safety_identifier',
  'verbosity',
]
