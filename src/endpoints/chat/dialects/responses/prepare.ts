/** A request of this API for a vendor that speaks it: the client's own text, less what is the gateway's business. */
import type { NativeFormat, NativeTarget } from '../../../../pipeline/pipeline.ts'
import { membersOf, withItems, withMembers } from '../../../../stream/raw-json.ts'
import { withNeutralMedia } from '../shared/media.ts'
import { isCarrier } from '../shared/reasoning.ts'
import { addressesInBody, NEVER_PASSED, notPassed } from '../shared/walk.ts'
import { isOfConversation, MIN_OUTPUT_TOKENS } from './fields.ts'
import { mayKeep, notOffered, toolsIn } from './tools.ts'
import type { WireWords } from '../shared/labels.ts'
import { OWN_MEMBERS } from '../shared/own-members.ts'

type Changes = Map<string, string | undefined>

/** Members of the API that a vendor gets. What is not listed may belong to the operator's account. */
const PASSED: ReadonlySet<string> = new Set(
  (
    'model input instructions stream stream_options temperature top_p presence_penalty frequency_penalty top_logprobs ' +
    'max_output_tokens max_tool_calls parallel_tool_calls reasoning text tools tool_choice include metadata user ' +
    'safety_identifier prompt_cache_key prompt_cache_retention prompt_cache_options store truncation context_management ' +
    'moderation'
  ).split(' '),
)
/** Items of tools that the vendor ran with things of the operator's account. */
const OF_ACCOUNT = /^(code_interpreter|file_search|image_generation|mcp)_/

const LABELS = ['user', 'safety_identifier', 'prompt_cache_key']

/** Members that nothing changes keep their text: caches depend on it. See {@link NativeFormat.prepare}. */
export const prepare: NativeFormat['prepare'] = (request, to) => {
  const { rawJson, stream } = request
  const source = rawJson?.text
  // A vendor may read another one of two members with the same name than guards have.
  if (source === undefined || rawJson!.isAmbiguous) return undefined
  const body = rawJson!.value as Record<string, any>
  if (isUnreadable(body, to)) return undefined
  const text = withNeutralMedia(source, body, 'input')
  const places = new Map(membersOf(text).map(({ name, start }) => [name, start]))
  const left = notPassed(body, PASSED, to.passes, NEVER_PASSED)
  const changes: Changes = new Map([
    ...left.map((name) => [name, undefined] as const),
    ['model', JSON.stringify(to.upstreamModel)],
    ['store', 'false'],
    [
      'stream_options',
      stream ? JSON.stringify({ ...body.stream_options, include_obfuscation: false }) : undefined,
    ],
  ])
  const { instructions, input } = body
  if (to.system) {
    const system = [to.system, instructions].filter(Boolean).join('\n\n')
    changes.set('instructions', JSON.stringify(system))
  }
  const limit = limitOf(body, to)
  if (limit !== undefined) changes.set('max_output_tokens', String(limit))
  for (const name of LABELS) {
    if (body[name]) changes.set(name, JSON.stringify(to.label(body[name])))
  }
  if (Array.isArray(input)) changes.set('input', inputText(input, text, places.get('input')!))
  const ignored = [
    ...left.filter((name) => !REMOVED.includes(name) && (body[name] ?? null) !== null),
    ...limitTools(body, text, places, to, changes),
  ]
  const sent: Record<string, unknown> = {
    ...Object.fromEntries(Object.entries(body).filter(([name]) => !left.includes(name))),
    tools: (body.tools ?? []).filter((tool: any) => mayKeep(tool, to.model.prices, to.guarded)),
  }
  if (Array.isArray(input)) {
    sent.input = input.map(withoutLeftOut)
    input.forEach(({ type }, i) => {
      if (OF_ACCOUNT.test(type)) ignored.push(`input[${i}].${type}`)
    })
  }
  const addresses = addressesInBody(sent)
  return { input: { body: withMembers(text, 0, changes), headers: {}, stream }, ignored, addresses }
}

/** Whether the vendor would get input that guards cannot read, or tools among the items that it may not run. */
function isUnreadable(body: Record<string, any>, { guarded, model }: NativeTarget): boolean {
  const { input } = body
  if (!Array.isArray(input)) return false
  if (guarded && !input.every(({ type }) => isOfConversation(type))) return true
  const further = toolsIn({ input })
  return further.some(({ tool }) => !mayKeep(tool, model.prices, guarded))
}

/** The ceiling of tokens, lowered to what policy and model allow; undefined where neither client nor policy has one. */
function limitOf(
  { max_output_tokens: requested }: Record<string, any>,
  { maxOutputTokens, model }: NativeTarget,
): number | undefined {
  const wanted = Math.min(requested ?? Infinity, maxOutputTokens ?? Infinity)
  if (!Number.isFinite(wanted)) return undefined
  return Math.max(Math.min(wanted, model.maxOutputTokens ?? Infinity), MIN_OUTPUT_TOKENS)
}

