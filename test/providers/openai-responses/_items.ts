/** What OpenAI publishes about the input of the Responses API, as strict schemas. */
import * as v from 'valibot'

const text = v.strictObject({ type: v.literal('input_text'), text: v.string() })
const inputs = v.pipe(
  v.array(
    v.variant('type', [
      text,
      v.strictObject({
        type: v.literal('input_image'),
        image_url: v.pipe(v.string(), v.regex(/^(https:|data:image\/)/)),
        detail: v.picklist(['auto', 'low', 'high', 'original']),
      }),
      v.strictObject({ type: v.literal('input_file'), file_url: v.pipe(v.string(), v.url()) }),
      v.strictObject({
        type: v.literal('input_file'),
        filename: v.pipe(v.string(), v.nonEmpty()),
        file_data: v.pipe(v.string(), v.startsWith('data:')),
      }),
    ]),
  ),
  v.minLength(1),
)
const said = v.variant('type', [
  v.strictObject({
    type: v.literal('output_text'),
    text: v.pipe(v.string(), v.nonEmpty()),
    annotations: v.tuple([]),
  }),
  v.strictObject({ type: v.literal('refusal'), refusal: v.pipe(v.string(), v.nonEmpty()) }),
])
const callId = v.pipe(v.string(), v.minLength(1), v.maxLength(64))
const output = v.union([v.string(), inputs])
/** An item that the vendor accepts while it stores nothing: without an id, and without anything unknown. */
export const inputItem = v.variant('type', [
  v.strictObject({
    type: v.literal('message'),
    role: v.picklist(['system', 'developer', 'user']),
    content: inputs,
  }),
  v.strictObject({
    type: v.literal('message'),
    role: v.literal('assistant'),
    status: v.literal('completed'),
    content: v.pipe(v.array(said), v.minLength(1)),
    phase: v.optional(v.picklist(['commentary', 'final_answer'])),
  }),
  v.strictObject({
    type: v.literal('reasoning'),
    summary: v.array(v.strictObject({ type: v.literal('summary_text'), text: v.string() })),
    encrypted_content: v.pipe(v.string(), v.nonEmpty()),
  }),
  v.strictObject({
    type: v.literal('function_call'),
    call_id: callId,
    name: v.string(),
    arguments: v.string(),
  }),
  v.strictObject({
    type: v.literal('custom_tool_call'),
    call_id: callId,
    name: v.string(),
    input: v.string(),
  }),
  v.strictObject({ type: v.literal('function_call_output'), call_id: callId, output }),
  v.strictObject({ type: v.literal('custom_tool_call_output'), call_id: callId, output }),
])
