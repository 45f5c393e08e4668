/** Tools and tool choice. */
import type { ChatInput, Host } from '../../src/plugin.ts'
import type { Marked } from './blocks.ts'
import { toSupportedSchema } from './schema.ts'

/** A tool in the vendor's form. */
export interface Tool extends Marked {
  readonly name: string
  readonly description?: string
  readonly input_schema: unknown
  readonly strict?: true
}

/** The vendor's form of a tool choice. */
export interface ToolChoice {
  readonly type: 'auto' | 'none' | 'any' | 'tool'
  readonly name?: string
  readonly disable_parallel_tool_use?: true
}

/**
 * The tools of a request; with `allowed_tools` only those.
 * @param schemas whether the model supports structured output
 * @throws the failure class `bad_request` for tools that are not functions
 */
export function toTools(
  { tools = [], tool_choice }: ChatInput,
  schemas: boolean,
  fail: Host['fail'],
): Tool[] {
  const allowed = allowedIn(tool_choice)
  return tools
    .map((tool, index) => {
      if (tool.type !== 'function') {
        throw fail(
          'bad_request',
          `Expected a tool of type function at tools[${index}]: this model has no others.`,
          { code: 'unsupported_value', param: `tools[${index}].type` },
        )
      }
      return toTool(tool, schemas)
    })
    .filter(({ name }) => !allowed || allowed.has(name))
}

/**
 * The tool choice of a request. @param forced whether the model can be forced to call a tool; otherwise the choice is
 * `auto`
 */
export function toToolChoice(
  { tool_choice, parallel_tool_calls }: ChatInput,
  forced: boolean,
): ToolChoice | undefined {
  const choice = choiceOf(tool_choice)
  const serial = parallel_tool_calls === false
  if (!choice && !serial) return undefined
  if (choice?.type === 'none') return choice
  const free = !choice || (!forced && choice.type !== 'auto')
  return { ...(free ? AUTO : choice), ...(serial ? { disable_parallel_tool_use: true } : {}) }
}

const AUTO: ToolChoice = { type: 'auto' }

function choiceOf(choice: any): ToolChoice | undefined {
  if (choice === undefined) return undefined
  if (choice === 'none' || choice === 'auto') return { type: choice }
  if (choice === 'required') return { type: 'any' }
  if (choice.type === 'allowed_tools') {
    return choice.allowed_tools.mode === 'required' ? { type: 'any' } : AUTO
  }
  return { type: 'tool', name: choice[choice.type].name }
}

function allowedIn(choice: any): ReadonlySet<string> | undefined {
  if (choice?.type !== 'allowed_tools') return undefined
  return new Set(choice.allowed_tools.tools.map((tool: any) => (tool.function ?? tool).name))
}

function toTool({ function: called, cache_control }: any, schemas: boolean): Tool {
  const { name, description, parameters, strict } = called
  const schema = { type: 'object', properties: {}, ...parameters }
  const strictly = strict === true && schemas
  const marker = cache_control ?? called.cache_control
  return {
    name,
    ...(description ? { description } : {}),
    input_schema: strictly ? toSupportedSchema(schema) : schema,
    ...(strictly ? { strict: true } : {}),
    ...(marker ? { cache_control: marker } : {}),
  }
}
