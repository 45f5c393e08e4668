/** Asks the provider of one deployment: the form and input of the request, and the meaning of its errors. */
import type { Deployment } from '../models/catalog.ts'
import { GatewayError, InvalidRequest, UpstreamFailure, headerText } from '../errors/errors.ts'
import { instructionsOf, NO_POLICY } from '../policy/policy.ts'
import type { ProviderRequest } from '../plugin.ts'
import { isPublicUrl } from '../upstream/download.ts'
import { isConfidential, isGuarded, speaksForm } from './native.ts'
import {
  ClientDisconnected,
  type Call,
  type ClientAddress,
  type Dropped,
  type NativeRequest,
} from './pipeline.ts'

type Method = (request: ProviderRequest<any>) => Promise<unknown>

/**
 * Calls the provider's method: in the client's own form where the provider speaks it and nothing on the way needs
 * the normal form, else in that. May throw at once.
 * @param asking called when the request goes out
 */
export function ask(
  call: Call,
  deployment: Deployment,
  signal: AbortSignal,
  asking: () => void,
): Promise<unknown> {
  const { id, provider: name } = deployment
  const { runtime, endpoint, format, request, target } = call
  call.answer.deployment = id
  const provider = runtime.providers.get(name)!
  runtime.loop.entered = name
  const send = (method: Method, input: unknown) => {
    asking()
    return method.call(provider, requestOf(call, deployment, signal, input))
  }
  const translated = () => {
    target.native = false
    if (request.untranslatable) throw request.untranslatable
    const ignored = request.ignored?.filter((one) => one !== target.searchedFor)
    const names = target.dropped?.flatMap((what) => format.droppedNames?.(what, request) ?? [])
    nameIgnored(call, names ? [...(ignored ?? []), ...names] : ignored)
    const method = provider[endpoint.operation] as Method
    const input = inputFor(call, name, signal)
    return input instanceof Promise
      ? input.then((ready) => send(method, ready))
      : send(method, input)
  }
  if (!mayGoAsItIs(call, deployment)) return translated()
  return prepared(call, deployment).then((native) => {
    if (!native || !mayFetch(call, name, native.addresses)) return translated()
    target.native = true
    nameIgnored(call, native.ignored)
    return send(provider[format.native!.method] as Method, native.input)
  })
}

export function requestOf(
  call: Call,
  { model, options }: Deployment,
  signal: AbortSignal,
  input: any,
): ProviderRequest<any> {
  const { id: requestId, format, runtime } = call
  const dropped = (what: Dropped) => addIgnored(call, format.droppedNames?.(what, call.request))
  return { input, model, options, requestId, signal, log: runtime.log, dropped }
}

/**
 * @param provider the instance that was asked
 * @param sent whether it has sent anything
 */
export function failureOf(call: Call, provider: string, error: unknown, sent = true) {
  const { aborted, endpoint, runtime } = call
  if (aborted) return aborted
  // The attempt was given up: no plugin is at fault.
  if (error instanceof ClientDisconnected) return error
  if (UpstreamFailure.is(error)) {
    const failure = error.cleaned((text) => runtime.mask.clean(text)).about(endpoint.errorField)
    // A vendor quotes what it was sent; a plugin that has sent nothing can only quote the prompt of a policy.
    const isOfPlugin = !sent && failure.failure === 'bad_request'
    const isSafe = isOfPlugin && !call.made.target?.policy.systemPrompt
    return isConfidential(call) && !isSafe ? failure.withOwnWords() : failure
  }
  if (GatewayError.is(error)) return error
  // Names the plugin whose error was none that it owes.
  const { use } = runtime.config.providers[provider]!
  runtime.faults.caught(error, typeof use === 'string' ? use : use.name, provider)
  const message = 'The model provider failed in an unforeseen way.'
  return new UpstreamFailure('upstream_error', message, { cause: error })
}

