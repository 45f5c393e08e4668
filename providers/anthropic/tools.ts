/** Tools and tool choice. */
import type { ChatInput, Host } from '../../src/plugin.ts'
import type { Marked } from './blocks.ts'
import { hasMaps, openSchema, withFlatRoot } from '../shared/schemas.ts'
import { allowedTools, isForced } from '../shared/tool-calls.ts'
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
 * @throws the failure class `bad_request` for strict tools that take maps
 */
export function toTools(input: ChatInput, schemas: boolean, fail: Host['fail']): Tool[] {
  return allowedTools(input).map((tool) => {
    const { name, parameters, strict } = tool.function
    const strictly = strict === true && schemas
    if (strictly && hasMaps(parameters ?? {})) {
      const position = input.tools!.indexOf(tool)
      throw openSchema(`function '${name}'`, `tools[${position}].function.parameters`, fail)
    }
    return toTool(withFlatRoot(tool, input.tools!.indexOf(tool), fail), strictly)
  })
}

/** A tool that a conversation calls, and that is not offered any more. */
export function toEarlierTool(name: string): Tool {
  return { name, input_schema: { type: 'object', properties: {} } }
}

/** The tool choice of a request. */
export function toToolChoice({
  tool_choice,
  parallel_tool_calls,
}: ChatInput): ToolChoice | undefined {
  const choice = choiceOf(tool_choice)
  const serial = parallel_tool_calls === false
  if (!choice && !serial) return undefined
  if (choice?.type === 'none') return choice
  return { ...(choice ?? AUTO), ...(serial ? { disable_parallel_tool_use: true } : {}) }
}

const AUTO: ToolChoice = { type: 'auto' }

function choiceOf(choice: any): ToolChoice | undefined {
  if (choice === undefined) return undefined
  if (choice === 'none' || choice === 'auto') return { type: choice }
  if (choice.type === 'function') return { type: 'tool', name: choice.function.name }
  return isForced(choice) ? { type: 'any' } : AUTO
}

function toTool({ function: called, cache_control }: any, strictly: boolean): Tool {
  const { name, description, parameters } = called
  const schema = { type: 'object', properties: {}, ...parameters }
  const marker = cache_control ?? called.cache_control
  return {
    name,
    ...(description ? { description } : {}),
    input_schema: strictly ? toSupportedSchema(schema) : schema,
    ...(strictly ? { strict: true } : {}),
    ...(marker ? { cache_control: marker } : {}),
  }
}
