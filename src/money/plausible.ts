/**
 * Plausibility of usage. A vendor's figures are input: an unreadable one is replaced by an estimate, one that is higher than
 * anything explains it is charged and shown to the operator, and an absurd one is a failure of the vendor.
 */
import type { Usage } from '../plugin.ts'
import { costOf, formatPico, type Pico } from './money.ts'
import type { Prices } from './prices.ts'

type Quantity =
  | 'promptTokens'
  | 'completionTokens'
  | 'images'
  | 'pages'
  | 'seconds'
  | 'searches'
  | 'searchUnits'

/** Estimate and bounds of one quantity of an answer. */
export interface Expected {
  /** It is charged where the vendor reports nothing readable. */
  readonly estimate: number
  /** A higher count is suspicious. */
  readonly soft: number
  /** A higher count is absurd. */
  readonly hard: number
  /** If it is false, nothing is charged or shown where the vendor reports nothing. */
  readonly needed?: boolean
}

/** Tokens that an image, file or sound of a prompt explains. */
export const MEDIA_TOKENS = 25_000
/** Context length of a model that does not say it, in tokens. */
export const UNKNOWN_CONTEXT = 2_000_000
/** Output limit of a model that does not say it, in tokens for each choice. */
export const UNKNOWN_OUTPUT = 200_000

/**
 * Eighths of a token of a text in any script, by estimate: a Latin letter is 2, a Cyrillic or Arabic one 5, a Chinese, Japanese
 * or Korean character 8, an emoji 10.
 */
export function tokenEighths(text: string): number {
  return eighthsOf(Buffer.byteLength(text), text.length)
}

/** The same as {@link tokenEighths}, for texts of which only the UTF-8 bytes and the UTF-16 units are known. */
export function eighthsOf(bytes: number, units: number): number {
  return 3 * bytes - units
}

/** Tokens of a text without a count of its vendor, where they are charged. */
export function textTokens(text: string): number {
  return Math.ceil(tokenEighths(text) / 8)
}

/** Bounds of a token count. @param limit most that the model can take or make */
export function bounds(estimate: number, soft: number, limit: number): Expected {
  return { estimate, soft, hard: Math.max(8 * soft, limit) }
}

/**
 * The request's word about tokens of an answer that its client does not see, such as those of reasoning. Without it the model
 * decides, and against it some write them all the same.
 */
export type Hidden = 'asked' | 'unasked' | 'refused'

/** Known consumption of an answer. */
export interface UsageReport {
  /** The members of {@link Usage} as the vendor reported them, of any type; undefined for none at all. */
  readonly reported: Readonly<Record<string, unknown>> | null | undefined
  readonly expected: Readonly<Partial<Record<Quantity, Expected>>>
  /** Parts of the estimates, such as the tokens of sound in a prompt. */
  readonly parts?: Usage
  /** The gateway's own counts, in place of any report. */
  readonly counted?: Usage
  /** Whether the answer ended before the vendor's last report. */
  readonly incomplete?: boolean
  /** Whether each report covers what was made until then, so that the last one needs no estimate beside it. */
  readonly isRunning?: boolean
  /** Whether tokens of the answer may not have passed; absent where all have. */
  readonly hidden?: Hidden
  /** Whether completion tokens above `soft` are charged by the estimate: a policy's ceiling explains no more. */
  readonly capped?: boolean
}

/** Why an estimate is charged. */
type EstimateReason = 'missing' | 'unreadable' | 'zero' | 'incomplete' | 'overrun' | 'absurd'

/** Result of checking a {@link UsageReport}. */
export interface Assessment {
  /** Usage to charge. For an absurd report, the estimate. */
  readonly usage: Usage
  readonly verdict: 'plausible' | 'suspicious' | 'absurd'
  /** The first reason for an estimate, if there is one. */
  readonly estimated: EstimateReason | undefined
  /** Counts above a bound, as the vendor reported them, beside the bound. */
  readonly figures: Readonly<Record<string, Figure>>
}

/** A count and the bound that it exceeds; amounts are decimal text in USD. */
interface Figure {
  readonly reported: number | string
  readonly bound: number | string
}

/** Members of {@link Usage} that are a part of another one. */
const PARTS = [
  ['cachedTokens', 'promptTokens'],
  ['cachedAudioTokens', 'cachedTokens'],
  ['cachedImageTokens', 'cachedTokens'],
  ['cacheWriteTokens', 'promptTokens'],
  ['cacheWrite1hTokens', 'cacheWriteTokens'],
  ['audioInputTokens', 'promptTokens'],
  ['imageInputTokens', 'promptTokens'],
  ['reasoningTokens', 'completionTokens'],
  ['acceptedPredictionTokens', 'completionTokens'],
  ['rejectedPredictionTokens', 'completionTokens'],
  ['audioOutputTokens', 'completionTokens'],
  ['imageOutputTokens', 'completionTokens'],
] as const

/** A count as it is read: a number that is not negative, rounded up; undefined for anything else. */
export function readCount(value: unknown): number | undefined {
  const isCount = typeof value === 'number' && value >= 0 && Number.isFinite(value)
  return isCount ? Math.ceil(value) : undefined
}

