/** Tools, and which of them may or must be called. */
import type { Host } from '../../src/plugin.ts'

/** `tools` and `toolConfig` of a request. @throws the failure class `bad_request` for what Google has no like of */
export function toTools(
  tools: readonly any[] | undefined,
  choice: unknown,
  fail: Host['fail'],
): { tools?: object[]; toolConfig?: object } {
  const body: { tools?: object[]; toolConfig?: object } = {}
  if (tools?.length) {
    if (tools.some(({ type }) => type !== 'function')) throw noCustomTools('tools', fail)
    body.tools = [{ functionDeclarations: tools.map(toDeclaration) }]
  }
  const functionCallingConfig = toConfig(choice, tools ?? [], fail)
  if (functionCallingConfig) body.toolConfig = { functionCallingConfig }
  return body
}

/** The schema goes as JSON Schema: Google reads that too, and nothing has to be left out of it. */
function toDeclaration({ function: { name, description, parameters } }: any): object {
  return {
    name,
    ...(description === undefined ? {} : { description }),
    ...(parameters === undefined ? {} : { parametersJsonSchema: parameters }),
  }
}

function toConfig(choice: any, tools: readonly any[], fail: Host['fail']): object | undefined {
  // Validated: it may call, and if it does the call fits the schema.
  const mayCall = tools.some((tool) => tool.function.strict) ? 'VALIDATED' : 'AUTO'
  switch (typeof choice === 'object' ? choice?.type : choice) {
    case undefined:
      return mayCall === 'VALIDATED' ? { mode: mayCall } : undefined
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
        // AUTO takes no names.
        mode: mode === 'required' ? 'ANY' : 'VALIDATED',
        allowedFunctionNames: allowed.map((tool: any) => tool.function?.name ?? tool.name),
      }
    }
    default:
      throw noCustomTools('tool_choice', fail)
  }
}

function noCustomTools(param: string, fail: Host['fail']): Error {
  const message = `${param}: this model takes tools of type function only.`
  return fail('bad_request', message, { code: 'unsupported_parameter', param })
}
