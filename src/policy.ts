/**
 * The policy of a key, and the tightening policy a request may carry: validation, merge, instructions. Pure functions.
 * Semantics of every member: guard design, sections 1 and 2.
 */
import * as v from 'valibot'
import { isObject, longerThan, quote } from './checks.ts'
import { InvalidRequest } from './errors.ts'
import { CATEGORIES, type Category } from './plugin.ts'

/** What is shown in place of blocked text when the key's policy names nothing else. */
export const DEFAULT_REFUSAL = "I can't help with that here."

/** A policy as it is written: in a key record, or in the `policy` of a request (wire contract, 7). */
export interface Policy {
  readonly version: 1
  /** The only subjects allowed, in free text. At most 4,000 code points. */
  readonly scope?: string
  readonly deny?: readonly Category[]
  /** At most 20,000 code points. */
  readonly systemPrompt?: string
  /** At most 2,000 code points. */
  readonly refusal?: string
  readonly escalate?: Escalation
  /** 1 to 200,000, per choice. */
  readonly maxOutputTokens?: number
  /** At most 32 of 1 to 200 code points. */
  readonly bannedPatterns?: readonly string[]
  readonly guard?: Partial<GuardSettings>
}

export interface Escalation {
  readonly enabled: boolean
  /** Put after the refusal. At most 2,000 code points. */
  readonly message?: string
}

export interface GuardSettings {
  /** On which sides rules are evaluated. */
  readonly input: boolean
  readonly output: boolean
  /** The judge: a catalog id or `guard/<plugin>`. At most 120 code points. */
  readonly model?: string
  readonly mode: 'block' | 'monitor'
  readonly onError: 'block' | 'allow'
  readonly onBlock: 'refuse' | 'error'
  readonly stream: 'scan' | 'buffer'
}

/** What holds for one call: the key's policy, tightened by the request's. Deeply frozen. */
export interface EffectivePolicy {
  /** All of them hold. The key's comes first. */
  readonly scopes: readonly string[]
  /** In the order of {@link CATEGORIES}. */
  readonly deny: readonly Category[]
  /** The key's come first; no two are equal. */
  readonly bannedPatterns: readonly string[]
  /** Infinity where there is no ceiling. */
  readonly maxOutputTokens: number
  readonly systemPrompt?: string
  readonly refusal: string
  readonly escalate: Escalation
  readonly guard: GuardSettings
  /** Members of the request's policy that had no effect, sorted, such as `guard.mode`. */
  readonly ignored: readonly string[]
}

/** What a policy tells the model, besides what guards enforce. */
export interface Instructions {
  /** The first system message. */
  readonly system?: string
  readonly maxOutputTokens?: number
}

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
  bannedPatterns: v.optional(array(text(200, 1), 32)),
  guard: v.optional(GUARD),
})
const NESTED = new Map<string, ObjectSchema>([
  ['escalate', ESCALATE],
  ['guard', GUARD],
])

/** No policy on a key is the same as the empty one. */
const FREE = effective({ version: 1 })

/**
 * Validates a policy. The first problem in the order of the document is reported; a member that is missing comes after
 * those that are there. `null` never means absent, and members we do not know are refused at any depth. The syntax of
 * patterns is not looked at.
 * @param path where the policy stands, for `param`
 * @throws InvalidRequest `invalid_policy`, with the path of the member
 */
export function readPolicy(value: unknown, path = 'policy'): Policy {
  check(POLICY, value, path)
  return v.parse(POLICY, value)
}

/**
 * The key's policy, made tighter by the request's; what would loosen it or cannot be compared is ignored and named
 * (guard design, 2.2). Pure.
 */
export function tighten(key: Policy | undefined, request: Policy | undefined): EffectivePolicy {
  const base = key === undefined ? FREE : effective(key)
  return request === undefined ? base : tightened(base, request)
}

/** What a policy puts into an outbound request; nothing for most. */
export function instructionsOf(policy: EffectivePolicy): Instructions | undefined {
  const { systemPrompt, maxOutputTokens } = policy
  const hasCeiling = maxOutputTokens !== Infinity
  if (systemPrompt === undefined && !hasCeiling) return undefined
  return {
    ...(systemPrompt === undefined ? {} : { system: systemPrompt }),
    ...(hasCeiling ? { maxOutputTokens } : {}),
  }
}