/** Whether the call may go in the client's form: files replace addresses in the normal form only. */
function mayGoAsItIs(call: Call, deployment: Deployment): boolean {
  const { provider: name } = deployment
  if (call.target.requiresNormalForm || !speaksForm(call, deployment)) return false
  return addressesOf(call, name).length === 0 || !call.runtime.privateProviders.has(name)
}

/**
 * Whether a provider may get a request with these addresses. One inside the operator's network gets files in their place.
 * @throws InvalidRequest `fetch_failed` for an address that is not public
 */
function mayFetch(
  { runtime }: Call,
  provider: string,
  addresses: readonly ClientAddress[],
): boolean {
  if (runtime.config.providers[provider]!.privateUrls) return true
  requirePublic(addresses)
  return addresses.length === 0 || !runtime.privateProviders.has(provider)
}

/** @throws InvalidRequest `fetch_failed` for an address that is not public */
function requirePublic(addresses: readonly ClientAddress[]): void {
  const refused = addresses.find(({ url }) => !isPublicUrl(url))
  if (refused) throw new InvalidRequest('fetch_failed', NOT_PUBLIC, { param: refused.param })
}

/** It is undefined for a request that has to be translated. */
async function prepared(call: Call, deployment: Deployment): Promise<NativeRequest | undefined> {
  const { format, request, target, admission, runtime } = call
  const { model, policy } = target
  const labelOf = await runtime.labels.open()
  return format.native!.prepare(request, {
    ...(policy !== NO_POLICY && instructionsOf(policy)),
    model,
    upstreamModel: deployment.model,
    guarded: isGuarded(call),
    passes: runtime.config.providers[deployment.provider]!.passes,
    label: (value) => labelOf(admission.account.id, value),
  })
}

const MAX_IGNORED = 512

const IGNORED_HEADER = 'x-service-ignored'

/** Names further members in the header, each once. */
function addIgnored({ headers }: Call, names: readonly string[] = []): void {
  const named = headers[IGNORED_HEADER]?.split(', ') ?? []
  const all = [...new Set([...named, ...names])]
  if (all.length > 0) headers[IGNORED_HEADER] = listed(all)
}

/** Names the members in a header that the vendor does not get. */
function nameIgnored({ headers }: Call, ignored: readonly string[] = []): void {
  delete headers[IGNORED_HEADER]
  if (ignored.length > 0) headers[IGNORED_HEADER] = listed(ignored.map(headerText))
}

/** The whole names that there is room for. */
function listed(names: readonly string[]): string {
  let text = ''
  for (const name of names) {
    const longer = text === '' ? name : `${text}, ${name}`
    if (longer.length <= MAX_IGNORED) text = longer
  }
  return text
}

/**
 * The input for one provider. A provider inside the operator's network gets files instead of addresses.
 * @throws InvalidRequest `fetch_failed` for an address that is not public
 */
export function inputFor(call: Call, provider: string, signal: AbortSignal): unknown {
  const { runtime, target } = call
  const addresses = addressesOf(call, provider)
  if (addresses.length === 0 || !runtime.privateProviders.has(provider)) return target.outbound
  return fetched(call, addresses, signal)
}

/**
 * The addresses that a provider would fetch; none for one that may read any.
 * @throws InvalidRequest `fetch_failed` for an address that is not public
 */
function addressesOf(
  { endpoint: { addresses }, target, runtime }: Call,
  provider: string,
): readonly ClientAddress[] {
  if (!addresses || runtime.config.providers[provider]!.privateUrls) return []
  const named = addresses.of(target.outbound)
  requirePublic(named)
  return named
}

const NOT_PUBLIC =
  'The address may not be read: expected an https address on the public internet, without user ' +
  'information and port, or the file itself.'

async function fetched(
  { endpoint, target, runtime }: Call,
  addresses: readonly ClientAddress[],
  signal: AbortSignal,
): Promise<unknown> {
  const files = new Map<string, Awaited<ReturnType<typeof runtime.download>>>()
  // One after the other: a request may name many.
  for (const { url, param } of addresses) {
    if (!files.has(url)) files.set(url, await runtime.download(url, signal, { param }))
  }
  return endpoint.addresses!.replace(target.outbound, files)
}
