/** Figures of the bench: medians with quartiles, the gateway compared with each of the others, and gates. */

/** Names with their units. What cannot be measured here is NaN. */
export type Figures = Record<string, number>

/** Figures by system, of bursts taken one right after the other. */
export type Turn = Readonly<Record<string, Figures>>

export interface Spread {
  readonly median: number
  readonly from: number
  readonly to: number
}

/** A bound on what the gateway costs: against the floor or the vendor, or alone. `gate` should hold, `target` is aimed at. */
export interface Bound {
  readonly against?: 'floor' | 'direct' | 'plain'
  readonly gate: number
  readonly target?: number
}

/** What is printed of a load. */
export interface Row {
  readonly label: string
  readonly figure: string
  /** What is compared: the ratio, unless the difference says more. */
  readonly how?: '/' | '-'
  readonly bound?: Bound
}

/** One figure of all systems. */
export interface Line {
  readonly label: string
  readonly medians: Readonly<Record<string, Spread>>
  /** The last system with each of the others. */
  readonly compared: Readonly<Record<string, Spread>>
  readonly verdict?: string
}

/** Median and quartiles, undefined where there is no figure. */
export function spread(values: readonly (number | undefined)[]): Spread | undefined {
  const sorted = values.filter((value) => Number.isFinite(value)).toSorted((a, b) => a! - b!)
  if (sorted.length === 0) return undefined
  const at = (share: number) => {
    const index = (sorted.length - 1) * share
    return (sorted[Math.floor(index)]! + sorted[Math.ceil(index)]!) / 2
  }
  return { median: at(0.5), from: at(0.25), to: at(0.75) }
}

/** One figure of these turns. Compared within a turn, so that what else happens on the machine falls on both. */
export function judge(
  { label, figure, how = '/', bound }: Row,
  subject: string,
  turns: readonly Turn[],
): Line {
  const medians: Record<string, Spread> = {}
  const compared: Record<string, Spread> = {}
  for (const system of Object.keys(turns[0]!)) {
    const own = spread(turns.map((turn) => turn[system]![figure]))
    if (own) medians[system] = own
    if (system === subject) continue
    const ratio = spread(
      turns.map((turn) => {
        const [ours = NaN, theirs = NaN] = [turn[subject]![figure], turn[system]![figure]]
        return how === '/' ? ours / theirs : ours - theirs
      }),
    )
    if (ratio) compared[system] = ratio
  }
  if (!bound) return { label, medians, compared }
  const judged = bound.against === undefined ? medians[subject] : compared[bound.against]
  return { label, medians, compared, ...(judged && { verdict: verdictOf(judged.median, bound) }) }
}

function verdictOf(value: number, { against, gate, target }: Bound): string {
  const to = against ? ` to ${against}` : ''
  const reached = target === undefined || value <= target
  const verdict = value > gate ? 'over' : reached ? 'held' : `held, target ${target}`
  return `${gate}${to}: ${verdict}`
}
