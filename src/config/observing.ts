/** Settings of what others are told: sinks, traces, alerts, and metrics of money. */
import * as v from 'valibot'
import { duration } from '../models/entry.ts'
import { parsePico } from '../money/money.ts'
import { ALERT_KINDS } from '../observe/alerts.ts'
import { usdOrNothing } from '../server/admin/resources/settings.ts'
import { name, number, text } from './values.ts'

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
  content: v.optional(v.boolean('true or false'), false),
})

/** Which alerts are raised, and the balance that is low where an account has no bound of its own. */
export const alerts = v.strictObject({
  balance: v.optional(v.pipe(usdOrNothing, v.transform(parsePico)), '1'),
  off: v.optional(v.array(v.picklist(ALERT_KINDS)), []),
})

const MONEY = 'false, or an object with "top"'
/** Gauges of money, which are off because their labels are accounts and keys. */
export const metrics = v.strictObject({
  money: v.optional(
    v.union(
      [
        v.literal(false),
        v.strictObject({ top: v.optional(number(1, 1000, 'a whole number from 1 to 1000'), 50) }),
      ],
      MONEY,
    ),
    false,
  ),
})
