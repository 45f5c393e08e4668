/** Guards that can follow lanes: banned patterns, and plugins. */
import type { Channel, LaneGuard, LaneInfo, Matcher, Scan } from '../plugin.ts'
import { BySegments, PluginFollower, type Follower, type Scout, type Stop } from './follower.ts'
import { RemoteLane, RemoteSegments } from './followers-remote.ts'
import type { Segment } from './segments.ts'
import type { Origin, Watch } from './watch.ts'

/** What remote guards, which judge sense, are not asked about: the model's own refusals and what search engines found. */
const EXACT_ONLY: ReadonlySet<Channel> = new Set(['refusal', 'annotation'])
/** Banned patterns. */
export function patternScout(matcher: Matcher, offset: number, origin: Origin): Scout {
  return {
    name: 'patterns',
    origin,
    local: true,
    whole: false,
    reads: () => true,
    follow: () => new PatternFollower(matcher.scan(), offset, origin),
  }
}

/** A plugin. @param question what the user asked, shown with every segment */
export function pluginScout(watch: Watch, question: string): Scout {
  const { guard, name, origin, local } = watch
  return {
    name,
    origin,
    local,
    whole: guard.whole === true,
    reads: (channel) =>
      (guard.outputStream !== undefined || guard.output !== undefined) &&
      (local || !EXACT_ONLY.has(channel)),
    follow(lane, changed) {
      if (guard.outputStream && !(guard.whole && guard.output)) {
        return local ? new LaneFollower(watch, lane) : new RemoteLane(watch, lane, changed)
      }
      return local
        ? new SegmentFollower(watch, lane, question)
        : new RemoteSegments(watch, lane, question, changed)
    },
  }
}

class PatternFollower implements Follower {
  readonly name = 'patterns'
  readonly waiting = false
  readonly origin: Origin
  safe = 0
  stop: Stop | undefined = undefined
  readonly #scan: Scan
  readonly #offset: number

  constructor(scan: Scan, offset: number, origin: Origin) {
    this.#scan = scan
    this.#offset = offset
    this.origin = origin
  }

  push(text: string): void {
    const { safe, hit } = this.#scan.push(text)
    this.safe = safe
    if (hit) this.#block(hit)
  }

  end(): void {
    const { safe, hit } = this.#scan.end()
    this.safe = safe
    if (hit) this.#block(hit)
  }

  leave(): void {}

  #block({ pattern, start, end, view }: NonNullable<ReturnType<Scan['push']>['hit']>): void {
    const rule = `bannedPatterns[${pattern + this.#offset}]` as const
    this.stop = { block: { action: 'block', rule, spans: [{ start, end }] }, view }
  }
}

/** A local plugin that follows the lane itself. */
class LaneFollower extends PluginFollower {
  #lane: LaneGuard | undefined

  constructor(watch: Watch, lane: LaneInfo) {
    super(watch)
    this.#try(() => {
      this.#lane = watch.guard.outputStream!(lane, watch.context)
    })
  }

  push(text: string): void {
    this.length += text.length
    this.#try(() => this.take(this.#lane!.push(text), false))
  }

  end(): void {
    this.#try(() => this.take(this.#lane!.end(), true))
  }

  #try(run: () => void): void {
    if (this.stop) return
    try {
      this.watch.work(run)
    } catch (error) {
      this.fail(error)
    }
  }
}

class SegmentFollower extends BySegments {
  protected judge(segment: Segment): void {
    if (this.stop) return
    const unit = this.unitOf(segment)
    try {
      const block = this.watch.work((context) =>
        this.check(this.watch.guard.output!(unit, context), segment),
      )
      if (block) this.stop = { block }
      else this.safe = segment.end
    } catch (error) {
      this.fail(error)
    }
  }

  protected ended(): void {}
}
