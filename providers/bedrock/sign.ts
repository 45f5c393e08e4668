/** Authenticates requests: with a Bedrock API key, or with an access key and a signature. */
import type { UpstreamResponse } from '../../src/plugin.ts'
import { signatureOf, type AwsCredentials } from '../shared/cloud/aws-signature.ts'

/** What is authenticated. */
interface Signable {
  readonly url: string
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
export type Signer = (request: Signable) => Promise<Signed> | Signed

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
export function bearer(apiKey: string): Signer {
  const headers = { ...COMMON, authorization: `Bearer ${apiKey}` }
  return () => ({ headers })
}

/** Authenticates with access keys. A wrong local clock is corrected by the time in Amazon's answers. */
export function signature(region: string, keys: KeySource): Signer {
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
