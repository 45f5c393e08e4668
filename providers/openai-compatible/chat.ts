/** Chat with whoever speaks OpenAI's chat completions: one request, and its answer in either form. */
import {
  carry,
  stringify,
  writtenIn,
  writtenString,
  type Host,
  type Provider,
  type UpstreamResponse,
} from '../../src/plugin.ts'
import { readChunks, readCompletion, type VendorProfile } from './dialect.ts'
import { errorText, httpFailure, notAnAnswer } from './errors.ts'
import type { DeploymentOptions } from './options.ts'
import type { Quirks } from './quirks.ts'
import { toBody } from './request.ts'

/** How a model is asked. */
export interface Line {
  /** All of it, with `/chat/completions`. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly quirks: Quirks
}

/**
 * The `chat` of a provider.
 * @param lineOf called for every request, so it should have its answers ready
 */
export function createChat<Options extends DeploymentOptions>(
  host: Host,
  lineOf: (model: string, options: Options) => Line,
): NonNullable<Provider['chat']> {
  return async ({ input, model, options, signal }) => {
    const deployment = options as unknown as Options
    const { url, headers, quirks } = lineOf(model, deployment)
    const stream = input.stream === true
    const asked = toBody(input, model, quirks, deployment)
    const body = stringify(asked, asked, 'messages', writtenIn(asked))
    const response = await host.request({ url, headers, body, signal, stream })
    const { status } = response
    if (status < 200 || status > 299) {
      throw httpFailure(host.fail, response, await errorText(response, signal))
    }
    const dialect: VendorProfile = { quirks, tags: deployment.reasoning, fail: host.fail }
    if (isEvents(response, stream)) return host.sse(response.body).through(readChunks(dialect))
    const text = await response.text()
    const payload = parse(text, host.fail)
    const completion = readCompletion(payload, dialect)
    return carry(completion, writtenString(text, payload.choices[0]?.message?.content))
  }
}

/** A vendor may answer in the other form than was asked for. */
function isEvents({ headers }: UpstreamResponse, stream: boolean): boolean {
  const type = headers['content-type'] ?? ''
  return type.includes('event-stream') || (stream && !/json|html/.test(type))
}

function parse(text: string, fail: Host['fail']): any {
  try {
    return JSON.parse(text)
  } catch {
    // Without the cause: it quotes the body.
    throw notAnAnswer(fail)
  }
}
