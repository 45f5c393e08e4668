/** Amazon Bedrock: all models with the Converse API, whole answers and streams. */
import * as v from 'valibot'
import {
  parseExactly,
  defineProvider,
  type ChatInput,
  type Host,
  type ProviderRequest,
  type UpstreamResponse,
  type OptionField,
} from '../src/plugin.ts'
import { asSequence, joinUrl, parseAnswer, readErrorBody } from './shared/http.ts'
import { readStream, readWhole, type AnswerContext } from './bedrock/answer.ts'
import { readFrames } from './bedrock/frames.ts'
import { httpFailure } from './bedrock/errors.ts'
import { SCHEMAS, traitsOf } from './bedrock/models.ts'
import { bedrockModels } from './bedrock/offers.ts'
import { toConverse, NO_COUNT, readCount, toCounted } from './bedrock/request.ts'
import { type AwsCredentials, signatureOf } from './shared/cloud/aws-signature.ts'
import { awsLogin } from './shared/cloud/aws.ts'
import type { Login } from './shared/cloud/login.ts'
import { withFetchedFiles } from './shared/files.ts'
import { toFunctionsOnly, withFunctionsOnly } from './shared/functions-only.ts'
import { ADDRESS_FIELD, KEY_FIELD, apiKey, baseURL } from './shared/options.ts'
import { withRemedies } from './shared/remedies.ts'
import { THINK_TAGS } from './shared/think-tags.ts'

// Authenticates requests: with a Bedrock API key, or with an access key and a signature.

/** What is authenticated. */
interface Signable {
  readonly url: string
  /** It is empty for a `GET`. */
  readonly body: string
  readonly signal: AbortSignal
}

/** An authenticated request. */
interface Signed {
  readonly headers: Record<string, string>
  /** Whether the next signature lacks the reason why this one was refused. */
  corrects?(response: UpstreamResponse): boolean
}

/** Adds authentication to a request. */
type Signer = (request: Signable) => Promise<Signed> | Signed

/** Where access keys come from. */
interface KeySource {
  credentials(signal: AbortSignal): Promise<AwsCredentials> | AwsCredentials
  /** Whether there may be others in place of refused ones. */
  refused?(credentials: AwsCredentials): boolean
}

const COMMON = {
  accept: 'application/json, application/vnd.amazon.eventstream',
  'content-type': 'application/json',
} as const

/** AWS refuses signatures that are more than five minutes off. */
const SKEW_MS = 4 * 60_000
/** Names of errors for access keys that have expired or are not known any more. */
const OLD_KEY = /expiredtoken|unrecognizedclient|invalidclienttokenid/i

/** Authenticates with a Bedrock API key. */
function bearer(apiKey: string): Signer {
  const headers = { ...COMMON, authorization: `Bearer ${apiKey}` }
  return () => ({ headers })
}

/** Authenticates with access keys. A wrong local clock is corrected by the time in Amazon's answers. */
function signature(region: string, keys: KeySource): Signer {
  const cache = new DayKeys()
  let skewMs = 0
  const correctsClock = ({ status, headers }: UpstreamResponse) => {
    const theirs = Date.parse(headers.date ?? '')
    if (status !== 403 || Number.isNaN(theirs)) return false
    const offMs = theirs - Date.now()
    const corrects = Math.abs(offMs - skewMs) > SKEW_MS
    if (corrects) skewMs = offMs
    return corrects
  }
  return async ({ url, body, signal }) => {
    const credentials = await keys.credentials(signal)
    const now = Date.now() + skewMs
    const signed = { url, body, service: 'bedrock', region, credentials, now, cache }
    return {
      headers: { ...COMMON, ...(await signatureOf(signed)) },
      corrects(response) {
        if (correctsClock(response)) return true
        const old = OLD_KEY.test(response.headers['x-amzn-errortype'] ?? '')
        return old && keys.refused?.(credentials) === true
      },
    }
  }
}

/** Keeps the derived signing key of the current day only. */
class DayKeys extends Map<string, ArrayBuffer> {
  override set(day: string, key: ArrayBuffer): this {
    this.clear()
    return super.set(day, key)
  }
}

const filled = v.pipe(v.string(), v.nonEmpty('a text of at least one character'))