/** The rules that a guard has to enforce, such as `deny:code`; none when both sides are off. */
export function guardRules({ guard, ...policy }: EffectivePolicy): readonly string[] {
  if (!guard.input && !guard.output) return []
  return [
    ...(policy.scopes.length > 0 ? ['scope'] : []),
    ...policy.deny.map((category) => `deny:${category}`),
    ...policy.bannedPatterns.map((_, index) => `bannedPatterns[${index}]`),
  ]
}

function effective(key: Policy): EffectivePolicy {
  return frozen({
    scopes: clauses(key),
    deny: CATEGORIES.filter((category) => key.deny?.includes(category)),
    bannedPatterns: [...new Set(key.bannedPatterns)],
    maxOutputTokens: key.maxOutputTokens ?? Infinity,
    ...(key.systemPrompt ? { systemPrompt: key.systemPrompt } : {}),
    refusal: key.refusal || DEFAULT_REFUSAL,
    escalate: escalation(key.escalate),
    guard: {
      input: true,
      output: true,
      mode: 'block',
      onError: 'block',
      onBlock: 'refuse',
      stream: 'scan',
      ...key.guard,
    },
    ignored: [],
  })
}

function tightened(base: EffectivePolicy, request: Policy): EffectivePolicy {
  const ignored: string[] = []
  const wanted = request.guard ?? {}

  // Of two values with an order, the tighter one.
  function tighter<T>(name: string, asked: T | undefined, held: T, tight: T): T {
    if (asked === undefined || asked === held) return held
    if (asked === tight) return asked
    ignored.push(name)
    return held
  }
  // A value without an order cannot be shown to tighten.
  function keep(name: string, asked: unknown, same: boolean): void {
    if (asked !== undefined && !same) ignored.push(name)
  }

  const { guard, escalate } = base
  const asked = escalation(request.escalate)
  keep('systemPrompt', request.systemPrompt, request.systemPrompt === (base.systemPrompt ?? ''))
  keep('refusal', request.refusal, (request.refusal || DEFAULT_REFUSAL) === base.refusal)
  keep(
    'escalate',
    request.escalate,
    asked.enabled === escalate.enabled && asked.message === escalate.message,
  )
  keep('guard.model', wanted.model, wanted.model === guard.model)
  keep('guard.onBlock', wanted.onBlock, wanted.onBlock === guard.onBlock)
  const ceiling = request.maxOutputTokens ?? Infinity
  keep('maxOutputTokens', request.maxOutputTokens, ceiling <= base.maxOutputTokens)
  return frozen({
    ...base,
    scopes: [...new Set([...base.scopes, ...clauses(request)])],
    deny: CATEGORIES.filter(
      (category) => base.deny.includes(category) || request.deny?.includes(category),
    ),
    bannedPatterns: [...new Set([...base.bannedPatterns, ...(request.bannedPatterns ?? [])])],
    maxOutputTokens: Math.min(base.maxOutputTokens, ceiling),
    guard: {
      ...guard,
      input: tighter('guard.input', wanted.input, guard.input, true),
      output: tighter('guard.output', wanted.output, guard.output, true),
      mode: tighter('guard.mode', wanted.mode, guard.mode, 'block'),
      onError: tighter('guard.onError', wanted.onError, guard.onError, 'block'),
      stream: tighter('guard.stream', wanted.stream, guard.stream, 'buffer'),
    },
    ignored: ignored.sort(),
  })
}

function clauses({ scope }: Policy): string[] {
  const clause = scope?.trim()
  return clause ? [clause] : []
}

/** An empty message is none. */
function escalation(given: Escalation = { enabled: false }): Escalation {
  const { enabled, message } = given
  return message ? { enabled, message } : { enabled }
}

function frozen(policy: EffectivePolicy): EffectivePolicy {
  for (const member of Object.values(policy)) Object.freeze(member)
  return Object.freeze(policy)
}

type ObjectSchema = v.StrictObjectSchema<v.ObjectEntries, undefined>

// By hand, member by member: valibot goes by the order of the schema.
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
