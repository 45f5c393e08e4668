/** Checks of search engines: their questions, and their reading of the answer. */
import { isDeepStrictEqual } from 'node:util'
import type { DomainFilter } from '../../plugin.ts'
import { describeError, toCheck, type Check } from '../report.ts'
import {
  answerText,
  differencesOf,
  responseOf,
  search,
  textOf,
  textsOf,
  WORDS,
  type SearchCase,
  type SearchFixture,
} from '../search-cases.ts'

const HOSTS = ['first.example', 'second.example'] as const
const PATH = '/deep'
const MARKUP = /<\/?[a-z][^<>]*>|&(?:[a-z]{2,8}|#\d{1,6});/i
const COST = /^\d+(?:\.\d+)?$/
const AT_ONCE = 6

/** Checks that addresses are those of the answer, texts are without markup, the cost is decimal text. */
export async function checkFields(
  fixture: SearchFixture,
  cases: readonly SearchCase[],
): Promise<Check> {
  const problems: string[] = []
  for (const one of cases) {
    const { found } = await search(fixture, responseOf(one), one.query)
    const answer = answerText(one).replaceAll('\\/', '/')
    for (const [i, result] of (found?.results ?? []).entries()) {
      const at = `${one.name}: results[${i}]`
      const { url, title, content } = result
      if (!/^https?:\/\//.test(url) || !URL.canParse(url))
        problems.push(`${at}.url is not an absolute http(s) address: ${url}`)
      else if (!answer.includes(url)) problems.push(`${at}.url is not in the answer: ${url}`)
      for (const [name, text] of Object.entries({ title, content })) {
        if (typeof text !== 'string') problems.push(`${at}.${name} is no text`)
        else if (MARKUP.test(text)) problems.push(`${at}.${name} has HTML in it`)
      }
    }
    const { vendorCost } = found ?? {}
    if (vendorCost !== undefined && !COST.test(String(vendorCost)))
      problems.push(`${one.name}: vendorCost is no decimal text`)
  }
  return toCheck('fields', null, problems)
}

/** Checks that the words arrive unchanged, once, and no longer than wanted, and that the number counts. */
export async function checkQuery(fixture: SearchFixture, first: SearchCase): Promise<Check> {
  const problems: string[] = []
  const answer = responseOf(first)
  const one = await search(fixture, answer)
  const fewer = await search(fixture, answer, { maxResults: 1 })
  const [request] = one.asked
  const arrives = request && textsOf(request).some((text) => text.includes(WORDS))
  if (!arrives)
    problems.push(`the request does not have the words of the query as they are: ${WORDS}`)
  const long = await search(fixture, answer, { text: `${'word '.repeat(2000)}zqend` })
  if (long.asked.some((received) => textOf(received).includes('zqend')))
    problems.push('a query of 10,000 characters is sent whole; give text() a limit')
  // Some services take no number; the gateway leaves out what is too much.
  const same = request && fewer.asked[0] && textOf(request) === textOf(fewer.asked[0])
  const fits = (fewer.found?.results.length ?? 0) <= 1
  const notes = same && !fits ? ['it does not ask for "maxResults" results'] : []
  return toCheck('query', null, problems, notes)
}

/** Checks that domains have the influence that `narrows` promises, and no other one. */
export async function checkDomains(fixture: SearchFixture, first: SearchCase): Promise<Check> {
  const { include, exclude } = fixture.plugin.narrows ?? {}
  const answer = responseOf(first)
  const problems: string[] = []
  const sent = async (query: SearchCase['query']) => {
    const { asked, error } = await search(fixture, answer, query)
    if (error !== undefined) problems.push(describeError(error))
    return asked.map(textOf).join('\n')
  }
  const [one, other] = HOSTS
  const hosts = HOSTS.map((host) => ({ host }))
  const deep: DomainFilter[] = [{ host: one, path: PATH }]
  const plain = await sent({})
  const included = await sent({ includeDomains: hosts })
  const excluded = await sent({ excludeDomains: hosts })
  const excludedPath = await sent({ excludeDomains: deep })
  if (included.includes(one) !== included.includes(other))
    problems.push('of two hosts to include it names one: it searches less than was asked for')
  if (excludedPath.includes(one) && !excludedPath.includes(PATH))
    problems.push('it leaves out a whole host where one path was to be left out')
  if (include && included === plain)
    problems.push(`"narrows" promises to include ${include}, which has no influence`)
  if (exclude && excluded === plain)
    problems.push(`"narrows" promises to exclude ${exclude}, which has no influence`)
  if (include === 'paths' && !(await sent({ includeDomains: deep })).includes(PATH))
    problems.push('"narrows" promises to include paths, and it names hosts alone')
  if (exclude === 'paths' && !excludedPath.includes(PATH))
    problems.push('"narrows" promises to exclude paths, and it leaves them out')
  if (fixture.plugin.narrows) {
    if (!include && included !== plain) problems.push('it includes domains; say so in "narrows"')
    if (!exclude && excluded !== plain) problems.push('it excludes domains; say so in "narrows"')
  }
  return toCheck('domains', null, problems)
}

export async function checkRepeat(
  fixture: SearchFixture,
  cases: readonly SearchCase[],
): Promise<Check> {
  const good = cases.filter(({ expect }) => !expect.failure)
  const one = good[0]!
  const alone = await search(fixture, responseOf(one), one.query)
  const problems: string[] = []
  // What another search leaves behind must not come back.
  for (const other of good.slice(1)) await search(fixture, responseOf(other), other.query)
  await search(fixture, responseOf(one), { text: 'Something else?', maxResults: 2 })
  const again = await search(fixture, responseOf(one), one.query)
  if (again.error !== undefined || differencesOf(one.expect, again.found!).length > 0)
    problems.push('the same search later has other results')
  if (!isDeepStrictEqual(again.asked.map(textOf), alone.asked.map(textOf)))
    problems.push('the same search later is asked in another way')
  const together = await Promise.all(
    Array.from({ length: AT_ONCE }, () => search(fixture, responseOf(one), one.query)),
  )
  const differ = together.some(
    ({ found, error }) => error !== undefined || differencesOf(one.expect, found!).length > 0,
  )
  if (differ) problems.push('searches at the same time have other results than one alone')
  return toCheck('repeat', null, problems)
}
