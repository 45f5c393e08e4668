/** Requests of transcripts in the form that providers receive. */
import { readChatRequest } from '../endpoints/chat/dialects/chat/read.ts'
import { outboundChat, usesLegacyFunctions } from '../endpoints/chat/request.ts'
import type { Envelope } from '../endpoints/chat/answer.ts'
import { ConfigError, GatewayError } from '../errors/errors.ts'
import { toConfigIssues } from '../errors/issues.ts'
import type { ChatInput, ProviderPlugin } from '../plugin.ts'
import type { Transcript } from './transcripts.ts'

export interface TestRequest {
  readonly input: ChatInput
  readonly model: string
  readonly options: Readonly<Record<string, unknown>>
  readonly envelope: Omit<Envelope, 'newCallId'>
}

const DEFAULT_MODEL = 'test-model'

/** The request of a transcript. @throws ConfigError that names the transcript and the invalid member */
export async function toTestRequest(
  { deploymentOptions: schema }: ProviderPlugin,
  { name, request, deployment = {} }: Transcript,
): Promise<TestRequest> {
  const result = await schema?.['~standard'].validate(deployment)
  if (result?.issues) {
    const source = { path: ['deployment'], value: deployment, secrets: new Set<string>() }
    throw new ConfigError(`transcript ${name}`, toConfigIssues(result.issues, source, schema))
  }
  const [unknown] = schema ? [] : Object.keys(deployment)
  if (unknown !== undefined) {
    const message = 'unknown key; this provider has no deployment options'
    throw new ConfigError(`transcript ${name}`, [{ path: `deployment.${unknown}`, message }])
  }
  const parsed = readRequest(name, { model: DEFAULT_MODEL, ...request })
  return {
    input: outboundChat(parsed),
    model: parsed.model,
    options: (result?.value ?? {}) as Record<string, unknown>,
    envelope: {
      id: 'chatcmpl-test',
      created: 0,
      model: 'test/model',
      native: false,
      stream: false,
      logprobs: parsed.logprobs === true,
      legacyFunctions: usesLegacyFunctions(parsed),
      reasoning: parsed.reasoning?.exclude !== true && parsed.include_reasoning !== false,
    },
  }
}

function readRequest(name: string, body: object) {
  try {
    return readChatRequest(body)
  } catch (error) {
    if (!GatewayError.is(error)) throw error
    const path = ['request', error.param].filter(Boolean).join('.')
    throw new ConfigError(`transcript ${name}`, [{ path, message: error.message }])
  }
}
