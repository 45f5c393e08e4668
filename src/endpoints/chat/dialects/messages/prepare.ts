/** A request of this API for a vendor that speaks it: the client's own text, less what is the gateway's business. */
import type { NativeFormat, NativeTarget } from '../../../../pipeline/pipeline.ts'
import { itemsOf, membersOf, withItems, withMembers } from '../../../../stream/raw-json.ts'
import { withNeutralMedia } from '../shared/media.ts'
import { OWN_MEMBERS } from '../shared/own-members.ts'
import { isCarrier } from '../shared/reasoning.ts'
import { addressesInBody, NEVER_PASSED, notPassed } from '../shared/walk.ts'
import { isBillingNote } from './conversation.ts'
import { isVendorResult } from './fields.ts'
import { InvalidRequest } from '../../../../errors/errors.ts'
import type { Incoming } from '../../../../pipeline/http.ts'

/** The gateway's own members, and those with another price. */
const REMOVED: readonly string[] = [...OWN_MEMBERS, 'speed', 'inference_geo']
/** Members of the API that a vendor gets. What is not listed may belong to the operator's account. */
const PASSED: ReadonlySet<string> = new Set(
  (
    'model messages system max_tokens stream temperature top_p top_k stop_sequences tools tool_choice thinking output_config ' +
    'output_format cache_control metadata context_management diagnostics service_tier'
  ).split(' '),
)
const MIN_BUDGET = 1024

type Changes = Map<string, string | undefined>

/** Unchanged members keep their text: caches and signatures depend on it. See {@link NativeFormat.prepare}. */
export const prepare: NativeFormat['prepare'] = (request, to) => {
  const { rawJson, stream, nativeHeaders: headers = {} } = request
  const source = rawJson?.text
  // A vendor may read another one of two members with the same name than guards have.
  if (source === undefined || rawJson!.isAmbiguous) return undefined
  const body = rawJson!.value as Record<string, any>
  // Guards that judge a conversation read nothing of them.
  if (to.guarded && (body.messages.some(hasVendorResult) || hasInstructions(body))) return undefined
  const text = withNeutralMedia(source, body, 'messages')
  const places = new Map(membersOf(text).map(({ name, start }) => [name, start]))
  const left = notPassed(body, PASSED, to.passes, NEVER_PASSED)
  const ignored = left.filter((name) => !REMOVED.includes(name) && (body[name] ?? null) !== null)
  const changes: Changes = new Map([
    ...left.map((name) => [name, undefined] as const),
    ['model', JSON.stringify(to.upstreamModel)],
    ['service_tier', '"standard_only"'],
  ])
  limit(body, to, changes)
  if (to.system) changes.set('system', systemText(body, text, places, to.system))
  const { metadata, messages } = body
  if (metadata?.user_id) {
    const label = JSON.stringify(to.label(metadata.user_id))
    const own = new Map([['user_id', label]])
    changes.set('metadata', withMembers(text, places.get('metadata')!, own))
  }
  if (messages.some(hasLeftOut)) {
    changes.set('messages', messagesText(messages, text, places.get('messages')!))
    ignored.push(...leftOutOf(messages))
  }
  const tools: readonly any[] = body.tools ?? []
  if (tools.length > 0) ignored.push(...limitTools(body, text, places, to, changes))
  const sent = {
    ...Object.fromEntries(Object.entries(body).filter(([name]) => !left.includes(name))),
    messages: messages.map(withoutLeftOut),
    tools: tools.filter((tool) => mayKeep(tool, to.model.prices, to.guarded)),
  }
  const addresses = addressesInBody(sent)
  return { input: { body: withMembers(text, 0, changes), headers, stream }, ignored, addresses }
}

/** Lowers the limit of tokens to what policy and model allow; thinking has to stay below it. */
function limit(
  { max_tokens: requested, thinking }: Record<string, any>,
  { maxOutputTokens = Infinity, model }: NativeTarget,
  changes: Changes,
): void {
  const most = Math.min(requested, maxOutputTokens, model.maxOutputTokens ?? Infinity)
  if (!(most < requested)) return
  changes.set('max_tokens', String(most))
  if (thinking?.type !== 'enabled' || thinking.budget_tokens < most) return
  const lower = most > MIN_BUDGET ? { ...thinking, budget_tokens: most - 1 } : { type: 'disabled' }
  changes.set('thinking', JSON.stringify(lower))
}

/** Puts the policy's text first, but after a note of a coding assistant, which the vendor reads only there. */
function systemText(
  { system }: Record<string, any>,
  text: string,
  places: ReadonlyMap<string, number>,
  policy: string,
): string {
  const own = textBlock(policy)
  if (!system || system.length === 0) return `[${own}]`
  if (typeof system === 'string') return `[${own},${textBlock(system)}]`
  const blocks = itemsOf(text, places.get('system')!).map(({ start, end }) =>
    text.slice(start, end),
  )
  const first = isBillingNote(system[0].text) ? 1 : 0
  return `[${blocks.toSpliced(first, 0, own).join(',')}]`
}

function textBlock(text: string): string {
  return JSON.stringify({ type: 'text', text })
}

function hasVendorResult({ content }: any): boolean {
  return Array.isArray(content) && content.some(({ type }) => isVendorResult(type))
}

function hasInstructions({ context_management: management }: Record<string, any>): boolean {
  return (
    Array.isArray(management?.edits) && management.edits.some((edit: any) => edit?.instructions)
  )
}

function hasLeftOut({ content }: any): boolean {
  return Array.isArray(content) && content.some(isLeftOut)
}

