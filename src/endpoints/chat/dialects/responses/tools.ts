/** Tools of the Responses API in the normal form of chat. Unknown ones never fail a request: agents send all that they have. */
import { InvalidRequest } from '../../../../errors/errors.ts'
import type { ChatRequest } from '../../request.ts'
import { flatName, type ToolName } from './names.ts'

const WEB_SEARCH = /^web_search/

/** Results of a search by its `search_context_size`. */
const RESULTS = new Map<unknown, number>([
  ['low', 3],
  ['medium', 5],
  ['high', 10],
])

interface PlacedTool {
  readonly tool: any
  readonly path: string
}

interface ToolMembers {
  readonly members: Partial<ChatRequest>
  readonly ignored: readonly string[]
  readonly names: ReadonlyMap<string, ToolName>
  /** The reason why the request cannot be translated: a tool has to be called that is left out. */
  readonly untranslatable: InvalidRequest | undefined
}

/** All tools of a body, those of items with further tools included. */
export function toolsIn({ tools, input }: Record<string, any>): PlacedTool[] {
  const placed = (list: any[], at: string) =>
    list.map((tool, index) => ({ tool, path: `${at}[${index}]` }))
  const items: any[] = Array.isArray(input) ? input : []
  const further = items.flatMap((item, index) =>
    item.type === 'additional_tools' ? placed(item.tools, `input[${index}].tools`) : [],
  )
  return [...placed(tools ?? [], 'tools'), ...further]
}

/** @param isQuestion whether the conversation ends with words of the user */
export function toToolMembers(body: Record<string, any>, isQuestion: boolean): ToolMembers {
  const placed = toolsIn(body)
  const names = new Map<string, ToolName>()
  const tools = placed.flatMap(({ tool }) => toTools(tool, names))
  const foreign = placed.filter(({ tool }) => !isOwn(tool))
  const search = isQuestion && body.tool_choice !== 'none' ? searchTool(foreign) : undefined
  const { tool_choice: choice, parallel_tool_calls } = body
  const isForeign = typeof choice === 'object' && !isOwnChoice(choice)
  return {
    members: {
      ...(tools.length > 0 && { tools }),
      ...(choice !== undefined && !isForeign && { tool_choice: toChoice(choice) }),
      ...(parallel_tool_calls !== undefined && { parallel_tool_calls }),
      ...(search && { web_search_tool: search }),
    },
    ignored: foreign.map(pathOf),
    names,
    untranslatable: isForeign && !search ? notOffered(choice) : undefined,
  }
}

function isOwn({ type }: { readonly type?: unknown }): boolean {
  return type === 'function' || type === 'custom' || type === 'namespace'
}

const CLIENT_TOOLS = new Set<unknown>(['local_shell', 'shell', 'apply_patch'])

/**
 * Whether a tool may go to the vendor. One that the vendor runs costs money, and brings in text that no guard has read.
 * @param prices the prices of the model
 */
export function mayKeep(
  tool: { readonly type?: unknown; readonly [member: string]: any },
  prices: Readonly<Record<string, unknown>>,
  guarded: boolean,
): boolean {
  const { type, execution, environment } = tool
  if (type === 'namespace') {
    return (tool.tools ?? []).every((one: any) => mayKeep(one, prices, guarded))
  }
  if (isOwn(tool)) return true
  if (CLIENT_TOOLS.has(type)) return (environment ?? undefined)?.type === 'local' || !environment
  if (type === 'tool_search') return execution === 'client'
  if (typeof type !== 'string' || !WEB_SEARCH.test(type)) return false
  return !guarded && prices.web_search !== undefined
}

export function notOffered({ type }: { readonly type: unknown }): InvalidRequest {
  const shown = JSON.stringify(String(type).slice(0, 64))
  const message = `Invalid 'tool_choice': the tool ${shown} is not offered here.`
  return new InvalidRequest('unsupported_value', message, { param: 'tool_choice' })
}

function pathOf({ tool, path }: PlacedTool): string {
  return `${path}.${tool.type}`
}

function isOwnChoice({ type }: any): boolean {
  return type === 'function' || type === 'custom' || type === 'allowed_tools'
}

function toTools(tool: any, names: Map<string, ToolName>): any[] {
  if (tool.type !== 'namespace') return isOwn(tool) ? [toTool(tool, tool.name)] : []
  const { name: namespace, description } = tool
  return tool.tools.filter(isOwn).map((member: any) => {
    const name = { name: member.name, namespace }
    const flat = flatName(name)
    names.set(flat, name)
    const descriptions = [description, member.description].filter(Boolean)
    return toTool({ ...member, description: descriptions.join('\n\n') || null }, flat)
  })
}

function toTool({ type, description, parameters, strict, format }: any, name: string): object {
  const common = { name, ...(isGiven(description) && { description }) }
  return type === 'custom'
    ? { type, custom: { ...common, ...(isGiven(format) && { format: toFormat(format) }) } }
    : {
        type: 'function',
        function: {
          ...common,
          ...(isGiven(parameters) && { parameters }),
          ...(isGiven(strict) && { strict }),
        },
      }
}

function toFormat({ type, syntax, definition }: any): object {
  return type === 'grammar' ? { type, grammar: { syntax, definition } } : { type }
}

function toChoice(choice: any): ChatRequest['tool_choice'] {
  if (typeof choice === 'string') return choice
  const { type, mode, tools } = choice
  if (type !== 'allowed_tools') return toNamed(choice)
  const allowed = { mode, tools: tools.filter(isOwn).map(toNamed) }
  return { type, allowed_tools: allowed }
}

function toNamed({ type, name, namespace }: any): { type: string } {
  return { type, [type]: { name: flatName({ name, namespace }) } }
}

function searchTool(foreign: readonly PlacedTool[]): ChatRequest['web_search_tool'] {
  const search = foreign.find(
    ({ tool: { type, external_web_access: reaches } }) =>
      typeof type === 'string' && WEB_SEARCH.test(type) && reaches !== false,
  )
  if (!search) return undefined
  const { filters, search_context_size: size } = search.tool
  const maxResults = RESULTS.get(size)
  return {
    path: pathOf(search),
    includeDomains: textsOf(filters?.allowed_domains),
    excludeDomains: textsOf(filters?.blocked_domains),
    ...(maxResults !== undefined && { maxResults }),
  }
}

function textsOf(list: unknown): readonly string[] {
  return Array.isArray(list) ? list.filter((one) => typeof one === 'string') : []
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null
}
