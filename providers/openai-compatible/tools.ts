/** Tools of a request and the choice among them. */
import type { ChatInput, Host, Reasoning } from '../../src/plugin.ts'

/** Differences between vendors in tools. */
export interface ToolQuirks {
  /** Has tools of type `custom`; elsewhere they are offered as functions. */
  readonly customTools?: true
  /** Knows the choice `allowed_tools`; elsewhere only the allowed tools are sent. */
  readonly allowedTools?: true
  /**
   * What happens to a choice that forces a call: `ignored` by the vendor, or `unreasoned`, which means refused while the
   * model reasons.
   */
  readonly forcedTools?: 'ignored' | 'unreasoned'
  /** Models that cannot be without reasoning, by their names. */
  readonly alwaysReasons?: RegExp
  /** Takes no tools; calls and results of other models are in the text. */
  readonly noTools?: true
}

/** The members of a request about tools. */
interface ToolMembers {
  tools?: unknown
  tool_choice?: unknown
  parallel_tool_calls?: unknown
}

/** Whether the client forces the model to call a tool. */
function isForced(choice: any): boolean {
  if (typeof choice !== 'object' || choice === null) return choice === 'required'
  return choice.type !== 'allowed_tools' || choice.allowed_tools?.mode === 'required'
}

/**
 * The reasoning of a request. Reasoning is a hint and a forced choice is not: where a vendor refuses both together,
 * reasoning is turned off.
 * @param honours the deployment takes forced choices, whatever the vendor's row says
 * @throws the failure class `bad_request` for a forced choice that the model cannot have
 */
export function reasoningBeside(
  { reasoning, tools, tool_choice }: ChatInput,
  model: string,
  { forcedTools, alwaysReasons }: ToolQuirks,
  honours: boolean,
  fail: Host['fail'],
): Reasoning | undefined {
  if (!forcedTools || honours || !tools || !isForced(tool_choice)) return reasoning
  if (forcedTools === 'unreasoned' && alwaysReasons?.test(model) !== true) return { enabled: false }
  const message = 'This model cannot be forced to call a tool. Send tool_choice auto or none.'
  throw fail('bad_request', message, { code: 'unsupported_parameter', param: 'tool_choice' })
}

/**
 * The members about tools that differ from the request; undefined removes one.
 * @throws the failure class `bad_request` for tools where the vendor takes none
 */
export function toolMembers(
  { tools, tool_choice: choice }: ChatInput,
  { allowedTools, forcedTools, noTools }: ToolQuirks,
  honours: boolean,
  fail: Host['fail'],
): ToolMembers | undefined {
  if (!tools) return undefined
  const none = { tools: undefined, tool_choice: undefined, parallel_tool_calls: undefined }
  // A vendor that ignores the choice would have the tools called.
  if (choice === 'none' && (noTools || (forcedTools === 'ignored' && !honours))) return none
  if (noTools) {
    const message = 'This model takes no tools. Leave out tools, or send tool_choice none.'
    throw fail('bad_request', message, { code: 'unsupported_parameter', param: 'tools' })
  }
  const { type, allowed_tools: allowed } = Object(choice)
  if (type !== 'allowed_tools' || allowedTools) return undefined
  const names = new Set(allowed.tools.map((tool: any) => nameOf(tool)))
  const left = tools.filter((tool) => names.has(nameOf(tool)))
  if (left.length === 0 && allowed.mode === 'auto') return none
  return { tools: left, tool_choice: allowed.mode }
}

/** The name of a tool or of a choice, with its type. */
function nameOf(tool: any): string {
  return `${tool.type} ${tool[tool.type]?.name ?? tool.name}`
}