const members = v.strictObject({
  region: v.pipe(v.string(), v.regex(/^[a-z\d-]+$/, 'a region such as "us-east-1"')),
  /** The address of a private endpoint or of another AWS partition. */
  baseURL: v.optional(baseURL),
  /** A Bedrock API key. Without one, the next two are required, or `credentials`. */
  apiKey: v.optional(apiKey),
  accessKeyId: v.optional(filled),
  secretAccessKey: v.optional(filled),
  /** The token of temporary access keys. */
  sessionToken: v.optional(v.string()),
  /** The gateway finds credentials where Amazon's own programs look. */
  credentials: v.optional(v.literal('chain', '"chain"')),
  /** The profile of the shared files; others are not read. */
  profile: v.optional(filled),
  /** A role that is assumed with the credentials that were found, and how. */
  roleArn: v.optional(v.pipe(v.string(), v.regex(/^arn:/, 'the ARN of a role'))),
  externalId: v.optional(filled),
  sessionName: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^[\w+=,.@-]{2,64}$/, 'a name of 2 to 64 letters, digits and "+=,.@-_"'),
    ),
  ),
  /** A Bedrock guardrail that is applied to every request. */
  guardrail: v.optional(v.strictObject({ id: filled, version: filled })),
  serviceTier: v.optional(v.picklist(['default', 'flex', 'priority', 'reserved'])),
  latency: v.optional(v.picklist(['standard', 'optimized'])),
})

const CHAIN_ONLY = ['profile', 'roleArn', 'externalId', 'sessionName'] as const

const options = v.pipe(
  members,
  v.check(({ apiKey, accessKeyId, secretAccessKey, sessionToken, credentials }) => {
    const hasKey = accessKeyId !== undefined && secretAccessKey !== undefined
    const ways = [apiKey !== undefined, hasKey, credentials !== undefined]
    const rest = accessKeyId ?? secretAccessKey ?? sessionToken
    return ways.filter(Boolean).length === 1 && (hasKey || rest === undefined)
  }, 'either "apiKey", or "accessKeyId" and "secretAccessKey", or "credentials: chain"'),
  v.check(
    ({ credentials, ...more }) =>
      credentials !== undefined || CHAIN_ONLY.every((name) => more[name] === undefined),
    `${CHAIN_ONLY.map((name) => `"${name}"`).join(', ')} only with "credentials: chain"`,
  ),
  v.check(
    ({ roleArn, externalId, sessionName }) =>
      roleArn !== undefined || (externalId ?? sessionName) === undefined,
    '"externalId" and "sessionName" only with "roleArn"',
  ),
)

const deploymentOptions = v.strictObject({
  /** Name of the base model, for deployments whose model is an ARN: the model's rules follow from it. */
  foundationModel: v.optional(v.string()),
  /** The model writes its reasoning into the answer, in these tags. */
  reasoning: v.optional(v.picklist(THINK_TAGS)),
  /** Whether the model accepts cache points. By default this follows from its name. */
  cache: v.optional(v.boolean()),
  /** How the model gets a JSON schema. By default this follows from its name. */
  schema: v.optional(v.picklist(SCHEMAS)),
  /** Parameters of the model itself, sent as `additionalModelRequestFields`. */
  fields: v.optional(v.record(v.string(), v.unknown())),
  /** Members of the client's request that this model refuses. */
  omit: v.optional(v.array(v.string())),
})

/** Names of tools that Converse takes. */
const NAMES = /^[a-zA-Z0-9_-]{1,64}$/

const fields: readonly OptionField[] = [
  { name: 'region', label: 'Region', kind: 'text', example: 'us-east-1', required: true },
  { ...KEY_FIELD, help: 'Or an access key below.', required: false },
  { name: 'accessKeyId', label: 'Access key id', kind: 'text' },
  { name: 'secretAccessKey', label: 'Secret access key', kind: 'secret' },
  { name: 'sessionToken', label: 'Session token', kind: 'secret' },
  { ...ADDRESS_FIELD, help: 'Only for a private endpoint or another partition.' },
  { name: 'guardrail.id', label: 'Guardrail', kind: 'text' },
  { name: 'guardrail.version', label: 'Version of the guardrail', kind: 'text' },
  {
    name: 'serviceTier',
    label: 'Service tier',
    kind: 'choice',
    choices: ['default', 'flex', 'priority', 'reserved'],
  },
  { name: 'latency', label: 'Latency', kind: 'choice', choices: ['standard', 'optimized'] },
]
const deploymentFields: readonly OptionField[] = [
  { name: 'foundationModel', label: 'Base model of an ARN', kind: 'text' },
  { name: 'reasoning', label: 'Reasoning in the answer', kind: 'choice', choices: THINK_TAGS },
  { name: 'cache', label: 'Accepts cache points', kind: 'flag' },
  { name: 'schema', label: 'How it gets a JSON schema', kind: 'choice', choices: SCHEMAS },
  { name: 'omit', label: 'Members that the model refuses', kind: 'list' },
]

