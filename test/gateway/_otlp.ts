/**
 * A strict reader of traces in the JSON form of OTLP: it knows every member that the protocol defines for them, and refuses any
 * other, in the form that protobuf's JSON mapping asks for. https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
 */
import * as v from 'valibot'

const hex = (bytes: number) =>
  v.pipe(v.string(), v.regex(new RegExp(`^(?!0+$)[0-9a-f]{${bytes * 2}}$`)))
/** A 64-bit integer is text. */
const integer = v.pipe(v.string(), v.regex(/^-?\d{1,19}$/))
const nanoseconds = v.pipe(v.string(), v.regex(/^1[6-9]\d{17}$/))

type AnyValue =
  | { stringValue: string }
  | { boolValue: boolean }
  | { intValue: string }
  | { doubleValue: number }
  | { arrayValue: { values: AnyValue[] } }
const value: v.GenericSchema<AnyValue> = v.union([
  v.strictObject({ stringValue: v.string() }),
  v.strictObject({ boolValue: v.boolean() }),
  v.strictObject({ intValue: integer }),
  v.strictObject({ doubleValue: v.pipe(v.number(), v.finite()) }),
  v.strictObject({ arrayValue: v.strictObject({ values: v.array(v.lazy(() => value)) }) }),
])
const attributes = v.pipe(
  v.array(v.strictObject({ key: v.pipe(v.string(), v.minLength(1)), value })),
  v.check((all) => new Set(all.map(({ key }) => key)).size === all.length, 'a key twice'),
)
const span = v.pipe(
  v.strictObject({
    traceId: hex(16),
    spanId: hex(8),
    parentSpanId: v.optional(hex(8)),
    traceState: v.optional(v.string()),
    flags: v.optional(v.number()),
    name: v.pipe(v.string(), v.minLength(1)),
    kind: v.picklist([1, 2, 3, 4, 5]),
    startTimeUnixNano: nanoseconds,
    endTimeUnixNano: nanoseconds,
    attributes,
    events: v.optional(
      v.array(
        v.strictObject({
          timeUnixNano: nanoseconds,
          name: v.string(),
          attributes: v.optional(attributes),
        }),
      ),
    ),
    status: v.optional(
      v.strictObject({ message: v.optional(v.string()), code: v.picklist([0, 1, 2]) }),
    ),
  }),
  v.check(
    ({ startTimeUnixNano: start, endTimeUnixNano: end }) => BigInt(start) <= BigInt(end),
    'ends before it starts',
  ),
)
const traces = v.strictObject({
  resourceSpans: v.array(
    v.strictObject({
      resource: v.strictObject({ attributes }),
      scopeSpans: v.array(
        v.strictObject({
          scope: v.strictObject({ name: v.string(), version: v.optional(v.string()) }),
          spans: v.pipe(v.array(span), v.maxLength(512)),
          schemaUrl: v.optional(v.string()),
        }),
      ),
      schemaUrl: v.optional(v.string()),
    }),
  ),
})

export type OtlpSpan = v.InferOutput<typeof span>

/** The spans of a request. @throws Error for anything that the protocol does not define */
export function checkTraces(body: unknown): OtlpSpan[] {
  const { resourceSpans } = v.parse(traces, body)
  return resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans))
}
