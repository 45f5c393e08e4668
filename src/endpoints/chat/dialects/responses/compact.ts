/**
 * Shortens a conversation: the model that is asked writes a summary, which every model can read later. A vendor's own
 * form of it would bind the conversation to that vendor.
 */
import { filledText, object, text } from '../../../../errors/checks.ts'
import type { ChatMessage } from '../../../../plugin.ts'
import type { RawJson } from '../../../../stream/raw-json.ts'
import { randomId } from '../../../../state/ids.ts'
import { billedJson, jsonWriter } from '../../../shared/write.ts'
import type { AnswerChunk } from '../../billing.ts'
import { chatFormat, type DialectRequest } from '../../endpoint.ts'
import { summaryIn } from '../../summarize.ts'
import { labelsIn } from '../shared/labels.ts'
import { summaryCarrier } from '../shared/reasoning.ts'
import { sessionId } from '../shared/fields.ts'
import { toConversation } from './conversation.ts'
import { writeError } from './error.ts'
import { checkBody, input } from './fields.ts'
import { withoutNulls } from './read.ts'
import { withRecalled } from './references.ts'
import { usageJson } from './usage.ts'
import { WORDS } from './prepare.ts'

const COMPACT =
  'Summarize this conversation for a successor who continues it without having read it. Write down the task, ' +
  'the decisions and their reasons, facts that were found, exact names, paths and values, what is done, and what ' +
  'is still open. At most 2,000 words. Begin with the summary itself, without a preamble.'
const MOST_TOKENS = 4096

const members = {
  model: filledText,
  input,
  instructions: text,
  prompt_cache_key: text,
  session_id: sessionId,
}
const body = object(members, ['model', 'input'])
const SAME = ['prompt_cache_key', 'session_id', 'policy'] as const
const KNOWN: ReadonlySet<string> = new Set([...Object.keys(members), 'policy'])

export const compaction = chatFormat({
  path: '/v1/responses/compact',
  body,
  whole: withRecalled,
  read,
  write: jsonWriter<AnswerChunk>((chunks, { request, startedAt }) => {
    const { before, after } = request.answerOptions as Kept
    const encrypted_content = summaryCarrier(summaryIn(chunks))
    const receipt = chunks.at(-1)!.receipt!
    return {
      id: randomId('resp_'),
      object: 'response.compaction',
      created_at: Math.floor(startedAt / 1000),
      output: [
        ...before,
        { id: randomId('cmp_'), type: 'compaction', encrypted_content },
        ...after,
      ],
      ...billedJson(receipt, usageJson(receipt)),
    }
  }),
  writeError,
})

/** Items that stay as they are, around the summary. */
interface Kept {
  readonly before: readonly object[]
  readonly after: readonly object[]
}

function read({ value }: RawJson): DialectRequest {
  checkBody(value, body)
  const members = withoutNulls(value as Record<string, any>)
  const { messages, ignored, untranslatable } = toConversation(members)
  const same = SAME.filter((name) => members[name] !== undefined)
  const question: ChatMessage = { role: 'user', content: COMPACT }
  const request = {
    model: members.model as string,
    messages: [...messages.flatMap((message) => asText(message, messages)), question],
    max_completion_tokens: MOST_TOKENS,
    reasoning: { effort: 'none' as const },
    ...Object.fromEntries(same.map((name) => [name, members[name]])),
  }
  return {
    input: { ...request, labels: () => labelsIn(members, { ...request, messages }, WORDS) },
    ignored: [...Object.keys(members).filter((name) => !KNOWN.has(name)), ...ignored],
    untranslatable,
    answerOptions: keptOf(itemsOf(members.input)) satisfies Kept,
  }
}

/** A message in texts only: calls of tools, their results and media in words. Reasoning is left out. */
function asText(message: ChatMessage, all: readonly ChatMessage[]): ChatMessage[] {
  const { role, content, tool_calls: calls = [], tool_call_id: id } = message
  const text = typeof content === 'string' ? content : (content ?? []).map(wordsOf).join('\n')
  if (role === 'tool') {
    const result = `[Result of ${nameOf(id, all)}]\n${text}`
    return [{ role: 'user', content: result }]
  }
  const called = calls.map((call: any) => {
    const { name, arguments: args, input } = call.custom ?? call.function
    return `[Call of ${name}]\n${args ?? input}`
  })
  const whole = [text, ...called].filter(Boolean).join('\n\n')
  return whole === '' ? [] : [{ role, content: whole }]
}

const MEDIA: Readonly<Record<string, string>> = {
  image_url: '[image]',
  file: '[file]',
  input_audio: '[sound]',
}

function wordsOf({ type, text, refusal }: any): string {
  return MEDIA[type] ?? text ?? refusal ?? ''
}

function nameOf(id: unknown, all: readonly ChatMessage[]): string {
  const call = all.flatMap(({ tool_calls = [] }) => tool_calls).find((one) => one.id === id)
  return call?.function?.name ?? call?.custom?.name ?? 'a tool'
}

function itemsOf(input: string | readonly any[]): readonly any[] {
  const items = typeof input === 'string' ? [{ role: 'user', content: input }] : input
  return items.map((item) => (item.type ? item : { ...item, type: 'message' }))
}

/**
 * What a summary cannot stand for: the client's instructions, a question that has no answer yet, and a turn with calls
 * whose results are still to come.
 */
function keptOf(items: readonly any[]): Kept {
  const isOf = (role: string) => (item: any) => item.type === 'message' && item.role === role
  const before = items.filter((item) => isOf('system')(item) || isOf('developer')(item))
  const results = new Set(items.filter(({ type }) => RESULT.test(type)).map((one) => one.call_id))
  const waiting = items.findIndex(({ type, call_id }) => CALL.test(type) && !results.has(call_id))
  let turn = waiting < 0 ? items.length : waiting
  while (turn > 0 && isOfAnswer(items[turn - 1])) turn--
  if (waiting < 0) turn = items.length
  const question = items.findLastIndex(isOf('user'))
  const isOpen = question >= 0 && question > items.findLastIndex(isOf('assistant'))
  const questions = isOpen && question < turn ? [items[question]] : []
  return { before, after: [...questions, ...items.slice(turn)] }
}

const CALL = /^(function|custom_tool|local_shell|shell|apply_patch)_call$/
const RESULT = /_call_output$/

function isOfAnswer({ type, role }: any): boolean {
  return role === 'assistant' || type === 'reasoning' || CALL.test(type)
}
