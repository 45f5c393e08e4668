/**
 * Texts of a chat request that a model reads, for guards. The history is read too: an API without state lets a client
 * put anything anywhere. Channel and role decide which guards read a text: `tool_schema` is read by patterns alone,
 * `annotation` by exact rules alone.
 */
import { isUtf8 } from 'node:buffer'
import { isObject } from '../../errors/checks.ts'
import type { InputTexts } from '../../guard/adapter.ts'
import type { Channel, Media, ChatMessage, TextItem } from '../../plugin.ts'
import type { ChatRequest } from './request.ts'
import { isOpaque, stringsIn, stringsInJson } from '../shared/texts.ts'

/** Top-level members that are read elsewhere or hold no text for a model. All others are read, unknown ones too. */
const NO_TEXT = new Set([
  'model',
  'messages',
  'plugins',
  'web_search_tool',
  'policy',
  'stream',
  'stream_options',
  'provider',
  'models',
  'route',
  'transforms',
  'service_tier',
  'reasoning',
  'reasoning_effort',
  'modalities',
  'verbosity',
])

/** Members that go upstream as names, not as words for the model: exact rules read them, names inside included. */
const LABELS = new Set([
  'user',
  'safety_identifier',
  'prompt_cache_key',
  'prompt_cache_retention',
  'session_id',
  'metadata',
  'logit_bias',
  'cache_control',
])

/** Further names of the API. Any other name of a member is the client's word, whatever its value. */
const NAMES = new Set([
  ...NO_TEXT,
  ...LABELS,
  ...(
    'audio debug frequency_penalty function_call functions include_reasoning labels logprobs max_completion_tokens ' +
    'max_tokens min_p n parallel_tool_calls prediction presence_penalty repetition_penalty response_format seed stop ' +
    'store temperature tool_choice tools top_a top_k top_logprobs top_p usage web_search_options'
  ).split(' '),
])

const READ_OF_MESSAGE = new Set(['role', 'content', 'tool_call_id', 'cache_control'])
/**
 * Members of assistant messages that are read separately or hold no text. In other messages these members have no
 * defined meaning, and are read.
 */
const READ_OF_ASSISTANT = new Set([
  ...READ_OF_MESSAGE,
  'refusal',
  'reasoning',
  'reasoning_content',
  'reasoning_details',
  'tool_calls',
  'function_call',
])
const READ_OF_MEDIA = new Set(['url', 'detail', 'data', 'format', 'filename', 'file_data'])
const READ_OF_CALL = new Set(['id', 'index', 'type', 'function', 'custom', 'cache_control'])
/** Members of `reasoning` whose values the API lists. */
const READ_OF_WISH = new Set(['effort', 'max_tokens', 'exclude', 'enabled', 'summary'])
const OF_MEDIA = new Set(
  'auto low high original wav mp3 flac opus ogg m4a mp4 aac aiff webm pcm pcm16'.split(' '),
)
const READ_OF_FUNCTION = new Set(['name', 'arguments', 'input'])
const READ_OF_REASONING = new Set(['type', 'id', 'format', 'index'])

const ROLES = {
  system: 'system',
  developer: 'system',
  user: 'user',
  assistant: 'assistant',
  tool: 'tool',
  function: 'tool',
} as const

const NO_TURNS: readonly never[] = []

/**
 * Texts of a valid request as the client sent it, without the gateway's own instructions.
 * @param refusals every form of the refusal text that a client may have got
 */