/** The same message with null in the place of what no vendor gets. */
export function withoutLeftOut(message: any): any {
  if (!hasLeftOut(message)) return message
  if (message.content.every(isLeftOut)) return null
  return { ...message, content: message.content.map((one: any) => (isLeftOut(one) ? null : one)) }
}

/** The paths of blocks that are left out and were no reasoning of other vendors. */
function leftOutOf(messages: readonly any[]): string[] {
  return messages.flatMap(({ content }, i) =>
    (Array.isArray(content) ? content : []).flatMap((block: any, j: number) =>
      isOfAccount(block) ? [`messages[${i}].content[${j}].${block.type}`] : [],
    ),
  )
}

/** Tools whose results name nothing of the operator's account. */
const FREE_RESULTS = /^(web_search|web_fetch|tool_search)_/

/** Whether a block is of a tool that the vendor ran with things of the operator's account: files, containers, logins. */
function isOfAccount({ type, name }: any): boolean {
  if (type === 'container_upload') return true
  if (typeof type !== 'string' || !isVendorResult(type)) return false
  return !FREE_RESULTS.test(type === 'server_tool_use' ? `${name}_` : type)
}

function isLeftOut(block: any): boolean {
  return isForeign(block) || isOfAccount(block)
}

function isForeign({ type, signature }: any): boolean {
  return type === 'thinking' && typeof signature === 'string' && isCarrier(signature)
}

/** The messages without what is left out, and without those that had nothing else. */
function messagesText(messages: readonly any[], text: string, at: number): string {
  return withItems(text, at, (item, index, start) => {
    const message = messages[index]
    if (!hasLeftOut(message)) return item
    if (message.content.every(isLeftOut)) return undefined
    const content = membersOf(text, start).find(({ name }) => name === 'content')!
    const kept = withItems(text, content.start, (block, place) =>
      isLeftOut(message.content[place]) ? undefined : block,
    )
    return withMembers(text, start, new Map([['content', kept]]))
  })
}

/** Leaves out tools that the vendor may not run. @returns their paths @throws InvalidRequest where one has to be called */
function limitTools(
  { tools, tool_choice }: Record<string, any>,
  text: string,
  places: ReadonlyMap<string, number>,
  { model, guarded }: NativeTarget,
  changes: Changes,
): string[] {
  const kept: boolean[] = tools.map((tool: any) => mayKeep(tool, model.prices, guarded))
  if (kept.every(Boolean)) return []
  const forced = tools.findIndex(({ name }: any) => name === tool_choice?.name)
  if (tool_choice?.type === 'tool' && kept[forced] === false) throw notOffered(tools[forced])
  const isLeft = kept.some(Boolean)
  changes.set(
    'tools',
    isLeft
      ? withItems(text, places.get('tools')!, (item, index) => (kept[index] ? item : undefined))
      : undefined,
  )
  if (!isLeft) changes.set('tool_choice', undefined)
  return tools.flatMap(({ type }: any, index: number) =>
    kept[index] ? [] : [`tools[${index}].${type}`],
  )
}

// Features that only a vendor with this API understands: tools that it defines, headers.

export const WEB_SEARCH = /^web_search_/
const CLIENT_TOOLS = /^(bash|text_editor|computer|memory)_/
/** Tools that the vendor runs, and that cost nothing but tokens. */
const FREE_TOOLS = /^(web_fetch|tool_search_tool)_/

const VERSION = 'anthropic-version'
const BETA = 'anthropic-beta'
const DEFAULT_VERSION = '2023-06-01'

export function isOwn({ type }: { readonly type?: string | null }): boolean {
  return (type ?? 'custom') === 'custom'
}

/**
 * Whether a tool may go to the vendor. One that the vendor runs costs money, and brings in text that no guard has read.
 * @param prices the prices of the model
 */
function mayKeep(
  tool: { readonly type?: string | null },
  prices: Readonly<Record<string, unknown>>,
  guarded: boolean,
): boolean {
  if (isOwn(tool)) return true
  const type = tool.type!
  if (CLIENT_TOOLS.test(type)) return true
  if (guarded) return false
  return FREE_TOOLS.test(type) || (WEB_SEARCH.test(type) && prices.web_search !== undefined)
}

export function notOffered({ name }: { readonly name: string }): InvalidRequest {
  const shown = JSON.stringify(String(name).slice(0, 64))
  const message = `Invalid 'tool_choice': the tool ${shown} is not offered here.`
  return new InvalidRequest('unsupported_value', message, { param: 'tool_choice' })
}

/** Headers of the client that the vendor gets. No other one is passed: some choose what the operator pays for. */
export function nativeHeaders(header: Incoming['header']): Record<string, string> {
  const version = header(VERSION)?.trim()
  const betas = betasOf(header(BETA))
  return {
    [VERSION]: version && isName(version) ? version : DEFAULT_VERSION,
    ...(betas.length > 0 && { [BETA]: betas.join(',') }),
  }
}

/** Whether the client has asked for beta features, which may send new kinds of events. */
export function knowsBetas(headers: Readonly<Record<string, string>> = {}): boolean {
  return headers[BETA] !== undefined
}

/** The betas without fast modes, which have another price. */
function betasOf(value = ''): string[] {
  const names = value.split(',').map((name) => name.trim())
  return names.filter((name) => isName(name) && !name.startsWith('fast-mode-'))
}

function isName(text: string): boolean {
  return /^[\w.-]{1,100}$/.test(text)
}
