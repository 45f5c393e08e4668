/** `GET /v1/models`, `/v1/models/{id}` and `/v1/models/user`: the catalog. */
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { InvalidRequest } from '../../errors/errors.ts'
import { unknownModel } from '../../models/allowlist.ts'
import type { Catalog, Model } from '../../models/catalog.ts'
import { listOf } from '../../models/listing.ts'
import { withoutOnline } from '../../models/names.ts'
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

/** Lists of chat models alone, for clients that know no others. */
const texts = new WeakMap<Catalog, PublicDocument>()

/**
 * The models of the gateway; with `output_modalities=text` those that answer with text, from `offset` on. A client of this query asks
 * for a further page as long as pages are large.
 */
export const models: GetRoute = {
  path: PATH,
  ...PUBLIC,
  answer({ catalog, incoming }) {
    const query = new URLSearchParams(incoming.url.split('?', 2)[1])
    if (query.get('output_modalities') !== 'text')
      return documentOf(catalog, () => listOf(catalog.offered()))
    const offset = query.get('offset') ?? '0'
    if (/^[1-9]\d*$/.test(offset)) return listOf(chatsOf(catalog).slice(Number(offset)))
    let document = texts.get(catalog)
    if (!document) texts.set(catalog, (document = new PublicDocument(listOf(chatsOf(catalog)))))
    return document
  },
}

function chatsOf(catalog: Catalog): readonly Model[] {
  return catalog.offered().filter(({ modality }) => modality === 'chat')
}

/** One model, by any of its names. */
export const model: GetRoute = {
  path: `${PATH}/{id}`,
  ...PUBLIC,
  answer(call) {
    const { catalog } = call
    const name = withoutOnline(argumentOf(call))
    const found = catalog.find(name)
    if (!found) throw unknownModel(catalog, name)
    return documentOf(found, () => JSON.stringify(found.listing))
  },
}

/** The models that the key may use now: those of its list, and of the tier of its account. */
export const usableModels: GetRoute = {
  path: `${PATH}/user`,
  authenticated: true,
  cacheControl: 'no-store',
  answer({ catalog, admission: { key, entered } }) {
    const offered = entered!.paid ? catalog.offered() : catalog.freeTier()
    return listOf(offered.filter(({ id }) => !key.models || catalog.allows(key.models, id)))
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
