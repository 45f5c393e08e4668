/** Amazon Bedrock: every model there that speaks Converse, whole or in a stream. */
import * as v from 'valibot'
import { defineProvider, type Host } from '../src/plugin.ts'
import { parseExactly } from './anthropic/exact-json.ts'
import { readStream, readWhole, type Expected } from './bedrock/answer.ts'
import { httpFailure } from './bedrock/errors.ts'
import { readFrames } from './bedrock/frames.ts'
import { SCHEMAS, traitsOf } from './bedrock/models.ts'
import { toConverse } from './bedrock/request.ts'
import { bearer, signature, type Signer } from './bedrock/sign.ts'
import { asSequence, joinUrl, parseAnswer, readErrorBody } from './shared/http.ts'
import { apiKey, baseURL } from './shared/options.ts'
import { THINK_TAGS } from './shared/think-tags.ts'

const filled = v.pipe(v.string(), v.nonEmpty('a text of at least one character'))

const members = v.strictObject({
  region: v.pipe(v.string(), v.regex(/^[a-z\d-]+$/, 'a region such as "us-east-1"')),
  /** For a private endpoint, or another partition of Amazon's. */
  baseURL: v.optional(baseURL),
  /** A Bedrock API key; or else the next two. */
  apiKey: v.optional(apiKey),
  accessKeyId: v.optional(filled),
  secretAccessKey: v.optional(filled),
  /** Of temporary access keys. */
  sessionToken: v.optional(v.string()),
  /** A guardrail of Bedrock's for every request. */
  guardrail: v.optional(v.strictObject({ id: filled, version: filled })),
  serviceTier: v.optional(v.picklist(['default', 'flex', 'priority', 'reserved'])),
  latency: v.optional(v.picklist(['standard', 'optimized'])),
})

const options = v.pipe(
  members,
  v.check(
    ({ apiKey, accessKeyId, secretAccessKey, sessionToken }) =>
      apiKey === undefined
        ? accessKeyId !== undefined && secretAccessKey !== undefined
        : accessKeyId === undefined && secretAccessKey === undefined && sessionToken === undefined,
    'either "apiKey", or "accessKeyId" and "secretAccessKey"',
  ),
)

const deploymentOptions = v.strictObject({
  /** Whose name tells what the model can do, where the model itself is an ARN. */
  foundationModel: v.optional(v.string()),
  /** The model thinks inside its answer, in tags. */
  reasoning: v.optional(v.picklist(THINK_TAGS)),
  /** Whether the model takes cache points; by default as its name says. */
  cache: v.optional(v.boolean()),
  /** How a JSON schema is put to the model; by default as its name says. */
  schema: v.optional(v.picklist(SCHEMAS)),
  /** Members of the request in the model's own words, for `additionalModelRequestFields`. */
  fields: v.optional(v.record(v.string(), v.unknown())),
  /** Members of the client's request that this model refuses. */
  omit: v.optional(v.array(v.string())),
})

export default defineProvider({
  name: 'bedrock',
  options,
  deploymentOptions,
  setup(given, host) {
    const { region, guardrail, serviceTier, latency } = given
    const base = given.baseURL ?? `https://bedrock-runtime.${region}.amazonaws.com`
    const signer = signerOf(given)
    const always = {
      ...(guardrail && {
        guardrailConfig: { guardrailIdentifier: guardrail.id, guardrailVersion: guardrail.version },
      }),
      ...(serviceTier && { serviceTier: { type: serviceTier } }),
      ...(latency && { performanceConfig: { latency } }),
    }

    return {
      async chat({ input, model, options, signal }) {
        const deployment = options as v.InferOutput<typeof deploymentOptions>
        const traits = traitsOf(deployment.foundationModel ?? model)
        const { body, answerTool } = toConverse(input, traits, deployment, host.fail)
        const stream = input.stream === true
        const method = stream ? 'converse-stream' : 'converse'
        const url = joinUrl(base, `model/${encodeURIComponent(model)}/${method}`)
        const text = JSON.stringify({ ...body, ...always })
        const response = await ask(host, signer, { url, body: text, signal, stream })
        const expected: Expected = {
          tags: deployment.reasoning,
          seals: traits.seals,
          answerTool,
          fail: host.fail,
        }
        if (response.headers['content-type']?.includes('eventstream')) {
          return response.body.through(readFrames(host.fail)).through(readStream(expected))
        }
        const answer = await response.text()
        // Parsing that keeps the digits of numbers is slow, and only arguments of calls need it.
        const parse = answer.includes('"toolUse"') ? parseExactly : JSON.parse
        return asSequence(readWhole(parseAnswer(answer, host.fail, parse), expected))
      },
    }
  },
})

function signerOf(given: v.InferOutput<typeof members>): Signer {
  const { region, apiKey, accessKeyId = '', secretAccessKey = '', sessionToken } = given
  if (apiKey !== undefined) return bearer(apiKey)
  return signature(region, { accessKeyId, secretAccessKey, sessionToken })
}

interface Asked {
  readonly url: string
  readonly body: string
  readonly signal: AbortSignal
  readonly stream: boolean
}

/** @throws the failure an error status stands for */
async function ask(host: Host, signer: Signer, asked: Asked) {
  for (;;) {
    const headers = await signer.headers(asked.url, asked.body)
    const response = await host.request({ ...asked, headers })
    if (response.status >= 200 && response.status <= 299) return response
    const text = await readErrorBody(response, asked.signal)
    if (!signer.corrects?.(response)) throw httpFailure(host.fail, response, text)
  }
}