/** The items without their ids, which the vendor would look up, and without reasoning that it cannot read. */
function inputText(input: readonly any[], text: string, at: number): string {
  return withItems(text, at, (item, index, start) => {
    const { id } = input[index]
    if (isLeftOut(input[index])) return undefined
    return id === undefined ? item : withMembers(text, start, new Map([['id', undefined]]))
  })
}

/** The same item without its id; null where the vendor does not get it. */
export function withoutLeftOut(item: any): any {
  if (isLeftOut(item)) return null
  const { id: _id, ...rest } = item
  return rest
}

function isLeftOut({ type, encrypted_content: opaque }: any): boolean {
  if (type === 'reasoning') return !opaque || isCarrier(opaque)
  return typeof type === 'string' && OF_ACCOUNT.test(type)
}

/** Leaves out tools that the vendor may not run. @returns their paths @throws InvalidRequest where one has to be called */
function limitTools(
  { tools, tool_choice: choice }: Record<string, any>,
  text: string,
  places: ReadonlyMap<string, number>,
  { model, guarded }: NativeTarget,
  changes: Changes,
): string[] {
  const list: readonly any[] = tools ?? []
  const kept = list.map((tool) => mayKeep(tool, model.prices, guarded))
  if (kept.every(Boolean)) return []
  const type: unknown = choice?.type
  if (type !== undefined && !list.some((tool, index) => kept[index] && isMeant(tool, type))) {
    throw notOffered(choice)
  }
  const isLeft = kept.some(Boolean)
  const left = (item: string, index: number) => (kept[index] ? item : undefined)
  changes.set('tools', isLeft ? withItems(text, places.get('tools')!, left) : undefined)
  if (!isLeft) changes.set('tool_choice', undefined)
  else if (type === 'allowed_tools') {
    const allowed = choice.tools.filter((one: any) => mayKeep(one, model.prices, guarded))
    changes.set('tool_choice', JSON.stringify({ ...choice, tools: allowed }))
  }
  return list.flatMap((tool, index) => (kept[index] ? [] : [`tools[${index}].${tool.type}`]))
}

function isMeant(tool: any, type: unknown): boolean {
  const isNamed = type === 'function' || type === 'custom' || type === 'allowed_tools'
  return isNamed || tool.type === type
}

const listed = (text: string) => new Set(text.split(' '))

/** The gateway's own members, and those with another price. */
const REMOVED: readonly string[] = [
  ...OWN_MEMBERS,
  'client_metadata',
  'access_programs',
  'service_tier',
]

export const WORDS: WireWords = {
  own: new Set([...NEVER_PASSED, 'model', 'service_tier']),
  names: listed(
    'action allowed_domains annotations approximate arguments background blocked_domains call_id city content context country ' +
      'created_by definition defer_loading description detail effort encrypted_content execution external_web_access file_data ' +
      'file_url filename filters format frequency_penalty id image_url include include_obfuscation input input_audio data ' +
      'instructions logprobs max_output_tokens max_tool_calls metadata mode name namespace operation output parallel_tool_calls ' +
      'parameters phase presence_penalty prompt_cache_key prompt_cache_retention reasoning refusal region role ' +
      'safety_identifier schema search_context_size status store stream stream_options strict summary syntax temperature text ' +
      'timezone tool_choice tools top_logprobs top_p truncation type user user_location verbosity',
  ),
  values: new Map([
    [
      'type',
      listed(
        'additional_tools agent_message allowed_tools apply_patch apply_patch_call apply_patch_call_output approximate custom ' +
          'custom_tool_call custom_tool_call_output function function_call function_call_output grammar input_audio input_file ' +
          'input_image input_text json_object json_schema local_shell local_shell_call local_shell_call_output message namespace ' +
          'output_text reasoning refusal shell shell_call shell_call_output summary_text text web_search web_search_call ' +
          'web_search_preview reasoning_text',
      ),
    ],
    ['role', listed('user assistant system developer')],
    ['status', listed('in_progress completed incomplete')],
    ['phase', listed('commentary final_answer')],
    ['effort', listed('none minimal low medium high xhigh max')],
    ['summary', listed('auto concise detailed none')],
    ['verbosity', listed('low medium high')],
    ['search_context_size', listed('low medium high')],
    ['detail', listed('auto low high original')],
    ['syntax', listed('lark regex')],
    ['mode', listed('auto required')],
    ['tool_choice', listed('auto none required')],
    ['truncation', listed('auto disabled')],
  ]),
  opaque: new Map([
    ['input reasoning', 'encrypted_content'],
    ['input compaction', 'encrypted_content'],
  ]),
}
