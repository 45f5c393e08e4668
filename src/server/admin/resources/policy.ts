import * as v from 'valibot'
import { isPastMoment, PAST_MOMENT } from '../../../errors/moments.ts'
import type { Category } from '../../../plugin/categories.ts'
import type { Usd } from '../../../money/amounts.ts'
import { flag, modelsByName, recordId, whole } from './settings.ts'

/** A policy as it is written in a key record, or in the `policy` of a request. */
export interface Policy {
  readonly version: 1
  /** The only subjects allowed, in free text. At most 4,000 code points. */
  readonly scope?: string
  readonly deny?: readonly Category[]
  readonly systemPrompt?: string
  /** Text of at most 2,000 code points. */
  readonly refusal?: string
  readonly escalate?: Escalation
  /** 1 to 200,000, per choice. */
  readonly maxOutputTokens?: number
  /** RE2 expressions: at most 32, of 1 to 200 code points. */
  readonly bannedPatterns?: readonly string[]
  readonly guard?: Partial<GuardSettings>
}

export interface Escalation {
  readonly enabled: boolean
  /** It is appended to the refusal. At most 2,000 code points. */
  readonly message?: string
}

export interface GuardSettings {
  /** Sides on which rules are evaluated. */
  readonly input: boolean
  readonly output: boolean
  /** The judge: a catalog id or `guard/<plugin>`. It has at most 120 code points. */
  readonly model?: string
  readonly mode: 'block' | 'monitor'
  readonly onError: 'block' | 'allow'
  readonly onBlock: 'refuse' | 'error'
  readonly stream: 'scan' | 'buffer'
}

/** A policy; checked only for being an object, `readPolicy` checks the members. */
export const policyObject = v.record(v.string(), v.unknown(), 'a policy object')

const pair = <Schema extends v.GenericSchema>(schema: Schema) => ({
  from: v.nullable(schema),
  to: v.nullable(schema),
})

/** `POST /policies/diff`: two policies, and possibly two allowlists; null stands for none, and allows all models. */
export const policyPair = v.strictObject({
  ...pair(policyObject),
  models: v.optional(v.strictObject(pair(modelsByName))),
})

/** `POST /policies/evaluate`: a policy and the texts to test it on. */
export const trial = v.strictObject({
  policy: policyObject,
  input: v.optional(v.string('a text')),
  output: v.optional(v.string('a text')),
  /** Characters of the output that arrive at a time; absent for an answer that comes whole. */
  chunk: v.optional(whole(1, 10_000, ' of characters')),
  /** Whether guards may ask models and services. */
  ask: v.optional(flag, false),
})

const moment = v.pipe(
  v.string(PAST_MOMENT),
  v.check(isPastMoment, PAST_MOMENT),
  v.transform((text) => Date.parse(text)),
)

/** `POST /policies/replay`: a policy, and the kept calls to try it on. */
export const replay = v.strictObject({
  policy: policyObject,
  key: v.nullish(recordId),
  from: v.nullish(moment),
  to: v.nullish(moment),
  limit: v.optional(whole(1, 200), 50),
  ask: v.optional(flag, false),
})

/** Verdict of a rule of a policy on a text. */
export interface Verdict {
  readonly rule: string
  readonly side: 'input' | 'output'
  readonly guard: string
  readonly verdict: 'pass' | 'block' | 'error' | 'not-asked'
  readonly spans?: readonly {
    readonly start: number
    readonly end: number
    readonly text: string
    readonly label?: string
  }[]
  readonly view?: string
  readonly score?: number
  readonly reason?: string
  readonly error?: string
  readonly ms?: number
}

export interface Tried {
  readonly verdicts: readonly Verdict[]
  readonly blocked: readonly Verdict['side'][]
  readonly refusal: string
  /** The output that the client would get. */
  readonly shown: {
    readonly text: string
    readonly cut?: number
    readonly refusal?: string
    readonly header?: string
  } | null
  /** The input as a vendor would see it for a key whose personal data is masked; null without a guard that masks. */
  readonly masked: string | null
  readonly warnings: readonly string[]
  readonly cost_usd?: Usd
}

export interface MemberDifference {
  readonly member: string
  readonly from: unknown
  readonly to: unknown
  readonly order: 'tighter' | 'looser' | 'equal' | 'changed'
}

export interface PolicyDifference {
  readonly members: readonly MemberDifference[]
  /** Rules that a request can still add. */
  readonly may_tighten: {
    readonly scope: boolean
    readonly deny: readonly string[]
    readonly banned_patterns: number
    readonly max_output_tokens: number | null
    readonly guard: readonly string[]
  }
}

/** Actual or possible verdict on one side of a call. */
export type SideVerdict = 'pass' | 'block' | 'monitor'

export interface Replayed {
  readonly contents: number
  readonly calls: number
  readonly unreadable: number
  /** Number of answers that a guard had cut: later text was not kept. */
  readonly cut: number
  readonly blocked: { readonly before: number; readonly after: number }
  readonly changed: readonly {
    readonly id: string
    readonly key_id: string
    readonly model: string | null
    readonly side: Verdict['side']
    readonly from: SideVerdict
    readonly to: SideVerdict
    readonly rules: readonly string[]
  }[]
  readonly failed_guards: readonly string[]
  readonly cost_usd?: Usd
}
