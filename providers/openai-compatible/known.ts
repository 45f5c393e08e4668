/**
 * What vendors know of OpenAI's form. Members that a vendor does not know make it refuse the whole request, so they are
 * left out at any depth.
 */

/** What goes through: all of a value, the named members of an object, the items of a list, or what depends on the value. */
type Known =
  | true
  | { readonly [member: string]: Known }
  | readonly [Known]
  | ((value: any) => Known)

/** Known members of the form, by the member of the body that they are in. */
export interface KnownForm {
  readonly messages: Known
  readonly [member: string]: Known
}

/** What is left of a value; the value itself where nothing is left out. */
export function known(value: unknown, form: Known): unknown {
  if (form === true || typeof value !== 'object' || value === null) return value
  if (typeof form === 'function') return known(value, form(value))
  if (Array.isArray(value)) {
    if (!Array.isArray(form)) return value
    const [item] = form as readonly [Known]
    const items = value.map((one) => known(one, item))
    return items.every((one, i) => one === value[i]) ? value : items
  }
  return knownMembers(value as Record<string, unknown>, form as Readonly<Record<string, Known>>)
}

function knownMembers(
  value: Record<string, unknown>,
  form: Readonly<Record<string, Known>>,
): Record<string, unknown> {
  let changed: Record<string, unknown> | undefined
  for (const name in value) {
    const of = Object.hasOwn(form, name) ? form[name]! : undefined
    const left = of === undefined ? undefined : known(value[name], of)
    if (left === value[name]) continue
    changed ??= { ...value }
    if (left === undefined) delete changed[name]
    else changed[name] = left
  }
  return changed ?? value
}

/** Members of messages that this gateway has, and that become the vendor's own or go away later. */
const OURS = {
  cache_control: true,
  is_error: true,
  phase: true,
  reasoning: true,
  reasoning_content: true,
  reasoning_details: true,
  refusal: true,
  annotations: true,
} as const

const NAMED = { name: true } as const
const FUNCTION = { name: true, description: true, parameters: true, strict: true } as const
const GRAMMAR = { type: true, grammar: { syntax: true, definition: true } } as const
const CUSTOM = { name: true, description: true, format: GRAMMAR } as const
const CHOICE = { type: true, function: NAMED, custom: NAMED } as const

const TOOL = { type: true, function: FUNCTION, custom: CUSTOM } as const
const CALL = {
  id: true,
  type: true,
  function: { name: true, arguments: true },
  custom: { name: true, input: true },
} as const
const SCHEMA = { name: true, description: true, schema: true, strict: true } as const

/**
 * OpenAI's form, as far as it is known.
 * @param part further members of every content part
 * @param answer further members of an assistant's message
 * @param call further members of a call
 */
export function formWith(
  part: readonly string[],
  answer: readonly string[],
  call: readonly string[] = [],
): KnownForm {
  const more = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, true]))
  const content: Known = [
    {
      type: true,
      text: true,
      refusal: true,
      image_url: { url: true, detail: true },
      input_audio: { data: true, format: true },
      file: { file_data: true, filename: true },
      cache_control: true,
      ...more(part),
    } as const,
  ]
  const message = { role: true, content, name: true, ...OURS } as const
  const roles: Readonly<Record<string, Known>> = {
    assistant: {
      ...message,
      tool_calls: [{ ...CALL, ...more(call) }],
      function_call: { name: true, arguments: true },
      ...more(answer),
    },
    tool: { ...message, tool_call_id: true },
  }
  return {
    messages: [({ role }: { role: string }) => roles[role] ?? message],
    tools: [TOOL],
    tool_choice: { ...CHOICE, allowed_tools: { mode: true, tools: [CHOICE] } },
    response_format: { type: true, json_schema: SCHEMA },
    prediction: { type: true, content: true },
  }
}
