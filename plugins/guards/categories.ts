/**
 * Detects the categories of policies by cue words and shapes, in fourteen languages, with a scorer that can be followed
 * by hand. It catches plain requests, but misses paraphrase, cover stories and most other languages; it is no
 * replacement for a judge. The check is local, and its result does not depend on how an answer is split.
 */
import * as v from 'valibot'
import { CATEGORIES, defineGuard, type Guard } from '../../src/plugin.ts'

const options = v.strictObject({
  /** `hint` blocks nothing and enforces no rule. It writes what it would have blocked to the log, without the text. */
  mode: v.optional(v.picklist(['block', 'hint']), 'block'),
  /** Score from which a text is blocked. A higher one is more certain and finds less. */
  threshold: v.optional(v.pipe(v.number(), v.gtValue(0.5), v.ltValue(1)), 0.85),
})

type Options = v.InferOutput<typeof options>

const outline = ({ mode }: Options): Pick<Guard, 'enforces' | 'execution'> => ({
  enforces: mode === 'hint' ? [] : CATEGORIES.map((category) => `deny:${category}` as const),
  execution: 'local',
})

const categories = defineGuard({
  name: 'categories',
  options,
  async setup(chosen, host) {
    const { createGuard } = await import('./categories/guard.ts')
    const { mode, threshold } = chosen
    const guard = await createGuard({ isHint: mode === 'hint', threshold }, host)
    return { ...outline(chosen), ...guard }
  },
})

export default { ...categories, outline }
