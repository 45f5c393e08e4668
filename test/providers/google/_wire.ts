/** The published form of `generateContent` requests, with the rules that Google enforces beyond types. */
import * as v from 'valibot'

const name = v.pipe(v.string(), v.regex(/^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$/))
const signature = { thoughtSignature: v.optional(v.pipe(v.string(), v.minLength(1))) }

const text = v.strictObject({
  text: v.pipe(v.string(), v.minLength(1)),
  thought: v.optional(v.literal(true)),
  ...signature,
})
const inlineData = v.strictObject({
  mimeType: v.pipe(
    v.string(),
    v.regex(/^[a-z]+\/[\w.+-]+$/),
    v.check((type) => type !== 'image/gif', 'Unsupported MIME type: image/gif'),
  ),
  data: v.pipe(v.string(), v.base64(), v.minLength(1)),
})
const media = v.strictObject({
  inlineData,
  mediaResolution: v.optional(
    v.strictObject({
      level: v.picklist([
        'MEDIA_RESOLUTION_LOW',
        'MEDIA_RESOLUTION_HIGH',
        'MEDIA_RESOLUTION_ULTRA_HIGH',
      ]),
    }),
  ),
})
const address = v.strictObject({
  fileData: v.strictObject({
    mimeType: v.string(),
    fileUri: v.pipe(v.string(), v.startsWith('https://www.youtube.com/')),
  }),
})
const functionCall = v.strictObject({
  functionCall: v.strictObject({
    name,
    args: v.record(v.string(), v.unknown()),
    id: v.optional(v.string()),
  }),
  ...signature,
})
const functionResponse = v.strictObject({
  functionResponse: v.strictObject({
    name,
    response: v.union([
      v.strictObject({ result: v.string() }),
      v.strictObject({ error: v.string() }),
    ]),
    id: v.optional(v.string()),
    parts: v.optional(v.pipe(v.array(v.strictObject({ inlineData })), v.minLength(1))),
  }),
})

const content = v.strictObject({
  role: v.picklist(['user', 'model']),
  parts: v.pipe(
    v.array(v.union([text, media, address, functionCall, functionResponse])),
    v.minLength(1),
  ),
})
type Content = v.InferOutput<typeof content>

const contents = v.pipe(
  v.array(content),
  v.minLength(1),
  v.check(
    (all) => all.every(({ role }, at) => role !== all[at - 1]?.role),
    'neighbours of one role are merged',
  ),
  v.check(
    ([first]) => !first!.parts.some((part) => 'functionCall' in part),
    'function call turn comes immediately after a user turn or after a function response turn',
  ),
  v.check(answersCalls, 'the number of function response parts must equal that of function calls'),
  v.check(
    (all) => all.every(({ role, parts }) => role === 'user' || !parts.some(isResponse)),
    'function responses are of the user',
  ),
)

function isResponse(part: Content['parts'][number]): boolean {
  return 'functionResponse' in part
}

/**
 * Whether each turn with calls is followed by as many results, at the start of the next turn, with the same names in
 * the same order.
 */
function answersCalls(all: Content[]): boolean {
  return all.every(({ role, parts }, at) => {
    if (role !== 'model') return true
    const calls = parts.flatMap((part) => ('functionCall' in part ? [part.functionCall.name] : []))
    const next = all[at + 1]?.parts ?? []
    const responses = next.flatMap((part) =>
      'functionResponse' in part ? [part.functionResponse.name] : [],
    )
    const head = next.slice(0, calls.length).every(isResponse)
    return head && responses.join() === calls.join()
  })
}

const calling = v.variant('mode', [
  v.strictObject({ mode: v.picklist(['AUTO', 'NONE']) }),
  v.strictObject({
    mode: v.picklist(['ANY', 'VALIDATED']),
    allowedFunctionNames: v.optional(v.pipe(v.array(name), v.minLength(1))),
  }),
])
const declaration = v.strictObject({
  name,
  description: v.optional(v.pipe(v.string(), v.minLength(1))),
  parametersJsonSchema: v.optional(v.looseObject({ type: v.literal('object') })),
})
const count = v.pipe(v.number(), v.integer(), v.minValue(1))

const body = v.strictObject({
  contents,
  systemInstruction: v.optional(
    v.strictObject({
      parts: v.pipe(
        v.array(v.strictObject({ text: v.pipe(v.string(), v.minLength(1)) })),
        v.minLength(1),
      ),
    }),
  ),
  tools: v.optional(
    v.tuple([
      v.strictObject({ functionDeclarations: v.pipe(v.array(declaration), v.minLength(1)) }),
    ]),
  ),
  toolConfig: v.optional(v.strictObject({ functionCallingConfig: calling })),
  generationConfig: v.optional(
    v.strictObject({
      maxOutputTokens: v.optional(count),
      temperature: v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(2))),
      topP: v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(1))),
      topK: v.optional(count),
      candidateCount: v.optional(count),
      presencePenalty: v.optional(v.number()),
      frequencyPenalty: v.optional(v.number()),
      responseLogprobs: v.optional(v.boolean()),
      logprobs: v.optional(v.number()),
      seed: v.optional(v.pipe(v.number(), v.integer(), v.maxValue(2 ** 31 - 1))),
      stopSequences: v.optional(
        v.pipe(v.array(v.pipe(v.string(), v.minLength(1))), v.minLength(1), v.maxLength(5)),
      ),
      responseMimeType: v.optional(v.literal('application/json')),
      responseJsonSchema: v.optional(v.looseObject({})),
      mediaResolution: v.optional(v.picklist(['MEDIA_RESOLUTION_LOW', 'MEDIA_RESOLUTION_HIGH'])),
      thinkingConfig: v.optional(
        v.strictObject({
          thinkingBudget: v.optional(v.pipe(v.number(), v.integer(), v.minValue(-1))),
          thinkingLevel: v.optional(v.picklist(['minimal', 'low', 'medium', 'high'])),
          includeThoughts: v.optional(v.boolean()),
        }),
      ),
    }),
  ),
})
type Body = v.InferOutput<typeof body>

/** A body that Gemini 3 accepts. */
export const generateRequest = v.pipe(
  body,
  v.check(({ tools, toolConfig }) => {
    const calling = toolConfig?.functionCallingConfig
    const names = namesOf(tools)
    if (new Set(names).size !== names.length) return false
    const allowed = calling && 'allowedFunctionNames' in calling ? calling.allowedFunctionNames : []
    return (!calling || names.length > 0) && (allowed ?? []).every((one) => names.includes(one))
  }, 'functions must be declared once, and those that are allowed must be'),
  v.check(
    ({ contents }) =>
      contents.every(({ parts }) => {
        const call = parts.find((part) => 'functionCall' in part)
        return !call || call.thoughtSignature !== undefined
      }),
    'Function call is missing a thought_signature in functionCall parts',
  ),
)

/** A body that Gemini 2.5 accepts. */
export const olderRequest = v.pipe(
  body,
  v.check(
    ({ tools, generationConfig }) => !tools || !generationConfig?.responseMimeType,
    "Function calling with a response mime type: 'application/json' is unsupported",
  ),
  v.check(
    (all) => !/"mediaResolution":\{|"thinkingLevel"/.test(JSON.stringify(all)),
    'resolutions of parts and levels of thinking are of later models',
  ),
  v.check(
    ({ contents }) =>
      !contents.some(({ parts }) =>
        parts.some((part) => 'functionResponse' in part && part.functionResponse.parts),
      ),
    'media in function responses are of later models',
  ),
)

function namesOf(tools: Body['tools']): string[] {
  return tools?.[0].functionDeclarations.map((one) => one.name) ?? []
}
