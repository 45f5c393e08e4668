/** Who is asking: a Bedrock API key, or a signature with an access key (AWS Signature Version 4). */
import { AwsV4Signer } from 'aws4fetch'
import type { UpstreamResponse } from '../../src/plugin.ts'

export interface Credentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  /** Of temporary access keys. */
  readonly sessionToken?: string | undefined
}

/** Puts a name to requests. */
export interface Signer {
  /** Headers for one request; a signature is good for a few minutes. */
  headers(url: string, body: string): Promise<Record<string, string>> | Record<string, string>
  /** Whether a refusal was about the time, and the next signature will have the right one. */
  corrects?(response: UpstreamResponse): boolean
}

const COMMON = {
  accept: 'application/json, application/vnd.amazon.eventstream',
  'content-type': 'application/json',
} as const

/** Amazon refuses signatures that are five minutes off. */
const SKEW_MS = 4 * 60_000

/** With a Bedrock API key. */
export function bearer(apiKey: string): Signer {
  const headers = { ...COMMON, authorization: `Bearer ${apiKey}` }
  return { headers: () => headers }
}

/** With an access key. A clock that is off is corrected by Amazon's. */
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

/** The key that is derived for a day; yesterday's is forgotten. */
class DayKeys extends Map<string, ArrayBuffer> {
  override set(day: string, key: ArrayBuffer): this {
    this.clear()
    return super.set(day, key)
  }
}
