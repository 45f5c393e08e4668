/** Tools, tool choice, and the form of the answer, which exclude each other on models before Gemini 3. */
import type { ChatInput, Host } from '../../src/plugin.ts'
import { jsonInWords, responseFormat } from '../shared/schemas.ts'
import { isForced, nothingToCall } from '../shared/tool-choice.ts'
import { isBefore } from './thinking.ts'

/** What a request says about calls and about the form of the answer. */
interface Forms {
  /** `tools` and `toolConfig` of the request. */
  readonly tools?: { readonly tools?: object[]; readonly toolConfig?: object }
  /** Members of `generationConfig`. */
  readonly config?: object
  /** What the model is told in words. */
  readonly words?: string
  /** Name of the function whose arguments are the answer. */
  readonly answerTool?: string
}

const ANSWER_TOOL = 'final_answer'

/** Converts tools, tool choice and the form of the answer. @throws the failure class `bad_request` for a choice without tools */
export function toForms(input: ChatInput, model: string, fail: Host['fail']): Forms {
  const { tools: given = [], tool_choice: choice } = input
  const format = responseFormat(input)
  if (isForced(choice) && given.length === 0) throw nothingToCall(fail)
  const asked = format && format.type !== 'text'
  if (!asked || given.length === 0 || !isBefore(model, 3)) {
    return { tools: toTools(given, choice), ...(asked && { config: toConfig(format) }) }
  }
  // These models take functions or a form of the answer.
  if (choice === 'none') return { config: toConfig(format) }
  const schema = format.type === 'json_schema' ? format.json_schema.schema : undefined
  if (format.type !== 'json_schema' || isForced(choice)) {
    return { tools: toTools(given, choice), words: jsonInWords(schema) }
  }
  const answer = { name: ANSWER_TOOL, description: 'Gives the answer.', parameters: schema }
  const tools = toTools([...given, { type: 'function', function: answer }], answering(choice))
  return { tools, answerTool: ANSWER_TOOL }
}

/** The model has to call: one of the tools that it may call, or the one that holds the answer. */
function answering(choice: any): unknown {
  if (choice?.type !== 'allowed_tools') return 'required'
  const tools = [...choice.allowed_tools.tools, { function: { name: ANSWER_TOOL } }]
  return { type: 'allowed_tools', allowed_tools: { mode: 'required', tools } }
}

function toConfig(format: any): object {
  const schema = format.type === 'json_schema' ? format.json_schema.schema : undefined
  return {
    responseMimeType: 'application/json',
    ...(schema === undefined ? {} : { responseJsonSchema: schema }),
  }
}

function toTools(tools: readonly any[], choice: unknown): Forms['tools'] & object {
  const functionCallingConfig = toCallingConfig(choice, tools)
  return {
    ...(tools.length > 0 && { tools: [{ functionDeclarations: tools.map(toDeclaration) }] }),
    ...(functionCallingConfig && { toolConfig: { functionCallingConfig } }),
  }
}

/** `parametersJsonSchema` takes JSON Schema as it is; Google's own schema format would lose keywords. */
function toDeclaration({ function: { name, description, parameters } }: any): object {
  const hasParameters = parameters !== undefined && Object.keys(parameters).length > 0
  return {
    name,
    ...(description && { description }),
    ...(hasParameters && { parametersJsonSchema: parameters }),
  }
}

function toCallingConfig(choice: any, tools: readonly any[]): object | undefined {
  // VALIDATED lets the model choose, and guarantees that a call fits its schema.
  const mayCall = tools.some((tool) => tool.function.strict) ? 'VALIDATED' : 'AUTO'
  switch (typeof choice === 'object' ? choice.type : choice) {
    case 'auto':
      return { mode: mayCall }
    case 'none':
      return { mode: 'NONE' }
    case 'required':
      return { mode: 'ANY' }
    case 'function':
      return { mode: 'ANY', allowedFunctionNames: [choice.function.name] }
    case 'allowed_tools': {
      const { mode, tools: allowed } = choice.allowed_tools
      return {
        // AUTO does not take names.
        mode: mode === 'required' ? 'ANY' : 'VALIDATED',
        allowedFunctionNames: allowed.map((tool: any) => (tool.function ?? tool).name),
      }
    }
    default:
      return mayCall === 'VALIDATED' ? { mode: mayCall } : undefined
  }
}
