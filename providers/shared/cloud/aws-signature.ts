/** AWS Signature Version 4. */
import { AwsV4Signer } from 'aws4fetch'

/** An access key. */
export interface AwsCredentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  /** The token of temporary access keys. */
  readonly sessionToken?: string | undefined
}

/** A request to sign. */
interface Signable {
  readonly url: string
  readonly body: string
  readonly service: string
  readonly region: string
  readonly credentials: AwsCredentials
  /** ms since epoch. A signature is valid for five minutes. */
  readonly now: number
  /** Keeps derived signing keys. */
  readonly cache?: Map<string, ArrayBuffer>
}

/** The headers that authenticate a `POST`. */
export async function signatureOf({
  credentials: { accessKeyId, secretAccessKey, sessionToken },
  now,
  ...request
}: Signable): Promise<Record<string, string>> {
  const signer = new AwsV4Signer({
    ...request,
    accessKeyId,
    secretAccessKey,
    ...(sessionToken && { sessionToken }),
    // `20261121T080000Z`
    datetime: new Date(now).toISOString().replace(/[:-]|\.\d{3}/g, ''),
  })
  const { headers } = await signer.sign()
  return Object.fromEntries(headers)
}
