import type { WireWords } from '../shared/labels.ts'
import { OWN_MEMBERS } from '../shared/own-members.ts'
import { NEVER_PASSED } from '../shared/walk.ts'

const listed = (text: string) => new Set(text.split(' '))

/** The gateway's own members, and those with another price. */
export const REMOVED: readonly string[] = [
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
