/** `GET /v1/models`, `/v1/models/{id}` and `/v1/models/user`: the catalog. */
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { LRUCache } from 'lru-cache'
import { InvalidRequest } from '../../errors/errors.ts'
import { hashSecret, hasValidChecksum } from '../../accounts/secrets.ts'
import type { ResolvedKey } from '../../accounts/stored.ts'
import { inTime } from '../../lifetime/scope.ts'
import {
  hasLists,
  mayUse,
  unknownModel,
  type ListChain,
  type ModelLists,
} from '../../models/allowlist.ts'
import type { Catalog, Model } from '../../models/catalog.ts'
import { entryOf, listOf } from '../../models/listing.ts'
import { withoutOnline } from '../../models/names.ts'
import { apiKeyIn } from '../../pipeline/caller.ts'
import type { Incoming } from '../../pipeline/http.ts'
import type { Call } from '../../pipeline/pipeline.ts'
import { type GetRoute, PublicDocument } from './route.ts'

// `GET /openapi.json`: the description of the API, which `npm run openapi` writes from the checks of requests.

/** The description in the package: three folders up in a checkout, four in a build. */
const FILE = ['../../../', '../../../../']
  .map((up) => fileURLToPath(new URL(`${up}config/openapi.json`, import.meta.url)))
  .find((path) => existsSync(path))

let document: PublicDocument | undefined

export const description: GetRoute = {
  path: '/openapi.json',
  authenticated: false,
  cacheControl: 'public, max-age=300',
  answer: () => (document ??= new PublicDocument(readFileSync(FILE!, 'utf8'))),
}

const PATH = '/v1/models'
/** Anyone may keep these for a minute. */
const PUBLIC = { authenticated: false, cacheControl: 'public, max-age=60' }

/** Documents of catalogs and models. A reload makes new ones of both, and so does a change of prices. */
const documents = new WeakMap<Catalog | Model, PublicDocument>()

/** The documents of a catalog that are not its whole list, by the lists of the caller and the query. */
const narrowed = new WeakMap<Catalog, LRUCache<string, PublicDocument>>()
const MOST_NARROWED = 100

/** The time within which a key has to be found: a list that comes late breaks more clients than one that is too long. */
const FIND_MS = 250

/**
 * The models of the gateway; with the API key of a caller those that the key may use, whatever its tier. No key makes this fail: one
 * that is unknown, disabled or expired gets the whole list. With `output_modalities=text` those that answer with text, from `offset`
 * on. A client of this query asks for a further page as long as pages are large.
 */
export const models: GetRoute = {
  path: PATH,
  authenticated: false,
  cacheControl: (incoming) => `${hasCredentials(incoming) ? 'private' : 'public'}, max-age=60`,
  vary: 'authorization, x-api-key',
  answer(call) {
    if (!call.runtime.config.server.modelsByKey) return listFor(call, undefined)
    const caller = callerOf(call)
    return caller instanceof Promise
      ? caller.then((chain) => listFor(call, chain))
      : listFor(call, caller)
  },
}

/** @param chain the lists of the caller's key; undefined for a caller without one */
function listFor(
  { catalog, incoming }: Call,
  chain: ListChain | undefined,
): string | PublicDocument {
  const query = new URLSearchParams(incoming.url.split('?', 2)[1])
  const textOnly = query.get('output_modalities') === 'text'
  const lists = chain && hasLists(chain) ? chain : undefined
  const offered = () =>
    catalog
      .offered()
      .filter(({ modality }) => !textOnly || modality === 'chat')
      .filter(({ id }) => !lists || mayUse(lists, id, catalog))
  if (!textOnly && !lists) return documentOf(catalog, () => listOf(offered()))
  const offset = query.get('offset') ?? '0'
  if (textOnly && /^[1-9]\d*$/.test(offset)) return listOf(offered().slice(Number(offset)))
  let kept = narrowed.get(catalog)
  if (!kept) narrowed.set(catalog, (kept = new LRUCache({ max: MOST_NARROWED })))
  const name = JSON.stringify([
    textOnly,
    lists && listsOf(lists.key),
    lists && listsOf(lists.account),
  ])
  let document = kept.get(name)
  if (!document) kept.set(name, (document = new PublicDocument(listOf(offered()))))
  return document
}

function listsOf({ models, denyModels }: ModelLists): readonly unknown[] {
  return [models, denyModels]
}

/** Whether a request has anything by which its caller could be known. */
function hasCredentials(incoming: Pick<Incoming, 'header'>): boolean {
  return ['authorization', 'x-api-key'].some((name) => incoming.header(name) !== undefined)
}

/** The key of the caller, if it has one that is in force. The ledger is not asked, and nothing is counted. */
function callerOf(call: Call): ListChain | undefined | Promise<ListChain | undefined> {
  const { accounts } = call.runtime
  const secret = apiKeyIn(call.incoming)
  if (!secret || !hasValidChecksum(secret)) return undefined
  const sha256 = hashSecret(secret)
  const lookup = accounts.find(sha256)
  if (!(lookup instanceof Promise)) return inForce(call, lookup)
  const late = () => new Error('the records have not answered in time')
  return inTime(lookup, FIND_MS, late).then(
    (resolved) => inForce(call, resolved),
    () => inForce(call, accounts.remembered(sha256)),
  )
}

function inForce(call: Call, resolved: ResolvedKey | null | undefined): ListChain | undefined {
  if (!resolved) return undefined
  const { key, account } = resolved
  const isOver = [key, account].some((one) => one.disabled || one.archivedAt !== undefined)
  if (isOver || (key.expiresAt !== undefined && key.expiresAt <= Date.now())) return undefined
  call.made.admission = { key, account, played: false }
  return resolved
}

/** One model, by any of its names. */
export const model: GetRoute = {
  path: `${PATH}/{id}`,
  ...PUBLIC,
  answer(call) {
    const { catalog } = call
    const name = withoutOnline(argumentOf(call))
    const model = catalog.find(name)
    if (!model) throw unknownModel(catalog, name)
    return documentOf(model, () => JSON.stringify(entryOf(model)))
  },
}

/** The models that the key may use now: those of its lists, and of the tier of its account. */
export const usableModels: GetRoute = {
  path: `${PATH}/user`,
  authenticated: true,
  cacheControl: 'no-store',
  answer({ catalog, admission }) {
    const offered = admission.entered!.paid ? catalog.offered() : catalog.freeTier()
    return listOf(offered.filter(({ id }) => mayUse(admission, id, catalog)))
  },
}

function documentOf(owner: Catalog | Model, json: () => string): PublicDocument {
  let document = documents.get(owner)
  if (!document) documents.set(owner, (document = new PublicDocument(json())))
  return document
}

/** The rest of the path, which clients may encode. @throws InvalidRequest where it cannot be decoded */
function argumentOf({ incoming }: Call): string {
  const [path = ''] = incoming.url.split('?', 1)
  try {
    return decodeURIComponent(path.slice(PATH.length + 1))
  } catch {
    throw new InvalidRequest('invalid_value', 'The model in the path is not encoded as UTF-8.')
  }
}
