/** Tool calls in a conversation, and their ids. */
import type { ChatMessage, Host, ChatInput } from '../../src/plugin.ts'
import { toInput } from './http.ts'

/** A call of a tool. */
export interface Call {
  readonly id: string | undefined
  readonly name: string
  /** Its arguments as the model wrote them. */
  readonly text: string
  /** The client's cache mark. */
  readonly cache_control?: unknown
}

/** A call as a block of the Messages API, which Converse has under other names. */
interface ToolUse {
  readonly type: 'tool_use'
  readonly id: string
  readonly name: string
  /** The arguments, as an object. */
  readonly input: unknown
  readonly cache_control?: unknown
}

/** The calls of a message, in either of OpenAI's forms. */
export function callsOf({ tool_calls, function_call }: ChatMessage): Call[] {
  const calls: Call[] = (tool_calls ?? []).map(({ id, function: called, cache_control }: any) => ({
    id,
    name: called.name,
    text: called.arguments,
    ...(cache_control && { cache_control }),
  }))
  if (function_call && calls.length === 0) {
    calls.push({ id: undefined, name: function_call.name, text: function_call.arguments })
  }
  return calls
}

/**
 * Ids of tool calls. The vendor accepts letters, digits, `_` and `-`, and each id once per conversation. Clients also
 * send ids of other vendors, which may contain other characters or repeat.
 */
export class CallIds {
  readonly #normalize: (id: string) => string
  readonly #used = new Set<string>()
  readonly #called = new Set<string>()
  /** Calls of the last turn without a result, by the client's id. */
  #waiting: {
    readonly normalizedId: string | undefined
    readonly name: string
    readonly id: string
  }[] = []

  /** @param normalize applied to every id of a client first */
  constructor(normalize: (id: string) => string = (id) => id) {
    this.#normalize = normalize
  }

  /** Names of all tools that the conversation calls. */
  get called(): ReadonlySet<string> {
    return this.#called
  }

  /** Registers a call. @returns the block that has the id for the vendor */
  toToolUse({ id, name, text, cache_control }: Call): ToolUse {
    const block = { type: 'tool_use', id: this.open(id, name), name } as const
    return { ...block, input: toInput(text), ...(cache_control !== undefined && { cache_control }) }
  }

  /** Registers a call. @returns the id for the vendor */
  open(clientId: string | undefined, name: string): string {
    const normalizedId = clientId === undefined ? undefined : this.#normalize(clientId)
    const plain = (normalizedId ?? '').replace(/[^\w-]/g, '_') || 'call'
    let id = plain
    for (let n = 2; this.#used.has(id); n++) id = `${plain}_${n}`
    this.#used.add(id)
    this.#called.add(name)
    this.#waiting.push({ normalizedId, name, id })
    return id
  }

  /**
   * The vendor's id of the call that a tool message answers. Results of functions name the function, not an id.
   * @param path the path of the message, for the error
   * @throws the failure class `bad_request` when no such call waits
   */
  answer({ role, tool_call_id, name }: ChatMessage, path: string, fail: Host['fail']): string {
    const normalizedId = role === 'tool' ? this.#normalize(tool_call_id) : undefined
    const at = this.#waiting.findIndex((call) =>
      role === 'tool' ? call.normalizedId === normalizedId : call.name === name,
    )
    if (at >= 0) return this.#waiting.splice(at, 1)[0]!.id
    const param = `${path}.${role === 'tool' ? 'tool_call_id' : 'name'}`
    const expected = 'a call of the assistant message before it that has no result yet'
    const options = { code: 'invalid_value', param }
    throw fail('bad_request', `Expected ${param} to name ${expected}.`, options)
  }

  /** Removes the calls without a result. @returns their ids */
  rest(): readonly string[] {
    const rest = this.#waiting
    this.#waiting = []
    return rest.map(({ id }) => id)
  }
}

// What a request says about calls of tools, for vendors with other forms of it.

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
