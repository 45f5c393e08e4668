/** Validates policies as operators and clients write them. Pure. */
import * as v from 'valibot'
import { isObject, longerThan, quote } from '../errors/checks.ts'
import { InvalidRequest } from '../errors/errors.ts'
import { checkPatterns, checkPatternsSliced } from '../patterns/patterns.ts'
import { CATEGORIES } from '../plugin.ts'
import type { Policy } from '../server/admin/resources/policy.ts'

export type { Escalation, GuardSettings, Policy } from '../server/admin/resources/policy.ts'

/** Most bytes of a policy in a form field. */
const FIELD_BYTES = 256 * 1024

const FLAG = v.boolean('true or false')
const GUARD = v.strictObject({
  input: v.optional(FLAG),
  output: v.optional(FLAG),
  model: v.optional(text(120, 1)),
  mode: v.optional(choice(['block', 'monitor'])),
  onError: v.optional(choice(['block', 'allow'])),
  onBlock: v.optional(choice(['refuse', 'error'])),
  stream: v.optional(choice(['scan', 'buffer'])),
})
const ESCALATE = v.strictObject({ enabled: FLAG, message: v.optional(text(2000)) })
const PATTERNS = v.optional(array(text(200, 1), 32))
const CEILING = 'an integer from 1 to 200000'
const POLICY = v.strictObject({
  version: v.literal(1, 'the number 1'),
  scope: v.optional(text(4000)),
  deny: v.optional(array(choice(CATEGORIES), CATEGORIES.length)),
  systemPrompt: v.optional(text(20_000)),
  refusal: v.optional(text(2000)),
  escalate: v.optional(ESCALATE),
  maxOutputTokens: v.optional(
    v.pipe(
      v.number(CEILING),
      v.integer(CEILING),
      v.minValue(1, CEILING),
      v.maxValue(200_000, CEILING),
    ),
  ),
  bannedPatterns: PATTERNS,
  guard: v.optional(GUARD),
})
const NESTED = new Map<string, ObjectSchema>([
  ['escalate', ESCALATE],
  ['guard', GUARD],
])

/**
 * Validates a policy. The first problem in the order of the document is reported; a missing member comes after those that are
 * there. `null` never means absent. Unknown members are errors at any depth, and so are patterns that do not compile; the
 * message then suggests the pattern as a literal.
 * @param path of the policy, for `param`
 * @throws InvalidRequest `invalid_policy`, with the path of the member
 */
export function readPolicy(value: unknown, path = 'policy'): Policy {
  check(POLICY, value, path)
  return v.parse(POLICY, value)
}

/**
 * Checks the patterns of a policy in time slices before {@link readPolicy}, which then finds the result in a cache and reports
 * problems. A promise only if that takes longer than a slice.
 * @param value a policy, or the text of one. @param proceed throws when the policy is no longer needed
 */
export function preparePolicy(value: unknown, proceed?: () => void): unknown {
  const policy = typeof value === 'string' ? parsed(value) : value
  if (!isObject(policy)) return undefined
  const { success, output } = v.safeParse(PATTERNS, policy.bannedPatterns)
  return success && output ? checkPatternsSliced(output, proceed) : undefined
}

/** The policy in a form field, which is JSON text. @throws InvalidRequest `invalid_policy`, also for more than 256 KiB */
export function readPolicyJson(json: string, path = 'policy'): Policy {
  const value = parsed(json)
  if (value !== undefined) return readPolicy(value, path)
  throw invalid(path, 'JSON of at most 256 KiB', isLong(json) ? 'more' : 'text that is no JSON')
}

/** Warnings for the owner of a policy: settings that are allowed but unwise. */
export async function policyWarnings({ bannedPatterns = [] }: Policy): Promise<string[]> {
  const { warnings } = await checkPatternsSliced(bannedPatterns)
  return warnings.map(
    ({ code, index }) =>
      `${code}: bannedPatterns[${index}] has no longest match, so that text may be held until it ends`,
  )
}

type ObjectSchema = v.StrictObjectSchema<v.ObjectEntries, undefined>

/** Parsed JSON; undefined for text that is not JSON or too long. */
function parsed(json: string): unknown {
  if (isLong(json)) return undefined
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}

function isLong(json: string): boolean {
  return Buffer.byteLength(json) > FIELD_BYTES
}

// Member by member, because valibot would report problems in the order of the schema.
function check(schema: ObjectSchema, value: unknown, path: string): void {
  if (!isObject(value)) throw invalid(path, 'an object', quote(value))
  for (const name of Object.keys(value)) {
    const place = `${path}.${name.slice(0, 64)}`
    if (!Object.hasOwn(schema.entries, name)) {
      const known = Object.keys(schema.entries).join(', ')
      throw invalid(place, `only the members ${known}`, 'another')
    }
    const nested = NESTED.get(name)
    if (nested) check(nested, value[name], place)
    else checkMember(schema.entries[name]!, value[name], place)
    if (schema === POLICY && name === 'bannedPatterns') checkSyntax(value[name] as string[], place)
  }
  for (const [name, entry] of Object.entries(schema.entries)) {
    if (entry.type === 'optional' || Object.hasOwn(value, name)) continue
    checkMember(entry, undefined, `${path}.${name}`)
  }
}

function checkMember(schema: v.GenericSchema, value: unknown, path: string): void {
  const issue = v.safeParse(schema, value, { abortEarly: true }).issues?.[0]
  if (!issue) return
  const index = issue.path?.[0]?.key
  throw invalid(index === undefined ? path : `${path}[${index}]`, issue.message, quote(issue.input))
}

function checkSyntax(patterns: readonly string[], path: string): void {
  const { problem } = checkPatterns(patterns)
  if (!problem) return
  const { index, reason, suggestion } = problem
  const param = `${path}[${index}]`
  const hint = suggestion === undefined ? '' : ` To look for this very text, write ${suggestion}`
  throw new InvalidRequest('invalid_policy', `Invalid '${param}': the pattern ${reason}.${hint}`, {
    param,
  })
}

function invalid(param: string, expected: string, found: string): InvalidRequest {
  const message = `Invalid '${param}': expected ${expected}, found ${found}.`
  return new InvalidRequest('invalid_policy', message, { param })
}

function text(maxLength: number, minLength = 0) {
  const expected = `a string of ${minLength} to ${maxLength} characters`
  return v.pipe(
    v.string(expected),
    v.minLength(minLength, expected),
    v.check((value) => !longerThan(value, maxLength), expected),
  )
}

function choice<const Choices extends readonly string[]>(choices: Choices) {
  return v.picklist(choices, `one of ${choices.join(', ')}`)
}

function array<Item extends v.GenericSchema>(item: Item, maxLength: number) {
  const expected = `an array of at most ${maxLength} items`
  return v.pipe(v.array(item, expected), v.maxLength(maxLength, expected))
}
