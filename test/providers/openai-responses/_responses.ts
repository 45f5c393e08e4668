/** Answers of the Responses API, whole and as events. */
import { events, json, type FakeResponse } from '../../upstream.ts'

/** A whole answer. */
export function response(output: readonly object[], usage: object, members: object = {}): object {
  return { id: 'resp_1', object: 'response', status: 'completed', output, usage, ...members }
}

/** The same answer in either form. */
export function answerWith(
  output: readonly object[],
  usage: object,
  stream: boolean,
): FakeResponse {
  return stream ? events(...eventsOf(output, usage)) : json(response(output, usage))
}

/** The events of an answer. Texts come in two halves. */
export function eventsOf(output: readonly any[], usage: object): object[] {
  const begun = { ...response([], usage), status: 'in_progress', usage: null }
  return [
    { type: 'response.created', response: begun },
    { type: 'response.in_progress', response: begun },
    ...output.flatMap((item, output_index) => itemEvents(item, output_index)),
    { type: 'response.completed', response: response(output, usage) },
  ].map((event, sequence_number) => ({ ...event, sequence_number }))
}

function itemEvents(item: any, output_index: number): object[] {
  const at = { item_id: item.id, output_index }
  const begun = { ...item, status: 'in_progress' }
  // Encrypted content is only complete at the end.
  const bare = {
    reasoning: { ...begun, summary: [], encrypted_content: item.encrypted_content?.slice(0, 4) },
    message: { ...begun, content: [] },
    function_call: { ...begun, arguments: '' },
    custom_tool_call: { ...begun, input: '' },
  }[item.type as string]
  return [
    { type: 'response.output_item.added', output_index, item: bare },
    ...partEvents(item).map((event) => ({ ...at, ...event })),
    { type: 'response.output_item.done', output_index, item },
  ]
}

function partEvents(item: any): object[] {
  switch (item.type) {
    case 'reasoning':
      return item.summary.flatMap((part: any, summary_index: number) => [
        { type: 'response.reasoning_summary_part.added', summary_index, part },
        ...halves(part.text, 'response.reasoning_summary_text', { summary_index }, 'text'),
        { type: 'response.reasoning_summary_part.done', summary_index, part },
      ])
    case 'message':
      return item.content.flatMap((part: any, content_index: number) => {
        const name = part.type === 'refusal' ? 'refusal' : 'text'
        const deltas =
          name === 'refusal'
            ? halves(part.refusal, 'response.refusal', { content_index }, name)
            : halves(part.text, 'response.output_text', { content_index, logprobs: [] }, name)
        const empty = { ...part, [name]: '' }
        return [
          { type: 'response.content_part.added', content_index, part: empty },
          ...deltas,
          { type: 'response.content_part.done', content_index, part },
        ]
      })
    case 'function_call':
      return halves(item.arguments, 'response.function_call_arguments', {}, 'arguments')
    default:
      return halves(item.input, 'response.custom_tool_call_input', {}, 'input')
  }
}

function halves(text: string, type: string, members: object, whole: string): object[] {
  const middle = Math.ceil(text.length / 2)
  const deltas = [text.slice(0, middle), text.slice(middle)]
  return [
    ...deltas.map((delta) => ({ type: `${type}.delta`, ...members, delta })),
    { type: `${type}.done`, ...members, [whole]: text },
  ]
}
