/** Ways to make a model answer in JSON: by a schema, by a tool that it has to call, by asking for it. */
import type { ChatInput, ChatCompletion } from '../../../src/plugin.ts'
import type { Asked } from './brain.ts'

const FORMS = ['schema', 'tool', 'text'] as const
type Form = (typeof FORMS)[number]
const TOOL = 'report'

/** The form that each model took last. */
export type Forms = Map<string, Form>

interface Question {
  readonly request: ChatInput
  readonly schema: object
}

/** Asks in the best form that the model takes; which one that is, it says by refusing the others. */
export async function askInForm(
  { request, schema }: Question,
  known: Forms,
  { model, ask }: Asked,
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
      // Some models take no temperature either.
      return {}
  }
}

/** The vendor does not take the request, whatever it is that it does not like. */
function isRefused(error: unknown): boolean {
  return error instanceof Error && (error as { failure?: unknown }).failure === 'bad_request'
}
