import type { WireWords } from '../shared/labels.ts'
import { REMOVED } from './prepare.ts'

const listed = (text: string) => new Set(text.split(' '))

export const WORDS: WireWords = {
  own: new Set([...REMOVED, 'model', 'service_tier']),
  names: listed(
    'allowed_domains blocked_domains budget_tokens cache_control citations city content context context_management country ' +
      'data description disable_parallel_tool_use display edits effort enabled encrypted_content error_code format id input ' +
      'input_examples input_schema is_error keep max_tokens max_uses media_type messages metadata name output_config ' +
      'output_format partial_json region role schema signature source stop_sequences stream strict system temperature text ' +
      'thinking timezone title tool_choice tool_name tool_use_id tools top_k top_p ttl type url user_id user_location ' +
      'defer_loading',
  ),
  values: new Map([
    [
      'type',
      listed(
        'adaptive any auto base64 between_tools compaction content custom disabled document enabled ephemeral image ' +
          'json_schema none redacted_thinking search_result text thinking tool tool_reference tool_result tool_use url ' +
          'server_tool_use web_search_tool_result web_search_result web_search_result_location approximate',
      ),
    ],
    ['role', listed('user assistant system')],
    ['ttl', listed('5m 1h')],
    ['effort', listed('low medium high xhigh max')],
    ['display', listed('summarized omitted')],
    ['media_type', listed('image/png image/jpeg image/gif image/webp application/pdf text/plain')],
  ]),
  opaque: new Map([
    ['messages.content thinking', 'signature'],
    ['messages.content redacted_thinking', 'data'],
    ['messages.content compaction', 'encrypted_content'],
    ['messages.content.content web_search_result', 'encrypted_content'],
    ['messages.content.citations web_search_result_location', 'encrypted_index'],
    // Of images and documents, also those in results of tools and in documents.
    ['messages.content.source base64', 'data'],
    ['messages.content.content.source base64', 'data'],
    ['messages.content.source.content.source base64', 'data'],
    ['messages.content.content.source.content.source base64', 'data'],
  ]),
}