export function chatTexts(input: ChatRequest, refusals: readonly string[]): InputTexts {
  const { messages } = input
  const firstCurrent = startOfCurrentTurn(messages)
  const items: TextItem[] = []
  const begins: number[] = []
  for (let index = 0; index < messages.length; index++) {
    if (index <= firstCurrent) begins.push(items.length)
    readMessage(messages[index]!, placeOf(index), index >= firstCurrent, items)
  }
  for (const name in input) {
    const value = input[name]
    if (!NAMES.has(name)) items.push(itemOf(`names#${items.length}`, 'annotation', name, false))
    if (!hasText(value)) continue
    if (LABELS.has(name)) {
      stringsIn(value).forEach((text, index) => {
        items.push(itemOf(`${name}#${index}`, 'annotation', text, false))
      })
    } else if (!NO_TEXT.has(name) && !isChoice(name, value)) readOther(value, name, items)
  }
  const { reasoning, prediction } = input
  if (isObject(reasoning)) {
    const add: Add = (id, channel, text) => items.push(itemOf(id, channel, String(text), false))
    readRest(reasoning, READ_OF_WISH, 'reasoning', add)
  }
  if (isObject(prediction) && Array.isArray(prediction.content)) {
    const text = textOf(prediction.content.filter(isObject))
    items.push(itemOf('prediction.content', 'tool_schema', text, true))
  }
  input.plugins?.forEach(({ id, enabled, search_prompt }, index) => {
    if (id !== 'web' || enabled === false || !search_prompt) return
    items.push(itemOf(`plugins[${index}].search_prompt`, 'search', search_prompt, true))
  })
  const { scope } = (input.policy ?? {}) as { readonly scope?: unknown }
  // The model is told of it.
  if (typeof scope === 'string') items.push(itemOf('policy.scope', 'annotation', scope, false))
  input.labels?.().forEach((text, index) => {
    items.push(itemOf(`body#${index}`, 'annotation', text, false))
  })
  if (firstCurrent === 0) return { items, refusedTurns: NO_TURNS }
  const shown = new Set(refusals.map((text) => text.trim()))
  const itemsOf = (index: number) => items.slice(begins[index], begins[index + 1])
  const refusedTurns = refusedTurnsIn(messages, firstCurrent, shown).map((turn) => ({
    items: new Set(turn.flatMap((index) => idsOf(itemsOf(index)))),
    messages: turn.map((index) => index - messages.length),
  }))
  return { items, refusedTurns }
}

/**
 * The index after the last assistant message with text. Assistant messages at the very end are words that the client
 * puts into the model's mouth: they belong to the current turn.
 */
function startOfCurrentTurn(messages: readonly ChatMessage[]): number {
  let index = messages.length - 1
  while (index >= 0 && messages[index]!.role === 'assistant') index--
  while (index >= 0 && !hasAnswerText(messages[index]!)) index--
  return index + 1
}

/** Ids without tool calls: the name of a legacy function stays when its answer is withheld. */
function idsOf(items: readonly TextItem[]): string[] {
  return items
    .filter(({ channel, id }) => channel !== 'tool_call' && !STAYS.test(id))
    .map(({ id }) => id)
}

const STAYS = /\.(?:tool_call_id|cache_control)#\d+$/

/** Indexes of user and tool messages of each turn before `end` that was answered with a refusal text. */
function refusedTurnsIn(
  messages: readonly ChatMessage[],
  end: number,
  refusals: ReadonlySet<string>,
): number[][] {
  const turns: number[][] = []
  let turn: number[] = []
  for (let index = 0; index < end; index++) {
    const message = messages[index]!
    if (hasAnswerText(message)) {
      if (turn.length > 0 && isRefusal(message, refusals)) turns.push(turn)
      turn = []
    } else if (ROLES[message.role] === 'user' || ROLES[message.role] === 'tool') {
      turn.push(index)
    }
  }
  return turns
}

function hasAnswerText(message: ChatMessage): boolean {
  return message.role === 'assistant' && answerText(message).trim() !== ''
}

function isRefusal(message: ChatMessage, refusals: ReadonlySet<string>): boolean {
  const { tool_calls, function_call } = message
  return !tool_calls?.length && !function_call && refusals.has(answerText(message).trim())
}

function answerText({ content, refusal }: ChatMessage): string {
  return textOf(content) || refusal || ''
}

/** The text parts of a content, joined without a separator, as models read them. */
function textOf(content: ChatMessage['content']): string {
  if (!Array.isArray(content)) return (content as string | null | undefined) ?? ''
  let text = ''
  for (const part of content) {
    if (part.type === 'text' || part.type === 'refusal') text += part[part.type]
  }
  return text
}

/** It is made once: few calls have more messages. */
const places = Array.from({ length: 64 }, (_, index) => `messages[${index}]`)