/** Quantities that grow while an answer is made: the last report of a cut answer may be behind. */
const COUNTED_WHILE_CUT: ReadonlySet<Quantity> = new Set([
  'promptTokens',
  'completionTokens',
  'searches',
])

/**
 * The report of an answer that was stopped before its vendor's last one.
 * @param tokens least number of tokens of the answer, by the time that it took
 */
export function stopped(report: UsageReport, tokens: number): UsageReport {
  const { reported, expected, incomplete = false, isRunning = false } = report
  if (reported && !incomplete && !isRunning) return report
  const { completionTokens: output } = expected
  const estimate = output && { ...output, estimate: Math.max(output.estimate, tokens) }
  return {
    ...report,
    incomplete: true,
    expected: { ...expected, ...(estimate && { completionTokens: estimate }) },
  }
}

/** Checks the usage of one answer. @param most highest plausible cost of a call */
export function assess(report: UsageReport, prices: Prices, most: Pico): Assessment {
  const counted = assessCounts(report)
  if (counted.verdict === 'absurd') return counted
  const assessment = byTokens(counted, prices)
  const cost = costOf({ source: 'model', usage: assessment.usage, prices })
  if (cost <= most) return assessment
  return absurd(report, { cost: { reported: formatPico(cost), bound: formatPico(most) } })
}

/** An answer without the amount by which it should be charged is charged by its tokens, as an estimate. */
function byTokens(assessment: Assessment, { vendor_usd: price }: Prices): Assessment {
  const { usage, estimated = 'missing' } = assessment
  if (price === undefined || usage.vendorCost !== undefined) return assessment
  return { ...assessment, usage: { ...usage, estimated: true }, estimated }
}

function assessCounts(report: UsageReport): Assessment {
  const { expected, counted, parts, incomplete = false, capped = false } = report
  const reported = report.reported ?? {}
  // The parts of an estimated total are estimated as well.
  const partsOf: Record<string, unknown> = { ...reported }
  const names = Object.keys(expected) as Quantity[]
  const figures: Record<string, Figure> = {}
  const usage: Writable = { ...counted }
  let verdict: Assessment['verdict'] = 'plausible'
  let estimated: EstimateReason | undefined
  for (const name of names) {
    const { estimate, soft, hard, needed = true } = expected[name]!
    const count = readCount(reported[name])
    const isCapped = capped && name === 'completionTokens'
    if (count !== undefined && count > hard) {
      verdict = 'absurd'
      figures[name] = { reported: count, bound: hard }
    } else if (count !== undefined && count > soft && !isCapped) {
      if (verdict === 'plausible') verdict = 'suspicious'
      figures[name] = { reported: count, bound: soft }
    }
    const reason = reasonFor(count, reported[name], expected[name]!, {
      isCut: incomplete && COUNTED_WHILE_CUT.has(name),
      isCapped,
    })
    if (reason === undefined || (reason === 'incomplete' && !needed)) usage[name] = count!
    else if (needed) {
      usage[name] = reason === 'incomplete' ? Math.max(count!, estimate) : estimate
      for (const [part, whole] of PARTS) {
        if (whole === name && parts?.[part] !== undefined) partsOf[part] = parts[part]
      }
      estimated ??= reason
    }
  }
  if (verdict === 'absurd') return absurd(report, figures)
  addParts(usage, partsOf)
  if (estimated) usage.estimated = true
  return { usage, verdict, estimated, figures }
}

/** An answer whose report does not count at all. */
function absurd(
  { expected, counted, parts }: UsageReport,
  figures: Assessment['figures'],
): Assessment {
  const needed = Object.entries(expected).filter(([, one]) => one.needed !== false)
  const usage = Object.fromEntries(needed.map(([name, { estimate }]) => [name, estimate]))
  const charged: Writable = { ...usage, ...counted, estimated: true }
  addParts(charged, { ...parts })
  return { usage: charged, verdict: 'absurd', estimated: 'absurd', figures }
}

type Writable = { -readonly [Member in keyof Usage]: Usage[Member] }

/** Why a count is not accepted as it is; undefined if it is. */
function reasonFor(
  count: number | undefined,
  value: unknown,
  { estimate, soft }: Expected,
  { isCut, isCapped }: Readonly<Record<'isCut' | 'isCapped', boolean>>,
): EstimateReason | undefined {
  if (count === undefined) return value === undefined || value === null ? 'missing' : 'unreadable'
  // A call always consumes something, whatever the vendor reports.
  if (count === 0 && estimate > 0) return 'zero'
  if (isCapped && count > soft) return 'overrun'
  return isCut ? 'incomplete' : undefined
}

/** Adds the parts of the totals. None is larger than its whole. */
function addParts(usage: Writable, reported: Readonly<Record<string, unknown>>): void {
  for (const [part, whole] of PARTS) {
    const count = readCount(reported[part])
    const most = usage[whole]
    if (count !== undefined && most !== undefined) usage[part] = Math.min(count, most)
  }
  const { vendorCost } = reported
  if (typeof vendorCost === 'string' && /^\d{1,15}(\.\d{1,18})?$/.test(vendorCost)) {
    usage.vendorCost = vendorCost
  }
}
