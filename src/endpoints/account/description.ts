/** `GET /openapi.json`: the description of the API, which `npm run openapi` writes from the checks of requests. */
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { PublicDocument } from './document.ts'
import type { GetRoute } from './route.ts'

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
