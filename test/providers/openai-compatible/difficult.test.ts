/** Every row of the table of difficult conversations, for every vendor and server with OpenAI's chat completions. */
import * as v from 'valibot'
import openaiCompatible from '../../../providers/openai-compatible.ts'
import openai from '../../../providers/openai.ts'
import { setUp } from '../_chat.ts'
import { testAnyConversation } from '../_conversations.ts'
import { describeDifficult, type ConversationName, type DifficultOptions } from '../_difficult.ts'
import {
  ANY_JSON,
  bodyIn,
  COMMON,
  file,
  fileAnywhere,
  image,
  imageAsData,
  JSON_OR_SCHEMA,
  LIMIT,
  LOGPROBS,
  newestImage,
  OPENAI,
  OPENAI_FORM,
  OLDER_LIMIT,
  PENALTIES,
  sound,
} from './_forms.ts'

type Refused = NonNullable<DifficultOptions['refused']>
type Changed = NonNullable<DifficultOptions['changed']>

const number = v.number()
const flag = v.boolean()
const words = v.string()
const effort = (...levels: readonly string[]) => v.picklist(levels)
const bias = v.record(v.string(), number)

/** Parts that no hosted vendor takes in messages of these roles. */
const NOT_THE_USERS: Refused = {
  'image of an assistant': ['unsupported_parameter', 'messages[1].content[1]'],
  'image in a system message': ['unsupported_parameter', 'messages[0].content[1]'],
  'PDF as the result of a call': ['unsupported_parameter', 'messages[2].content[0]'],
}
const TEXT_RESULTS: Refused = {
  ...NOT_THE_USERS,
  'image as the result of a call': ['unsupported_parameter', 'messages[2].content[1]'],
  'only an image as the result of a call': ['unsupported_parameter', 'messages[2].content[0]'],
}
const ONE_ANSWER: Refused = { 'several answers': ['unsupported_parameter', 'n'] }
const NO_LOGPROBS: Refused = { 'log probabilities': ['unsupported_parameter', 'logprobs'] }

const LONG_NAME = `files_${'x'.repeat(110)}`
/** Names that vendors refuse, as other models call their tools. */
const ODD_NAMES: Changed = { 'calls of tools with odd names': ['files.read', LONG_NAME] }
const MEDIA = [image, file, sound]
const REASONING = v.strictObject({
  effort: v.optional(words),
  max_tokens: v.optional(number),
  enabled: v.optional(flag),
  exclude: v.optional(flag),
})

/** The text of a custom tool's call is a member of a function's arguments. */
const AS_FUNCTIONS: Changed = { ...ODD_NAMES, 'call of a custom tool': ['*** "quoted"'] }

for (const model of ['gpt-4.1', 'gpt-5.1']) {
  describeDifficult({
    title: `difficult conversations with ${model} of OpenAI`,
    setUp: (baseURL, download) => setUp(openai, { baseURL, apiKey: 'k' }, download),
    model,
    schema: bodyIn(OPENAI_FORM),
    refused: NOT_THE_USERS,
    changed: ODD_NAMES,
  })
}

interface Row {
  readonly model: string
  readonly schema: v.GenericSchema
  readonly refused?: Refused
  readonly changed?: Changed
}

const SWITCH = v.strictObject({ type: v.picklist(['enabled', 'disabled']) })

/** These choices cannot be had where the vendor ignores a choice. */
const FORCED = refusedAs(
  ['unsupported_parameter', 'tool_choice'],
  [
    'tool choice required',
    'tool chosen by name',
    'allowed tools, required',
    'tool choice required, with reasoning',
    'tool choice required, with a budget of reasoning',
    'custom tool chosen',
    'earlier function chosen',
  ],
)

function refusedAs(as: readonly [string, string], names: readonly ConversationName[]): Refused {
  return Object.fromEntries(names.map((one) => [one, as]))
}

/** Servers of open-weight models know OpenAI's form, and members of their own. */
function serverOf(members: Readonly<Record<string, v.GenericSchema>>, image: v.GenericSchema) {
  return bodyIn({
    answered: true,
    members: {
      ...COMMON,
      ...OLDER_LIMIT,
      ...PENALTIES,
      ...LOGPROBS,
      logit_bias: bias,
      modalities: v.array(words),
      top_k: number,
      min_p: number,
      repetition_penalty: number,
      response_format: JSON_OR_SCHEMA,
      ...members,
    },
    parts: [image, file, sound],
    resultImages: true,
    answer: { reasoning: v.optional(words) },
    anywhere: true,
  })
}

