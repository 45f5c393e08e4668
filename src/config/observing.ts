/** Settings of what others are told: sinks, and traces. */
import * as v from 'valibot'
import { duration } from '../models/entry.ts'
import { name, text } from './values.ts'

const SINK = 'the name or path of a plugin'
/** One sink. */
export const sink = v.strictObject({
  use: text(SINK),
  name: v.optional(name),
  options: v.optional(v.record(v.string(), v.unknown()), {}),
})

const RATIO = 'a number from 0 to 1'
/** What traces are made of, and of which calls. */
export const telemetry = v.strictObject({
  semconv: v.optional(v.picklist(['v1.41', 'genai-dev']), 'v1.41'),
  service: v.optional(text('a name'), 'sluicegate'),
  ratio: v.optional(v.pipe(v.number(RATIO), v.minValue(0, RATIO), v.maxValue(1, RATIO)), 1),
  slow: v.optional(duration, 30),
})
