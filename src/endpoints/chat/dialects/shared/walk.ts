/**
 * What a vendor would fetch or look up of a body that goes out as it came: addresses, and ids of things in the operator's
 * account. Also in items and blocks of types that are not known here.
 */
import { isObject } from '../../../../errors/checks.ts'
import { InvalidRequest } from '../../../../errors/errors.ts'
import type { ClientAddress } from '../../../../pipeline/pipeline.ts'

const ADDRESS = /^url$|_ur[li]$/i
/** Names of files, stores and logins that belong to an account at the vendor. */
const ACCOUNT_IDS: ReadonlySet<string> = new Set(
  (
    'file_id file_ids container container_id vector_store_ids skill_id skills connector_id server_url environment_id ' +
    'vault_ids'
  ).split(' '),
)
/** Members about pages that were found, and the client's own labels: nothing there is fetched. */
const FOUND: ReadonlySet<string> = new Set(['citations', 'annotations', 'action', 'metadata'])
const FOUND_TYPES: ReadonlySet<unknown> = new Set([
  'web_search_result',
  'web_fetch_result',
  'search_result',
])
/** Schemas of tools and of answers, below these members. */
const SCHEMAS: ReadonlySet<string> = new Set(['input_schema', 'parameters', 'schema'])

interface Place {
  readonly value: object
  readonly path: string
  /** It is true inside the definition of a tool, or of the form of an answer. */
  readonly isDefinition: boolean
}

/**
 * The addresses of a body. Not recursive.
 * @param body its members that will be sent
 * @throws InvalidRequest `unsupported_value` for an id of the operator's account, or an address that is not https
 */
export function addressesInBody(body: Readonly<Record<string, unknown>>): ClientAddress[] {
  const addresses: ClientAddress[] = []
  const left: Place[] = [{ value: body, path: '', isDefinition: false }]
  for (let place = left.pop(); place; place = left.pop()) {
    const { value, path, isDefinition } = place
    if (Array.isArray(value)) {
      value.forEach((item, i) => {
        if (isContainer(item)) left.push({ value: item, path: `${path}[${i}]`, isDefinition })
      })
      continue
    }
    const { type } = value as Record<string, unknown>
    if (FOUND_TYPES.has(type)) continue
    for (const [name, member] of Object.entries(value)) {
      if (member === null || isExempt(name, type, isDefinition)) continue
      const at = path === '' ? name : `${path}.${name}`
      if (path !== '' && ACCOUNT_IDS.has(name)) throw ofAccount(at)
      if (typeof member === 'string') {
        if (ADDRESS.test(name) && isAddress(member, at)) addresses.push({ url: member, param: at })
      } else if (isContainer(member)) {
        const defines = isDefinition || DEFINITIONS.has(name)
        left.push({ value: member, path: at, isDefinition: defines })
      }
    }
  }
  return addresses
}

const DEFINITIONS: ReadonlySet<string> = new Set([
  'tools',
  'text',
  'output_config',
  'output_format',
  'format',
])

function isContainer(value: unknown): value is object {
  return isObject(value) || Array.isArray(value)
}

function isExempt(name: string, type: unknown, isDefinition: boolean): boolean {
  if (FOUND.has(name)) return true
  if (isDefinition && SCHEMAS.has(name)) return true
  // The input of a call is the model's.
  return name === 'input' && typeof type === 'string' && type.endsWith('tool_use')
}

/** @throws InvalidRequest for another scheme than https and data */
function isAddress(text: string, param: string): boolean {
  const scheme = /^\s*([a-z][a-z0-9+.-]*:|\/\/)/i.exec(text.slice(0, 64))?.[1]?.toLowerCase()
  if (scheme === undefined || scheme === 'data:') return false
  if (scheme === 'https:') return true
  const message = `Invalid '${param}': expected an https address or a data URL, found another scheme.`
  throw new InvalidRequest('unsupported_value', message, { param })
}

function ofAccount(param: string): InvalidRequest {
  const message = `Invalid '${param}': files, containers and logins at a vendor cannot be referred to here.`
  return new InvalidRequest('unsupported_value', message, { param })
}

/** The names of top-level members that a vendor does not get: those that are not on the list. */
export function notPassed(
  body: object,
  passed: ReadonlySet<string>,
  further: readonly string[],
  never: ReadonlySet<string>,
): string[] {
  const mayPass = (name: string) =>
    passed.has(name) || (!never.has(name) && (further.includes(name) || further.includes('*')))
  return Object.keys(body).filter((name) => !mayPass(name))
}

/** Members of another price, account or store, which no setting lets through. */
export const NEVER_PASSED: ReadonlySet<string> = new Set(
  (
    'mcp_servers container fallbacks fallback_credit_token billing_policy thread speed inference_geo background ' +
    'previous_response_id conversation prompt client_metadata access_programs ' +
    'policy session_id plugins provider models route transforms usage'
  ).split(' '),
)