const HOSTED: Readonly<Record<string, Row>> = {
  groq: {
    model: 'openai/gpt-oss-120b',
    schema: bodyIn({
      answered: true,
      members: {
        ...COMMON,
        ...LIMIT,
        ...PENALTIES,
        response_format: JSON_OR_SCHEMA,
        reasoning_effort: effort('low', 'medium', 'high'),
        include_reasoning: flag,
        user: words,
      },
      parts: MEDIA,
      resultImages: true,
    }),
    refused: { ...NOT_THE_USERS, ...ONE_ANSWER, ...NO_LOGPROBS },
  },
  deepseek: {
    model: 'deepseek-chat',
    schema: bodyIn({
      answered: true,
      texts: 'all',
      members: {
        ...without(COMMON, 'seed', 'parallel_tool_calls'),
        ...OLDER_LIMIT,
        ...PENALTIES,
        ...LOGPROBS,
        response_format: ANY_JSON,
        thinking: SWITCH,
        reasoning_effort: effort('low', 'high', 'max'),
      },
      answer: { reasoning_content: v.optional(words) },
    }),
    refused: {
      ...TEXT_RESULTS,
      ...ONE_ANSWER,
      ...refusedAs(
        ['unsupported_parameter', 'messages[0].content[1]'],
        [
          'image as data',
          'image of another type than it says',
          'GIF image',
          'image that is no image',
          'image at an address',
          'image at an address without an extension',
          'image in low detail',
          'images in several details',
          'PDF as data',
          'PDF as bare base64',
          'PDF as bare base64 without a name',
          'PDF at an address',
          'PDF at an address without an extension',
          'two PDFs of one name',
          'text file',
          'text file as bare base64',
          'image as a file',
          'file of a type that is not read',
          'sound',
        ],
      ),
      ...refusedAs(
        ['unsupported_parameter', 'messages[0].content[0]'],
        ['image without a text', 'PDF without a text'],
      ),
    },
  },
  xai: {
    model: 'grok-4.3',
    schema: bodyIn({
      answered: true,
      members: {
        ...without(COMMON, 'stop'),
        ...LIMIT,
        ...LOGPROBS,
        logit_bias: bias,
        n: number,
        response_format: JSON_OR_SCHEMA,
        reasoning_effort: effort('none', 'low', 'medium', 'high'),
      },
      parts: MEDIA,
      resultImages: true,
    }),
    refused: NOT_THE_USERS,
  },
  together: {
    model: 'openai/gpt-oss-120b',
    schema: bodyIn({
      answered: true,
      texts: 'results',
      members: {
        ...COMMON,
        ...OLDER_LIMIT,
        ...PENALTIES,
        ...LOGPROBS,
        logit_bias: bias,
        n: number,
        top_k: number,
        min_p: number,
        repetition_penalty: number,
        response_format: JSON_OR_SCHEMA,
        reasoning_effort: effort('low', 'medium', 'high'),
      },
      parts: MEDIA,
    }),
    refused: TEXT_RESULTS,
  },
  cerebras: {
    model: 'gpt-oss-120b',
    schema: bodyIn({
      answered: true,
      texts: 'all',
      members: {
        ...COMMON,
        ...LIMIT,
        ...LOGPROBS,
        response_format: JSON_OR_SCHEMA,
        reasoning_effort: effort('low', 'medium', 'high'),
        prediction: v.strictObject({ type: v.literal('content'), content: words }),
        user: words,
      },
      parts: MEDIA,
    }),
    refused: { ...TEXT_RESULTS, ...ONE_ANSWER },
  },
  moonshot: {
    model: 'kimi-k2.6',
    schema: bodyIn({
      answered: true,
      texts: 'results',
      members: {
        ...without(COMMON, 'seed'),
        temperature: v.pipe(number, v.maxValue(1)),
        ...OLDER_LIMIT,
        ...PENALTIES,
        n: number,
        response_format: JSON_OR_SCHEMA,
        thinking: SWITCH,
      },
      parts: MEDIA,
      answer: { reasoning_content: v.optional(words) },
    }),
    refused: { ...TEXT_RESULTS, ...NO_LOGPROBS },
  },
  alibaba: {
    model: 'qwen-plus',
    schema: bodyIn({
      answered: true,
      texts: 'results',
      members: {
        ...COMMON,
        ...OLDER_LIMIT,
        ...LOGPROBS,
        presence_penalty: number,
        repetition_penalty: number,
        top_k: number,
        n: number,
        response_format: JSON_OR_SCHEMA,
        enable_thinking: flag,
        thinking_budget: number,
      },
      parts: MEDIA,
    }),
    refused: TEXT_RESULTS,
  },
  google: {
    model: 'gemini-3-flash',
    schema: bodyIn({
      answered: true,
      members: {
        ...COMMON,
        ...LIMIT,
        ...PENALTIES,
        ...LOGPROBS,
        n: number,
        response_format: JSON_OR_SCHEMA,
        reasoning_effort: effort('none', 'minimal', 'low', 'medium', 'high'),
      },
      parts: MEDIA,
      resultImages: true,
      call: {
        extra_content: v.optional(
          v.strictObject({ google: v.strictObject({ thought_signature: v.string() }) }),
        ),
      },
    }),
    refused: NOT_THE_USERS,
  },
}