function placeOf(index: number): string {
  return places[index] ?? `messages[${index}]`
}

function readMessage(message: ChatMessage, at: string, current: boolean, items: TextItem[]): void {
  const role = ROLES[message.role]
  const add = (id: string, channel: Channel, text: unknown, media?: readonly Media[]) => {
    if (typeof text !== 'string' || (text === '' && !media?.length)) return
    items.push(itemOf(id, channel, text, current, role, media))
  }
  const media: Media[] = []
  const { content } = message
  const text = textOf(content)
  if (Array.isArray(content)) {
    content.forEach((part, index) => {
      const place = `${at}.content[${index}]`
      const mediaItem = readPart(part, place, add)
      if (mediaItem) media.push(mediaItem)
      const { type } = part
      readLabel(part.cache_control, `${place}.cache_control`, add)
      readRest(part, new Set(['type', 'cache_control', type]), place, add)
      if (!isObject(part[type])) return
      readRest(part[type], READ_OF_MEDIA, `${place}.${type}`, add)
      const { detail, format } = part[type] as Record<string, any>
      const names = [detail, format].filter((one) => !OF_MEDIA.has(one))
      readLabel(names, `${place}.${type}`, add)
    })
  }
  add(at, 'content', text, media)
  readLabel(message.tool_call_id, `${at}.tool_call_id`, add)
  readLabel(message.cache_control, `${at}.cache_control`, add)
  if (message.role === 'assistant') {
    if (message.refusal !== text) add(`${at}.refusal`, 'refusal', message.refusal)
    readAssistant(message, at, add)
    return readRest(message, READ_OF_ASSISTANT, at, add)
  }
  if (message.role !== 'function') return readRest(message, READ_OF_MESSAGE, at, add)
  add(`${at}.name`, 'tool_call', message.name)
  readRest(message, new Set([...READ_OF_MESSAGE, 'name']), at, add)
}

type Add = (id: string, channel: Channel, text: unknown, media?: readonly Media[]) => void

function readLabel(value: unknown, at: string, add: Add): void {
  if (value === undefined || value === null) return
  stringsIn(value).forEach((text, index) => add(`${at}#${index}`, 'annotation', text))
}

/** Adds every text in unknown members: they go upstream, and a model may read them. */
function readRest(value: object, readAlready: ReadonlySet<string>, at: string, add: Add): void {
  let others: Record<string, unknown> | undefined
  for (const name of Object.keys(value)) {
    if (readAlready.has(name)) continue
    others ??= Object.create(null) as Record<string, unknown>
    others[name] = value[name as keyof typeof value]
  }
  if (!others) return
  stringsIn(others).forEach((text, index) => add(`${at}#${index}`, 'annotation', text))
}

function readAssistant(message: ChatMessage, at: string, add: Add): void {
  const { reasoning, reasoning_content, reasoning_details, tool_calls, function_call } = message
  add(`${at}.reasoning`, 'reasoning', reasoning)
  if (reasoning_content !== reasoning) {
    add(`${at}.reasoning_content`, 'reasoning', reasoning_content)
  }
  const details: readonly any[] = reasoning_details ?? []
  details.forEach((detail, index) => {
    const place = `${at}.reasoning_details[${index}]`
    add(place, 'reasoning', detail.text)
    add(`${place}.summary`, 'reasoning', detail.summary)
    readLabel([detail.id, detail.format], `${place}.id`, add)
    const names = ['text', 'summary'].filter((name) => typeof detail[name] === 'string')
    // Signatures and encrypted reasoning hold no words, as long as they are what they claim to be.
    const hidden = ['signature', 'data'].filter(
      (name) => typeof detail[name] === 'string' && isOpaque(detail[name]),
    )
    readRest(detail, new Set([...READ_OF_REASONING, ...names, ...hidden]), place, add)
  })
  if (details.length > 1) {
    const whole = details.map(({ text, summary }) => text ?? summary ?? '').join('')
    if (whole !== reasoning) add(`${at}.reasoning_details`, 'reasoning', whole)
  }
  const calls: readonly any[] = tool_calls ?? []
  calls.forEach((call, index) => readCall(call, `${at}.tool_calls[${index}]`, add))
  if (function_call) readCall({ function: function_call }, `${at}.function_call`, add)
}

