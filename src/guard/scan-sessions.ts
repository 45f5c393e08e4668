/** Guards that can follow lanes: banned patterns, and plugins. */
import type { Channel, OutputCheck, TextStream, Origin } from '../plugin.ts'
import { BySegments, PluginFollower, type Scout } from './scan-session.ts'
import { RemoteLane, RemoteSegments } from './scan-sessions-remote.ts'
import { PatternFollower, PatternSearch, type Searcher } from './scan-sessions-pattern.ts'
import { AsItGrows, BySlices } from './scan-sessions-whole.ts'
import type { Segment } from './segments.ts'
import type { GuardRunner } from './runner.ts'

/** What remote guards, which judge sense, are not asked about: the model's own refusals and what search engines found. */
const EXACT_ONLY: ReadonlySet<Channel> = new Set(['refusal', 'annotation'])

const NOBODY = (): void => {}

/** Banned patterns. @param offset position of the first of them in the effective list */
export function patternScout(matcher: Searcher, offset: number, origin: Origin): Scout {
  return {
    name: 'patterns',
    origin,
    local: true,
    whole: false,
    reads: () => true,
    follow: (_lane, changed, atOnce) =>
      atOnce
        ? new PatternSearch(matcher, offset, origin, changed ?? NOBODY)
        : new PatternFollower(matcher, offset, origin, changed),
  }
}

/** A plugin. @param question what the user asked, shown with every segment */
export function pluginScout(watch: GuardRunner, question: string): Scout {
  const { guard, name, origin, local } = watch
  return {
    name,
    origin,
    local,
    whole: guard.needsFullText === true,
    reads: (channel) =>
      (guard.streamOutput !== undefined || guard.checkOutput !== undefined) &&
      (local || !EXACT_ONLY.has(channel)),
    follow(lane, changed, atOnce) {
      const streams =
        guard.streamOutput !== undefined && !(guard.needsFullText && guard.checkOutput)
      if (!local) {
        return streams
          ? new RemoteLane(watch, lane, changed ?? NOBODY)
          : new RemoteSegments(watch, lane, question, changed ?? NOBODY)
      }
      const follower = streams
        ? new LaneFollower(watch, lane)
        : new SegmentFollower(watch, lane, question)
      if (!changed) return follower
      return atOnce ? new BySlices(follower, changed) : new AsItGrows(follower, changed)
    },
  }
}

/** A local plugin that follows the lane itself. */
class LaneFollower extends PluginFollower {
  #lane: OutputCheck | undefined

  constructor(watch: GuardRunner, lane: TextStream) {
    super(watch)
    this.#try(() => {
      this.#lane = watch.guard.streamOutput!(lane, watch.context)
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
        this.check(this.watch.guard.checkOutput!(unit, context), segment),
      )
      if (block) this.stop = { block }
      else this.safe = segment.end
    } catch (error) {
      this.fail(error)
    }
  }

  protected ended(): void {}
}
