/** Addresses in requests, which a vendor would fetch from where it stands. */
import { InvalidRequest } from '../../../errors/errors.ts'
import { isPublicUrl } from '../../../upstream/addresses.ts'
import type { Call, ClientAddress } from '../../pipeline.ts'

/**
 * The input for one provider. A provider inside the operator's network gets files instead of addresses.
 * @throws InvalidRequest `fetch_failed` for an address that is not public
 */
export function inputFor(call: Call, provider: string, signal: AbortSignal): unknown {
  const { outbound, runtime } = call
  const found = addressesOf(call, provider)
  if (found.length === 0 || !runtime.privateProviders.has(provider)) return outbound
  return fetched(call, found, signal)
}

/**
 * The addresses that a provider would fetch; none for one that may read any.
 * @throws InvalidRequest `fetch_failed` for an address that is not public
 */
export function addressesOf(
  { endpoint: { addresses }, outbound, runtime }: Call,
  provider: string,
): readonly ClientAddress[] {
  if (!addresses || runtime.config.providers[provider]!.privateUrls) return []
  const found = addresses.of(outbound)
  const refused = found.find(({ url }) => !isPublicUrl(url))
  if (refused) throw new InvalidRequest('fetch_failed', NOT_PUBLIC, { param: refused.param })
  return found
}

const NOT_PUBLIC =
  'The address may not be read: expected an https address on the public internet, without user ' +
  'information and port, or the file itself.'

async function fetched(
  { endpoint, outbound, runtime }: Call,
  found: readonly ClientAddress[],
  signal: AbortSignal,
): Promise<unknown> {
  const files = new Map<string, Awaited<ReturnType<typeof runtime.download>>>()
  // One after the other: a request may name many.
  for (const { url, param } of found) {
    if (!files.has(url)) files.set(url, await runtime.download(url, signal, { param }))
  }
  return endpoint.addresses!.replace(outbound, files)
}
