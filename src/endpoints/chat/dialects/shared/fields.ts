/** Checks of members that several client forms of chat have. */
import {
  anything,
  boolean,
  either,
  filledText,
  integer,
  list,
  number,
  object,
  problem,
  record,
  shortText,
  text,
  variant,
  type Check,
  described,
} from '../../../../errors/checks.ts'
import { isBase64 } from '../../../shared/media.ts'

// Upper bound on domains: every search result is compared with each; engines take at most a few hundred.
const domains = list(text, 0, 1000)
const webOptions = object({
  enabled: boolean,
  max_results: integer(),
  search_prompt: text,
  include_domains: domains,
  exclude_domains: domains,
})

export const plugins = list(variant('id', { web: webOptions }, { others: anything }))

export const sampling = {
  stream: boolean,
  stream_options: object({ include_usage: boolean }),
  temperature: number(0, 2),
  top_p: number(0, 1),
  frequency_penalty: number(-2, 2),
  presence_penalty: number(-2, 2),
  stop: either('a string or an array of strings', { string: anything, array: list(text, 0, 4) }),
  // JSON.parse reads the largest 64-bit integer as 2^63.
  seed: integer(-(2 ** 63), 2 ** 63),
  logit_bias: record(number(-100, 100)),
} as const satisfies Record<string, Check>

export const sessionId = shortText(256)

const noBase64 = problem('invalid_base64', 'base64', 'another text')

/**
 * Checks that a text is base64, or an address.
 * @param takes.bare plain base64 without `data:`
 * @param takes.url an http(s) address
 */
export function media(takes: { readonly bare: boolean; readonly url: boolean }): Check {
  const forms = ['a data URL', takes.url ? 'an http(s) URL' : '', takes.bare ? 'plain base64' : '']
  const expected = forms.filter(Boolean).join(' or ')
  const check: Check = (value) => {
    if (typeof value !== 'string' || value === '') return filledText(value)
    const scheme = /^[a-z][a-z0-9+.-]*:/.exec(value.slice(0, 32).toLowerCase())?.[0]
    if (scheme === undefined && takes.bare) return isBase64(value) ? undefined : noBase64
    if (takes.url && (scheme === 'https:' || scheme === 'http:')) return undefined
    if (scheme !== 'data:') {
      const actual = scheme === undefined ? 'no scheme' : 'another scheme'
      return problem(takes.url ? 'invalid_value' : 'invalid_base64', expected, actual)
    }
    const comma = value.indexOf(',')
    if (value.slice(comma - 7, comma).toLowerCase() === ';base64') {
      return isBase64(value.slice(comma + 1)) ? undefined : noBase64
    }
    return problem('invalid_base64', 'a data URL with ";base64,"', 'one without')
  }
  return described(check, () => ({ type: 'string', minLength: 1, description: expected }))
}

export const httpUrl: Check = described(
  (value) => {
    if (typeof value !== 'string' || value === '') return filledText(value)
    const isHttp = /^https?:/i.test(value)
    return isHttp ? undefined : problem('invalid_value', 'an http(s) URL', 'another scheme')
  },
  () => ({ type: 'string', pattern: '^[Hh][Tt][Tt][Pp][Ss]?:' }),
)

/** Refuses a file id: there is no store of files. @param instead what a request has in its place */
export function noFileStore(instead: string): Check {
  return described(
    () => problem('unsupported_value', instead, 'a file id'),
    () => ({ not: {} }),
  )
}
