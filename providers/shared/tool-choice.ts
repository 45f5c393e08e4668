/** What a request says about calls of tools, for vendors with other forms of it. */
import type { ChatInput, Host } from '../../src/plugin.ts'

/** Whether the model has to call a tool. */
export function isForced(choice: unknown): boolean {
  const { type, allowed_tools: allowed } = Object(choice)
  if (type === 'allowed_tools') return allowed.mode === 'required'
  return choice === 'required' || type === 'function'
}

/** The tools that the model may call: with `allowed_tools` only those. */
export function allowedTools({ tools = [], tool_choice: choice }: ChatInput): readonly any[] {
  const { type, allowed_tools: allowed } = Object(choice)
  if (type !== 'allowed_tools') return tools
  const names = new Set(allowed.tools.map((tool: any) => (tool.function ?? tool).name))
  return tools.filter((tool) => names.has(tool.function.name))
}

/** The failure for a request that requires a call and offers no tool. */
export function nothingToCall(fail: Host['fail']): Error {
  const message = 'Expected tools, because tool_choice asks for a call.'
  return fail('bad_request', message, { code: 'invalid_value', param: 'tool_choice' })
}

/** The failure for a model that cannot be made to call a tool. */
export function cannotForce(fail: Host['fail']): Error {
  const message =
    'Expected tool_choice to be auto or none: this model cannot be made to call a tool.'
  return fail('bad_request', message, { code: 'unsupported_parameter', param: 'tool_choice' })
}

/** Refuses more than one answer to a request. @throws the failure class `bad_request` */
export function requireOneAnswer({ n }: ChatInput, fail: Host['fail']): void {
  if (n === undefined || Number(n) <= 1) return
  const message = 'Expected n to be 1: this model gives one answer to a request.'
  throw fail('bad_request', message, { code: 'unsupported_parameter', param: 'n' })
}
