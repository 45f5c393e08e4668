/** Requests that make a model answer in JSON: by a schema, by a forced tool call, or by instruction only. */
import type { ChatInput, ChatCompletion } from '../../../src/plugin.ts'
import type { ModelClient } from './judge-model.ts'

const FORMS = ['schema', 'tool', 'text'] as const
type Form = (typeof FORMS)[number]
const TOOL = 'report'

/** The last form that each model accepted. */
export type AcceptedForms = Map<string, Form>

interface Question {
  readonly request: ChatInput
  readonly schema: object
}

/** Asks in the strictest form that the model accepts. A model rejects unsupported forms as bad requests. */
export async function askForJson(
  { request, schema }: Question,
  known: AcceptedForms,
  { model, ask }: ModelClient,
): Promise<ChatCompletion> {
  const first = FORMS.indexOf(known.get(model) ?? 'schema')
  for (let i = first; ; i++) {
    const form = FORMS[i]!
    try {
      const completion = await ask({ ...request, ...membersOf(form, schema) })
      known.set(model, form)
      return completion
    } catch (error) {
      if (i === FORMS.length - 1 || !isRefused(error)) throw error
    }
  }
}

function membersOf(form: Form, schema: object): object {
  switch (form) {
    case 'schema':
      return {
        temperature: 0,
        response_format: {
          type: 'json_schema',
          json_schema: { name: TOOL, strict: true, schema },
        },
      }
    case 'tool':
      return {
        temperature: 0,
        tools: [{ type: 'function', function: { name: TOOL, parameters: schema } }],
        tool_choice: { type: 'function', function: { name: TOOL } },
      }
    case 'text':
      // Some models refuse a temperature.
      return {}
  }
}

/** Whether the vendor rejected the request itself. */
function isRefused(error: unknown): boolean {
  return error instanceof Error && (error as { failure?: unknown }).failure === 'bad_request'
}