/** Adds the name, the arguments as written, and the strings in the decoded arguments. */
function readCall(call: any, at: string, add: Add): void {
  const { name, arguments: raw } = call.function ?? {}
  readLabel([call.id, call.cache_control], `${at}.id`, add)
  add(`${at}.name`, 'tool_call', name)
  add(at, 'tool_call', raw)
  add(`${at}.custom.name`, 'tool_call', call.custom?.name)
  add(`${at}.custom`, 'tool_call', call.custom?.input)
  readRest(call, READ_OF_CALL, `${at}.call`, add)
  if (isObject(call.function)) readRest(call.function, READ_OF_FUNCTION, `${at}.function`, add)
  if (isObject(call.custom)) readRest(call.custom, READ_OF_FUNCTION, `${at}.custom`, add)
  if (typeof raw !== 'string') return
  stringsInJson(raw).forEach(({ text }, index) => add(`${at}#${index}`, 'tool_call', text))
}

function readPart(part: any, at: string, add: Add): Media | undefined {
  switch (part.type) {
    case 'image_url': {
      const url: string = part.image_url.url ?? part.image_url
      if (!isDataUrl(url)) add(at, 'annotation', url)
      return { kind: 'image', ...typed(url), url }
    }
    case 'input_audio':
      return { kind: 'audio', mediaType: `audio/${part.input_audio.format}` }
    case 'file':
      return readFile(part.file, at, add)
    default:
      return undefined
  }
}

function readFile({ filename, file_data }: any, at: string, add: Add): Media | undefined {
  add(`${at}.filename`, 'annotation', filename)
  if (/^https?:/i.test(file_data.slice(0, 6))) {
    add(at, 'annotation', file_data)
    return { kind: 'file', url: file_data }
  }
  const { mediaType } = typed(file_data)
  const bytes = Buffer.from(
    file_data.slice(isDataUrl(file_data) ? file_data.indexOf(',') + 1 : 0),
    'base64',
  )
  const isText = isUtf8(bytes) && !bytes.includes(0)
  const isSaid = mediaType?.startsWith('text/') === true
  // Upstreams treat data of a text type as text, whatever its bytes.
  if (isText || isSaid) add(at, 'document', bytes.toString())
  // Data of another type, such as a PDF, holds more than its text.
  if (isText && (mediaType === undefined || isSaid)) return undefined
  return { kind: 'file', ...typed(file_data), ...(isDataUrl(file_data) ? { url: file_data } : {}) }
}

function isDataUrl(url: string): boolean {
  return url.slice(0, 5).toLowerCase() === 'data:'
}

function typed(url: string): { mediaType?: string } {
  const mediaType = /^data:([^;,]+)/i.exec(url.slice(0, 128))?.[1]
  return mediaType ? { mediaType: mediaType.toLowerCase() } : {}
}

/** Numbers and booleans hold no text. */
function hasText(value: unknown): boolean {
  return typeof value === 'string' || (typeof value === 'object' && value !== null)
}

/** Whether a tool choice is a word of the wire format. The name of a tool is the client's. */
function isChoice(name: string, value: unknown): boolean {
  return (name === 'tool_choice' || name === 'function_call') && typeof value === 'string'
}

function readOther(value: unknown, name: string, items: TextItem[]): void {
  const add = (item: unknown, at: string) =>
    stringsIn(item).forEach((text, index) =>
      items.push(itemOf(`${at}#${index}`, 'tool_schema', text, true)),
    )
  if (Array.isArray(value)) value.forEach((item, index) => add(item, `${name}[${index}]`))
  else add(value, name)
}

function itemOf(
  id: string,
  channel: Channel,
  text: string,
  current: boolean,
  role?: TextItem['role'],
  media?: readonly Media[],
): TextItem {
  if (role && !media?.length) return { id, side: 'input', channel, current, text, role }
  const read = { id, side: 'input', channel, current, text, ...(role && { role }) } as const
  return media?.length ? { ...read, media } : read
}