export default defineProvider({
  name: 'bedrock',
  telemetryName: 'aws.bedrock',
  options,
  fields,
  deploymentOptions,
  deploymentFields,
  ignores: ['seed', 'presence_penalty', 'frequency_penalty'],
  setup(given, host) {
    const { region, guardrail, serviceTier, latency } = given
    const base = given.baseURL ?? `https://bedrock-runtime.${region}.amazonaws.com`
    const login = given.credentials && awsLogin(host, given)
    const signer = signerOf(given, login)
    const always = {
      ...(guardrail && {
        guardrailConfig: { guardrailIdentifier: guardrail.id, guardrailVersion: guardrail.version },
      }),
      ...(serviceTier && { serviceTier: { type: serviceTier } }),
      ...(latency && { performanceConfig: { latency } }),
    }

    const requestOf = async ({ input, model, options, signal }: ProviderRequest<ChatInput>) => {
      const fetching = { host, signal, parts: ['image_url', 'file'] } as const
      const messages = await withFetchedFiles(input.messages, fetching)
      const deployment = options as v.InferOutput<typeof deploymentOptions>
      const traits = traitsOf(deployment.foundationModel ?? model)
      return { ...toConverse({ ...input, messages }, traits, deployment, host.fail), traits }
    }

    return {
      address: base,
      ...login?.members,
      models: bedrockModels(host, controlOf(base), (url, signal) =>
        sendSigned(host, signer, { url, body: '', signal, stream: false }),
      ),
      async countTokens(request) {
        const input = toFunctionsOnly(request.input, NAMES)
        const { body } = await requestOf({ ...request, input })
        const { model, signal } = request
        const url = joinUrl(base, `model/${encodeURIComponent(model)}/count-tokens`)
        const call = { url, body: JSON.stringify(toCounted(body)), signal, stream: false }
        const response = await sendSigned(host, signer, call).catch((error: Error) => {
          throw /support counting/i.test(error.message) ? host.fail('not_found', NO_COUNT) : error
        })
        return readCount(parseAnswer(await response.text(), host.fail), host.fail)
      },

      chat: withRemedies(
        host,
        withFunctionsOnly(async (chatRequest) => {
          const { input, model, options, signal } = chatRequest
          const deployment = options as v.InferOutput<typeof deploymentOptions>
          const { body, answerTool, traits } = await requestOf(chatRequest)
          const stream = input.stream === true
          const method = stream ? 'converse-stream' : 'converse'
          const url = joinUrl(base, `model/${encodeURIComponent(model)}/${method}`)
          const text = JSON.stringify({ ...body, ...always })
          const response = await sendSigned(host, signer, { url, body: text, signal, stream })
          const context: AnswerContext = {
            tags: deployment.reasoning,
            signsReasoning: traits.signsReasoning,
            answerTool,
            fail: host.fail,
          }
          if (response.headers['content-type']?.includes('eventstream')) {
            return response.body.through(readFrames(host.fail)).through(readStream(context))
          }
          const answer = await response.text()
          // Only arguments of calls need their digits kept, and this parser is slower.
          const parse = answer.includes('"toolUse"') ? parseExactly : JSON.parse
          return asSequence(readWhole(parseAnswer(answer, host.fail, parse), context))
        }, NAMES),
      ),
    }
  },
})

/** The address of the service that lists models, beside the one that runs them. */
function controlOf(base: string): string {
  return base.replace('bedrock-runtime', 'bedrock')
}

function signerOf(
  options: v.InferOutput<typeof members>,
  login: Login<AwsCredentials> | undefined,
): Signer {
  const { region, apiKey, accessKeyId = '', secretAccessKey = '', sessionToken } = options
  if (apiKey !== undefined) return bearer(apiKey)
  const key = { accessKeyId, secretAccessKey, sessionToken }
  return signature(region, login ?? { credentials: () => key })
}

interface SignedCall {
  readonly url: string
  /** It is empty for a `GET`. */
  readonly body: string
  readonly signal: AbortSignal
  readonly stream: boolean
}

/**
 * Sends a request, a second time when the clock was wrong or a key had expired. @throws the failure for an answer with an error status
 */
async function sendSigned(host: Host, signer: Signer, call: SignedCall) {
  for (;;) {
    const { headers, corrects } = await signer(call)
    const { body, ...request } = call
    const response = await host.request({
      ...request,
      headers,
      ...(body === '' ? { method: 'GET' } : { body }),
    })
    if (response.status >= 200 && response.status <= 299) return response
    const text = await readErrorBody(response, call.signal)
    if (!corrects?.(response)) throw httpFailure(host.fail, response, text)
  }
}
