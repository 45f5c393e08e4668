/** Checks that each difficult conversation reaches the vendor in a form that it takes, or is refused by name. */
import { GatewayError } from '../../errors/errors.ts'
import type { Schema, SchemaIssue } from '../../plugin.ts'
import { DIFFICULT_CONVERSATIONS, type ConversationName } from '../conversations/table.ts'
import { json } from '../fake-upstream.ts'
import { NO_UPSTREAM, type Fixture } from '../fixture.ts'
import { describeError, skipped, toCheck, type Check } from '../report.ts'
import { toTestRequest } from '../requests.ts'
import { FILES_AT } from '../conversations/media.ts'

export interface RequestForm {
  /** The vendor's published form of a body. It should refuse unknown members. */
  readonly schema: Schema
  /** Name of the model; default `test-model`. */
  readonly model?: string
  readonly deployment?: Readonly<Record<string, unknown>>
  /** Conversations that the vendor cannot take: code and `param` of the error that the client gets. */
  readonly refused?: Partial<Record<ConversationName, readonly [code: string, param: string]>>
  /** Texts that arrive changed, because the vendor wants them in another form. All others have to arrive. */
  readonly changed?: Partial<Record<ConversationName, readonly string[]>>
}

/** The result of a conversation: the body that was sent, or the error that replaced the request. */
type Translation = { readonly sent: SentBody } | { readonly error: unknown }

const NAMES = Object.keys(DIFFICULT_CONVERSATIONS) as ConversationName[]

/** One check for each conversation with a problem, or one that passed. @throws ConfigError for invalid deployment options */
export async function checkConversations(fixture: Fixture, form: RequestForm): Promise<Check[]> {
  const name = 'conversations'
  const failed: Check[] = []
  const counts = { sent: 0, refused: 0 }
  for (const one of NAMES) {
    const translation = await translate(fixture, form, one)
    if (!translation) return [skipped(name, null, NO_UPSTREAM)]
    counts['sent' in translation ? 'sent' : 'refused']++
    const problems = await problemsOf(one, translation, form)
    if (problems.length > 0) failed.push(toCheck(name, one, problems))
  }
  const seen = `${counts.sent} sent, ${counts.refused} refused`
  return failed.length > 0 ? failed : [toCheck(name, null, [], [seen])]
}

export async function problemsOf(
  name: ConversationName,
  translation: Translation,
  { schema, refused = {}, changed = {} }: Pick<RequestForm, 'schema' | 'refused' | 'changed'>,
): Promise<string[]> {
  const refusal = refused[name]
  if ('error' in translation) return refusalProblems(translation.error, refusal)
  if (refusal) return [`it is sent, but "refused" has the error ${refusal.join(' at ')} for it`]
  const { sent } = translation
  const { issues = [] } = await schema['~standard'].validate(sent.json)
  const lost = lostIn(DIFFICULT_CONVERSATIONS[name], sent)
  const declared = changed[name] ?? []
  return [
    ...issues.map((issue) => `the body's ${pathOf(issue)}: ${issue.message}`),
    ...lost
      .filter(({ words }) => !declared.includes(words))
      .map(({ path, words }) => `${path} does not arrive: ${JSON.stringify(words)}`),
    ...declared
      .filter((words) => !lost.some((one) => one.words === words))
      .map((words) => `"changed" has ${JSON.stringify(words)}, which arrives as it was`),
  ]
}

async function translate(
  { provider, vendor }: Fixture,
  { model, deployment = {} }: RequestForm,
  name: ConversationName,
): Promise<Translation | undefined> {
  const conversation = { ...DIFFICULT_CONVERSATIONS[name], ...(model !== undefined && { model }) }
  const transcript = { name, request: conversation, deployment, expect: {} }
  const request = await toTestRequest(provider.plugin, transcript)
  const before = vendor.requests.length
  // What the vendor answers does not matter.
  vendor.answer(json({}, 500))
  const { error } = await provider.outcome(request)
  const received = vendor.requests[before]
  if (received) {
    const text = received.body.toString()
    return { sent: { json: parsed(text), text } }
  }
  return error === undefined ? undefined : { error }
}

function refusalProblems(error: unknown, refusal: readonly [string, string] | undefined): string[] {
  if (!GatewayError.is(error) || error.status !== 400) {
    return [`it failed before its request: ${describeError(error)}`]
  }
  const actual = `${error.code} at ${error.param ?? 'no member'}`
  if (!refusal) {
    const hint = 'send it in another form, or put it into "refused" if the vendor has none'
    return [`it is refused with ${actual}: ${error.message} (${hint})`]
  }
  const expected = refusal.join(' at ')
  return actual === expected ? [] : [`it is refused with ${actual}; expected ${expected}`]
}

