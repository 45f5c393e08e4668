/** Guards that read output: banned patterns and plugins, and which of them read which channel. */
import type { Channel, Origin } from '../plugin.ts'
import type { OutputScanner } from './scan-session.ts'
import {
  fullText,
  patternCheck,
  pushAll,
  searchPatterns,
  sliced,
  streamCheck,
  type Matcher,
  segmentCheck,
} from './text-checks.ts'
import type { GuardRunner } from './runner.ts'

/** Longer pieces are read in slices of time. */
const LONG = 1 << 14
/** Patterns of a request, which its author can make slow, look at the clock after every piece. */
const LONG_FOR_REQUESTS = 0

/** Channels that only exact rules read: the model's own refusals, and pages that it cites. */
const EXACT_ONLY: ReadonlySet<Channel> = new Set(['refusal', 'annotation'])

/** Scans for banned patterns. @param offset position of the first of them in the effective list */
export function patternScanner(matcher: Matcher, offset: number, origin: Origin): OutputScanner {
  return {
    guard: 'patterns',
    origin,
    local: true,
    needsFullText: false,
    reads: () => true,
    check(_stream, atOnce, proceed) {
      if (atOnce) return fullText((text) => searchPatterns(matcher, offset, text, proceed))
      const check = patternCheck(matcher, offset, proceed)
      return proceed && origin === 'request' ? sliced(check, LONG_FOR_REQUESTS, proceed) : check
    },
  }
}

/** Asks a plugin. @param userTurn what the user asked, shown with every segment */
export function pluginScanner(runner: GuardRunner, userTurn: string): OutputScanner {
  const { guard, name, origin, local } = runner
  const needsFullText = guard.needsFullText === true
  const followsStreams = guard.streamOutput && !(needsFullText && guard.checkOutput)
  return {
    guard: name,
    origin,
    local,
    needsFullText,
    reads: (channel) =>
      (guard.streamOutput !== undefined || guard.checkOutput !== undefined) &&
      (local || !EXACT_ONLY.has(channel)),
    check(stream, atOnce, proceed) {
      if (!followsStreams && needsFullText) {
        return fullText((text) => segmentCheck(runner, stream, userTurn).judge(text))
      }
      const check = followsStreams
        ? streamCheck(runner, stream)
        : segmentCheck(runner, stream, userTurn)
      if (!local || !proceed) return check
      const inSlices = sliced(check, LONG, proceed)
      return atOnce ? fullText((text) => pushAll(inSlices, text)) : inSlices
    },
  }
}

/** The scanners of an answer, by channel. */
export class ScannerSet {
  readonly all: readonly OutputScanner[]
  readonly #byChannel = new Map<Channel, readonly OutputScanner[]>()

  /** @param all local ones first */
  constructor(all: readonly OutputScanner[]) {
    this.all = all
  }

  /** Those that read a channel, in the order of all. */
  of(channel: Channel): readonly OutputScanner[] {
    let some = this.#byChannel.get(channel)
    if (!some) this.#byChannel.set(channel, (some = this.all.filter((one) => one.reads(channel))))
    return some
  }
}
