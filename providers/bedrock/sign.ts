/** Authenticates requests: with a Bedrock API key, or with an access key and AWS Signature Version 4. */
import { AwsV4Signer } from 'aws4fetch'
import type { UpstreamResponse } from '../../src/plugin.ts'

/** An AWS access key. */
interface Credentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  /** For temporary access keys. */
  readonly sessionToken?: string | undefined
}

/** Adds authentication to requests. */
export interface Signer {
  /** Headers for one request. A signature is valid for five minutes. */
  headers(url: string, body: string): Promise<Record<string, string>> | Record<string, string>
  /** Whether the request was refused because of a wrong clock, and the next signature has the corrected time. */
  corrects?(response: UpstreamResponse): boolean
}

const COMMON = {
  accept: 'application/json, application/vnd.amazon.eventstream',
  'content-type': 'application/json',
} as const

/** AWS refuses signatures that are more than five minutes off. */
const SKEW_MS = 4 * 60_000

/** Authenticates with a Bedrock API key. */
export function bearer(apiKey: string): Signer {
  const headers = { ...COMMON, authorization: `Bearer ${apiKey}` }
  return { headers: () => headers }
}

/** Authenticates with an access key. A wrong local clock is corrected by the time in Amazon's answers. */
export function signature(region: string, credentials: Credentials): Signer {
  const { accessKeyId, secretAccessKey, sessionToken } = credentials
  const keys = new DayKeys()
  let skewMs = 0
  return {
    async headers(url, body) {
      const signer = new AwsV4Signer({
        url,
        body,
        service: 'bedrock',
        region,
        accessKeyId,
        secretAccessKey,
        ...(sessionToken && { sessionToken }),
        datetime: timestamp(Date.now() + skewMs),
        cache: keys,
      })
      const { headers } = await signer.sign()
      return { ...COMMON, ...Object.fromEntries(headers) }
    },
    corrects({ status, headers }) {
      const theirs = Date.parse(headers.date ?? '')
      if (status !== 403 || Number.isNaN(theirs)) return false
      const offMs = theirs - Date.now()
      const corrects = Math.abs(offMs - skewMs) > SKEW_MS
      if (corrects) skewMs = offMs
      return corrects
    },
  }
}

/** `20261121T080000Z` */
function timestamp(epochMs: number): string {
  return new Date(epochMs).toISOString().replace(/[:-]|\.\d{3}/g, '')
}

/** Keeps the derived signing key of the current day only. */
class DayKeys extends Map<string, ArrayBuffer> {
  override set(day: string, key: ArrayBuffer): this {
    this.clear()
    return super.set(day, key)
  }
}