function pathOf({ path = [] }: SchemaIssue): string {
  const keys = path.map((step) => (typeof step === 'object' ? step.key : step))
  return keys.map(String).join('.') || 'form'
}

/** It is undefined for a body that is not JSON; the schema then says what it expected. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

// Whether all content of a conversation that is meant for a model is in the request that a vendor gets.

interface Lost {
  /** The member of the client's request, such as `messages[1].content[0]`. */
  readonly path: string
  readonly words: string
}

interface SentBody {
  readonly json: unknown
  /** The text as it was sent: numbers have all their digits. */
  readonly text: string
}

/** The texts, arguments, names of tools and media of a request that are not in the body. */
export function lostIn(request: object, sent: SentBody): Lost[] {
  const arrived = new Arrived(sent)
  return wordsOf(request).filter(({ words }) => !arrived.has(words))
}

function wordsOf(request: any): Lost[] {
  const { messages, tools = [], functions = [], tool_choice: choice } = request
  // The vendor need not know tools that the model may not call.
  const hidden = choice === 'none' || choice?.type === 'allowed_tools'
  const offered = hidden ? [] : [...at('tools', tools), ...at('functions', functions)]
  const words = [
    ...at('messages', messages).flatMap(([path, message]) => wordsIn(path, message)),
    ...offered.flatMap(([path, tool]) => {
      const { name, description = '', format } = tool.function ?? tool.custom ?? tool
      const all = [name, description, format?.grammar?.definition ?? '']
      return all.map((one: string) => ({ path, words: one }))
    }),
  ]
  return words.flatMap(({ path, words: one }) => {
    const trimmed = one.trim()
    return trimmed === '' ? [] : [{ path, words: trimmed }]
  })
}

function at(path: string, list: readonly any[]): (readonly [path: string, item: any])[] {
  return list.map((item, i) => [`${path}[${i}]`, item])
}

function wordsIn(path: string, message: any): Lost[] {
  const { content, refusal, tool_calls = [], function_call: called } = message
  const own = `${path}.content`
  const parts =
    typeof content === 'string' ? [[own, { text: content }] as const] : at(own, content ?? [])
  const calls = at(`${path}.tool_calls`, tool_calls).map(
    ([where, one]) => [where, one.function ?? one.custom] as const,
  )
  const all = called ? [...calls, [`${path}.function_call`, called] as const] : calls
  return [
    ...parts.map(([where, part]) => ({ path: where, words: wordOf(part) })),
    { path: `${path}.refusal`, words: refusal ?? '' },
    ...all.flatMap(([where, { name, input, arguments: args }]) =>
      [name, ...(input ? [input] : argumentsIn(args))].map((words) => ({ path: where, words })),
    ),
  ]
}

function wordOf({ text, refusal, image_url, file, input_audio }: any): string {
  return text ?? refusal ?? image_url?.url ?? file?.file_data ?? input_audio?.data ?? ''
}

/** Names and values of the arguments, numbers with the digits that they have. */
function argumentsIn(text: string): string[] {
  try {
    JSON.parse(text)
  } catch {
    return [text]
  }
  return text.match(/"(?:[^"\\]|\\.)*"|-?\d[\d.e+-]*/g)?.map((one) => one.replaceAll('"', '')) ?? []
}

class Arrived {
  readonly #text: string
  readonly #strings: readonly string[]

  constructor({ json, text }: SentBody) {
    this.#text = text
    this.#strings = [...stringsIn(json)]
  }

  /** Whether a text is in the body; media in any of the forms that vendors take. */
  has(words: string): boolean {
    const data = FILES_AT[words]?.[1] ?? /^data:[^,]*;base64,(.*)$/s.exec(words)?.[1] ?? words
    const decoded = Buffer.from(data, 'base64').toString()
    return [words, data].some((one) => this.#holds(one)) || this.#strings.includes(decoded)
  }

  #holds(words: string): boolean {
    return this.#text.includes(words) || this.#strings.some((one) => one.includes(words))
  }
}

function* stringsIn(value: unknown): Generator<string, void, undefined> {
  if (typeof value === 'string') yield value
  else if (typeof value === 'object' && value !== null) {
    for (const [name, member] of Object.entries(value)) {
      yield name
      yield* stringsIn(member)
    }
  }
}
