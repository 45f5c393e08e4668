/** Tools and tool choice. */
import type { Host } from '../../src/plugin.ts'

/** `tools` and `toolConfig` of a request. @throws the failure class `bad_request` for custom tools */
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

/** `parametersJsonSchema` takes JSON Schema as it is; Google's own schema format would lose keywords. */
function toDeclaration({ function: { name, description, parameters } }: any): object {
  return {
    name,
    ...(description === undefined ? {} : { description }),
    ...(parameters === undefined ? {} : { parametersJsonSchema: parameters }),
  }
}

function toConfig(choice: any, tools: readonly any[], fail: Host['fail']): object | undefined {
  // VALIDATED lets the model choose, and guarantees that a call fits its schema.
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
        // AUTO does not take names.
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