const MARKER = v.strictObject({ type: v.literal('ephemeral'), ttl: v.optional(words) })
/** Members that are sent where a vendor may know any. */
const OTHERS = {
  top_k: number,
  min_p: number,
  top_a: number,
  repetition_penalty: number,
}

const TEMPLATE = { chat_template_kwargs: v.strictObject({ enable_thinking: flag }) }
const NONE_TO_HIGH = { reasoning_effort: effort('none', 'low', 'medium', 'high') }

const SERVERS: Readonly<Record<string, Row>> = {
  vllm: { model: 'qwen3', schema: serverOf({ ...TEMPLATE, n: number }, image) },
  llamacpp: { model: 'qwen3', schema: serverOf(TEMPLATE, image), refused: ONE_ANSWER },
  lmstudio: { model: 'qwen3', schema: serverOf(NONE_TO_HIGH, image), refused: ONE_ANSWER },
  ollama: {
    model: 'qwen3',
    schema: serverOf(NONE_TO_HIGH, imageAsData),
    refused: { ...ONE_ANSWER, ...FORCED },
  },
}

const OPEN: Readonly<Record<string, Row>> = {
  openrouter: {
    model: 'anthropic/claude',
    schema: bodyIn({
      answered: true,
      current: true,
      marker: MARKER,
      members: {
        ...without(OPENAI, 'reasoning_effort'),
        ...OTHERS,
        reasoning: REASONING,
        session_id: words,
      },
      parts: [newestImage, fileAnywhere, sound],
      resultImages: true,
      anywhere: true,
      answer: {
        reasoning: v.optional(words),
        reasoning_details: v.optional(v.array(v.looseObject({ type: words }))),
      },
    }),
  },
}

describeDifficult({
  title: 'difficult conversations with an unknown vendor',
  setUp: (baseURL, download) => setUp(openaiCompatible, { baseURL }, download),
  model: 'a-model',
  schema: bodyIn({
    custom: true,
    marker: MARKER,
    members: { ...OPENAI, ...OTHERS },
    parts: [image, file, sound],
    resultImages: true,
    anywhere: true,
  }),
  changed: ODD_NAMES,
})

for (const [quirks, { model, schema, refused, changed }] of Object.entries({
  ...HOSTED,
  ...SERVERS,
  ...OPEN,
})) {
  describeDifficult({
    title: `difficult conversations with ${quirks}`,
    setUp: (baseURL, download) => setUp(openaiCompatible, { baseURL, quirks }, download),
    model,
    schema,
    ...(refused && { refused }),
    changed: { ...AS_FUNCTIONS, ...changed },
  })
}

testAnyConversation({
  plugin: openai,
  options: (baseURL) => ({ baseURL, apiKey: 'k' }),
  model: 'gpt-4.1',
  schema: bodyIn(OPENAI_FORM),
})
for (const [quirks, { model, schema }] of Object.entries({ ...HOSTED, ...SERVERS, ...OPEN })) {
  const options = (baseURL: string) => ({ baseURL, quirks })
  testAnyConversation({ plugin: openaiCompatible, options, model, schema, title: quirks })
}

function without<T extends object>(members: T, ...names: (keyof T)[]): Partial<T> {
  return Object.fromEntries(
    Object.entries(members).filter(([name]) => !names.includes(name as keyof T)),
  ) as Partial<T>
}
