import * as fc from 'fast-check'
import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import { readChatRequest as readMembers } from '../../../src/endpoints/chat/dialects/chat/read.ts'
import {
  requiredCapabilities,
  outboundChat,
  usesLegacyFunctions,
  withPolicy,
} from '../../../src/endpoints/chat/request.ts'
import { InvalidRequest } from '../../../src/errors/errors.ts'
import type { ChatInput, ChatMessage } from '../../../src/plugin.ts'
import { bodies, mutate, mutations, PNG } from './request.bodies.ts'
import { chatBody } from './request.schema.ts'
import { runs } from '../../_runs.ts'

const readChatRequest = (body: object) => withPolicy(readMembers(body))

const MESSAGES = [{ role: 'user', content: 'Hi' }]
const CALL = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } }
const PARAMETERS = { type: 'object', properties: {} }
const TOOL = { type: 'function', function: { name: 'f', parameters: PARAMETERS } }

const base = { model: 'acme/swift-1', messages: MESSAGES }
const withBody = (members: object) => ({ ...base, ...members })
const withMessage = (message: unknown) => withBody({ messages: [message] })
const withPart = (part: unknown) => withMessage({ role: 'user', content: [part] })

describe('what is accepted', () => {
  it.each<[string, object]>([
    ['nothing but the required fields', {}],
    ['stream: true', { stream: true }],
    ['stream_options without stream', { stream_options: { include_usage: true } }],
    ['ignored stream options', { stream_options: { include_obfuscation: 'yes' } }],
    ['the smallest token limit', { max_completion_tokens: 1, max_tokens: 1 }],
    ['an integer with a point', JSON.parse('{"max_tokens":10.0,"n":1e0}')],
    ['temperature 0 and 2', { temperature: 2, top_p: 0 }],
    ['top_p 1', { temperature: 0, top_p: 1 }],
    ['the lowest penalties', { frequency_penalty: -2, presence_penalty: -2 }],
    ['the highest penalties', { frequency_penalty: 2, presence_penalty: 2 }],
    ['vendor samplers', { top_k: 40, min_p: 0.05, top_a: -1, repetition_penalty: 1.1 }],
    ['n from 1', { n: 1 }],
    ['n to 128', { n: 128 }],
    ['one stop', { stop: '\n' }],
    ['four stops', { stop: ['a', 'b', 'c', 'd'] }],
    ['64-bit seeds', JSON.parse('{"seed":9223372036854775807}')],
    ['negative 64-bit seeds', JSON.parse('{"seed":-9223372036854775808}')],
    ['logit_bias', { logit_bias: { '50256': -100, '11': 100 } }],
    ['top_logprobs with logprobs', { logprobs: true, top_logprobs: 20 }],
    ['plain text output', { response_format: { type: 'text' } }],
    ['JSON output', { response_format: { type: 'json_object' } }],
    [
      'structured output',
      {
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'a_B-9', schema: {}, strict: true, description: 'd' },
        },
      },
    ],
    ['128 tools', { tools: times(128, TOOL) }],
    [
      'every member of a tool',
      {
        tools: [
          {
            type: 'function',
            function: { name: 'f', description: 'd', parameters: {}, strict: true },
          },
          { type: 'custom', custom: { name: 'c', description: 'd', format: { type: 'text' } } },
        ],
      },
    ],
    ['tools of unknown types', { tools: [{ type: 'web_search_preview' }] }],
    ['tool_choice as a word', { tools: [TOOL], tool_choice: 'required' }],
    ['tool_choice none without tools', { tool_choice: 'none' }],
    ['a named tool', { tools: [TOOL], tool_choice: { type: 'function', function: { name: 'f' } } }],
    ['a named custom tool', { tool_choice: { type: 'custom', custom: { name: 'c' } } }],
    [
      'allowed tools',
      {
        tools: [TOOL],
        tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [TOOL] } },
      },
    ],
    ['parallel_tool_calls without tools', { parallel_tool_calls: false }],
    [
      'functions',
      { functions: [{ name: 'f', description: 'd', parameters: {} }], function_call: 'auto' },
    ],
    ['a named function', { functions: [{ name: 'f' }], function_call: { name: 'f' } }],
    [
      'reasoning',
      {
        reasoning: {
          effort: 'xhigh',
          max_tokens: 1,
          exclude: true,
          enabled: true,
          summary: 'auto',
        },
      },
    ],
    ['both efforts where they agree', { reasoning: { effort: 'low' }, reasoning_effort: 'low' }],
    ['an effort beside a reasoning without one', { reasoning: {}, reasoning_effort: 'max' }],
    ['include_reasoning', { include_reasoning: false }],
    ['verbosity', { verbosity: 'low' }],
    ['automatic caching', { cache_control: { type: 'ephemeral' } }],
    ['a long session_id', { session_id: 's'.repeat(256) }],
    ['a long session_id outside the BMP', { session_id: '🌊'.repeat(256) }],
    ['no plugins', { plugins: [] }],
    [
      'the web plugin',
      {
        plugins: [
          {
            id: 'web',
            enabled: false,
            engine: 'native',
            max_results: -5,
            search_prompt: 'p',
            include_domains: ['*.example.org'],
            exclude_domains: [],
          },
        ],
      },
    ],
    ['unknown plugins', { plugins: [{ id: 'file-parser', pdf: 7, max_results: 'x' }] }],
    [
      '16 pairs of metadata',
      { metadata: Object.fromEntries(Array.from({ length: 16 }, (_, i) => [i, 'v'])) },
    ],
    ['long metadata', { metadata: { ['k'.repeat(64)]: 'v'.repeat(512) } }],
    ['who asks', { user: 'u', safety_identifier: 's', prompt_cache_key: 'p' }],
    ['text as the only modality', { modalities: ['text'] }],
    ['a prediction', { prediction: { type: 'content', content: 'x' } }],
    [
      'ignored fields of any form',
      { provider: 5, models: 'x', route: [], usage: 1, debug: 'y', transforms: {} },
    ],
    ['unknown fields of any form', { banana: { a: [null] }, audio: 'x' }],
    [
      'null for whatever is optional',
      {
        stream: null,
        stream_options: { include_usage: null },
        max_tokens: null,
        temperature: null,
        stop: null,
        logprobs: null,
        top_logprobs: null,
        tools: null,
        tool_choice: null,
        response_format: null,
        reasoning: { effort: null, max_tokens: null },
        reasoning_effort: null,
        metadata: null,
        session_id: null,
        plugins: null,
      },
    ],
  ])('%s', (_, members) => {
    expect(readChatRequest(withBody(members))).toMatchObject({ model: 'acme/swift-1' })
  })

  it.each<[string, object]>([
    ['a system message', { role: 'system', content: 'x', name: 'n' }],
    ['a developer message', { role: 'developer', content: [{ type: 'text', text: 'x' }] }],
    ['an empty user message', { role: 'user', content: '' }],
    [
      'every kind of part',
      {
        role: 'user',
        content: [
          { type: 'text', text: 'x', cache_control: { type: 'ephemeral' } },
          { type: 'image_url', image_url: { url: PNG, detail: 'original' } },
          { type: 'image_url', image_url: PNG },
          { type: 'image_url', image_url: { url: 'https://example.org/a.png', detail: null } },
          { type: 'image_url', image_url: 'HTTP://example.org/a.png' },
          { type: 'image_url', image_url: 'DATA:;BASE64,AAAA' },
          { type: 'input_audio', input_audio: { data: 'UklGRg', format: 'wav' } },
          {
            type: 'input_audio',
            input_audio: { data: 'data:audio/mp3;base64,AAAA', format: 'mp3' },
          },
          {
            type: 'file',
            file: { filename: 'a.pdf', file_data: 'data:application/pdf;name=a;base64,AA' },
          },
          { type: 'file', file: { filename: null, file_data: 'JVBERi0xLjQ', file_id: null } },
          { type: 'file', file: { file_data: 'https://example.org/a.pdf' } },
        ],
      },
    ],
    ['an assistant message', { role: 'assistant', content: 'x' }],
    ['a refusal part', { role: 'assistant', content: [{ type: 'refusal', refusal: 'no' }] }],
    ['tool calls with null content', { role: 'assistant', content: null, tool_calls: [CALL] }],
    ['tool calls without content', { role: 'assistant', tool_calls: [CALL] }],
    ['tool calls with empty content', { role: 'assistant', content: '', tool_calls: [CALL] }],
    ['tool calls without type', { role: 'assistant', tool_calls: [{ ...CALL, type: undefined }] }],
    [
      'arguments that are not JSON',
      {
        role: 'assistant',
        tool_calls: [{ ...CALL, function: { name: 'f', arguments: '{oops' } }],
      },
    ],
    [
      'a custom call',
      {
        role: 'assistant',
        tool_calls: [{ id: 'c', type: 'custom', custom: { name: 'c', input: 'x' } }],
      },
    ],
    [
      'a function call without content',
      {
        role: 'assistant',
        content: null,
        function_call: { name: 'f', arguments: '' },
      },
    ],
    ['a refusal without content', { role: 'assistant', refusal: 'no' }],
    ['no calls, but content', { role: 'assistant', content: 'x', tool_calls: [] }],
    [
      'a message as a typed client dumps it',
      {
        role: 'assistant',
        content: 'x',
        name: null,
        refusal: null,
        tool_calls: null,
        function_call: null,
        audio: null,
        annotations: [],
      },
    ],
    [
      'reasoning in the history',
      {
        role: 'assistant',
        content: 'x',
        reasoning: 'r',
        reasoning_content: 'r',
        reasoning_details: [{ type: 'reasoning.text', text: 'r', signature: 's' }],
      },
    ],
    ['a tool result', { role: 'tool', tool_call_id: 'call_1', content: '{}' }],
    [
      'a tool result in parts',
      { role: 'tool', tool_call_id: '', content: [{ type: 'text', text: '' }] },
    ],
    ['a function result', { role: 'function', name: 'f', content: '1' }],
  ])('%s', (_, message) => {
    expect(readChatRequest(withMessage(message)).messages).toEqual([message])
  })

  it('keeps what the client sent, less what means nothing', () => {
    const body = withBody({
      stop: [],
      tools: [],
      plugins: [],
      top_p: null,
      modalities: [],
      x: null,
    })
    const before = structuredClone(body)
    expect(readChatRequest(body)).toEqual(withBody({ modalities: [] }))
    expect(body).toEqual(before)
  })

  it('validates the policy and hands it on', () => {
    const policy = { version: 1, deny: ['code'] }
    expect(readChatRequest(withBody({ policy })).policy).toEqual(policy)
  })
})

describe('what is refused', () => {
  type Row = [members: object, code: string, param: string]

  it.each<Row>([
    [{ model: undefined }, 'missing_required_parameter', 'model'],
    [{ messages: undefined }, 'missing_required_parameter', 'messages'],
    [{ model: null }, 'invalid_type', 'model'],
    [{ model: 5 }, 'invalid_type', 'model'],
    [{ model: '' }, 'empty_string', 'model'],
    [{ messages: null }, 'invalid_type', 'messages'],
    [{ messages: 'Hi' }, 'invalid_type', 'messages'],
    [{ messages: {} }, 'invalid_type', 'messages'],
    [{ messages: [] }, 'empty_array', 'messages'],
    [{ messages: ['Hi'] }, 'invalid_type', 'messages[0]'],
    [{ messages: [...MESSAGES, null] }, 'invalid_type', 'messages[1]'],
    [{ stream: 'true' }, 'invalid_type', 'stream'],
    [{ stream_options: true }, 'invalid_type', 'stream_options'],
    [{ stream_options: { include_usage: 1 } }, 'invalid_type', 'stream_options.include_usage'],
    [{ max_completion_tokens: 0 }, 'integer_below_min_value', 'max_completion_tokens'],
    [{ max_tokens: -1 }, 'integer_below_min_value', 'max_tokens'],
    [{ max_tokens: 1.5 }, 'invalid_type', 'max_tokens'],
    [{ max_tokens: '100' }, 'invalid_type', 'max_tokens'],
    [{ max_tokens: Infinity }, 'integer_above_max_value', 'max_tokens'],
    [{ temperature: -0.1 }, 'decimal_below_min_value', 'temperature'],
    [{ temperature: 2.1 }, 'decimal_above_max_value', 'temperature'],
    [{ temperature: '1' }, 'invalid_type', 'temperature'],
    [{ top_p: 1.01 }, 'decimal_above_max_value', 'top_p'],
    [{ top_p: -1 }, 'decimal_below_min_value', 'top_p'],
    [{ frequency_penalty: 3 }, 'decimal_above_max_value', 'frequency_penalty'],
    [{ presence_penalty: -3 }, 'decimal_below_min_value', 'presence_penalty'],
    [{ top_k: 'many' }, 'invalid_type', 'top_k'],
    [{ min_p: [] }, 'invalid_type', 'min_p'],
    [{ top_a: {} }, 'invalid_type', 'top_a'],
    [{ repetition_penalty: Infinity }, 'decimal_above_max_value', 'repetition_penalty'],
    [{ n: 0 }, 'integer_below_min_value', 'n'],
    [{ n: 129 }, 'integer_above_max_value', 'n'],
    [{ stop: 5 }, 'invalid_type', 'stop'],
    [{ stop: { a: 1 } }, 'invalid_type', 'stop'],
    [{ stop: ['a', 5] }, 'invalid_type', 'stop[1]'],
    [{ stop: ['a', 'b', 'c', 'd', 'e'] }, 'array_above_max_length', 'stop'],
    [{ seed: 1.5 }, 'invalid_type', 'seed'],
    [{ seed: 2 ** 64 }, 'integer_above_max_value', 'seed'],
    [{ seed: -(2 ** 64) }, 'integer_below_min_value', 'seed'],
    [{ logit_bias: [] }, 'invalid_type', 'logit_bias'],
    [{ logit_bias: { '50256': 101 } }, 'decimal_above_max_value', 'logit_bias.50256'],
    [{ logit_bias: { '50256': -101 } }, 'decimal_below_min_value', 'logit_bias.50256'],
    [{ logit_bias: { '50256': null } }, 'invalid_type', 'logit_bias.50256'],
    [{ logprobs: 1 }, 'invalid_type', 'logprobs'],
    [{ logprobs: true, top_logprobs: 21 }, 'integer_above_max_value', 'top_logprobs'],
    [{ logprobs: true, top_logprobs: -1 }, 'integer_below_min_value', 'top_logprobs'],
    [{ top_logprobs: 5 }, 'invalid_value', 'top_logprobs'],
    [{ logprobs: false, top_logprobs: 0 }, 'invalid_value', 'top_logprobs'],
    [{ response_format: 'json' }, 'invalid_type', 'response_format'],
    [{ response_format: {} }, 'missing_required_parameter', 'response_format.type'],
    [{ response_format: { type: 'xml' } }, 'invalid_value', 'response_format.type'],
    [{ response_format: { type: null } }, 'invalid_type', 'response_format.type'],
    [
      { response_format: { type: 'json_schema' } },
      'missing_required_parameter',
      'response_format.json_schema',
    ],
    [schema({ schema: {} }), 'missing_required_parameter', 'response_format.json_schema.name'],
    [schema({ name: 'a b', schema: {} }), 'invalid_value', 'response_format.json_schema.name'],
    [schema({ name: '', schema: {} }), 'empty_string', 'response_format.json_schema.name'],
    [
      schema({ name: 'n'.repeat(65), schema: {} }),
      'string_above_max_length',
      'response_format.json_schema.name',
    ],
    [schema({ name: 'n' }), 'missing_required_parameter', 'response_format.json_schema.schema'],
    [schema({ name: 'n', schema: '{}' }), 'invalid_type', 'response_format.json_schema.schema'],
    [
      schema({ name: 'n', schema: {}, strict: 'yes' }),
      'invalid_type',
      'response_format.json_schema.strict',
    ],
    [
      schema({ name: 'n', schema: {}, description: 1 }),
      'invalid_type',
      'response_format.json_schema.description',
    ],
    [{ tools: {} }, 'invalid_type', 'tools'],
    [{ tools: ['f'] }, 'invalid_type', 'tools[0]'],
    [{ tools: times(129, TOOL) }, 'array_above_max_length', 'tools'],
    [{ tools: [{ function: { name: 'f' } }] }, 'missing_required_parameter', 'tools[0].type'],
    [{ tools: [{ type: 5 }] }, 'invalid_type', 'tools[0].type'],
    [{ tools: [TOOL, { type: 'function' }] }, 'missing_required_parameter', 'tools[1].function'],
    [{ tools: [fn({})] }, 'missing_required_parameter', 'tools[0].function.name'],
    [{ tools: [fn({ name: 'a.b' })] }, 'invalid_value', 'tools[0].function.name'],
    [
      { tools: [fn({ name: 'f', parameters: [] })] },
      'invalid_type',
      'tools[0].function.parameters',
    ],
    [{ tools: [fn({ name: 'f', strict: 1 })] }, 'invalid_type', 'tools[0].function.strict'],
    [
      { tools: [fn({ name: 'f', description: {} })] },
      'invalid_type',
      'tools[0].function.description',
    ],
    [{ tools: [{ type: 'custom' }] }, 'missing_required_parameter', 'tools[0].custom'],
    [
      { tools: [{ type: 'custom', custom: {} }] },
      'missing_required_parameter',
      'tools[0].custom.name',
    ],
    [
      { tools: [{ type: 'custom', custom: { name: 'c', format: 'text' } }] },
      'invalid_type',
      'tools[0].custom.format',
    ],
    [{ tool_choice: 'any' }, 'invalid_value', 'tool_choice'],
    [{ tool_choice: [] }, 'invalid_type', 'tool_choice'],
    [{ tool_choice: {} }, 'missing_required_parameter', 'tool_choice.type'],
    [{ tool_choice: { type: 'web' } }, 'invalid_value', 'tool_choice.type'],
    [{ tool_choice: { type: 'function' } }, 'missing_required_parameter', 'tool_choice.function'],
    [
      { tool_choice: { type: 'function', function: {} } },
      'missing_required_parameter',
      'tool_choice.function.name',
    ],
    [
      { tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'none', tools: [] } } },
      'invalid_value',
      'tool_choice.allowed_tools.mode',
    ],
    [
      { tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto' } } },
      'missing_required_parameter',
      'tool_choice.allowed_tools.tools',
    ],
    [{ parallel_tool_calls: 'no' }, 'invalid_type', 'parallel_tool_calls'],
    [{ functions: [] }, 'empty_array', 'functions'],
    [{ functions: times(129, { name: 'f' }) }, 'array_above_max_length', 'functions'],
    [{ functions: [{}] }, 'missing_required_parameter', 'functions[0].name'],
    [{ function_call: 'required' }, 'invalid_value', 'function_call'],
    [{ function_call: {} }, 'missing_required_parameter', 'function_call.name'],
    [{ reasoning: 'high' }, 'invalid_type', 'reasoning'],
    [{ reasoning: { effort: 'extreme' } }, 'invalid_value', 'reasoning.effort'],
    [{ reasoning: { max_tokens: 0 } }, 'integer_below_min_value', 'reasoning.max_tokens'],
    [{ reasoning: { exclude: 1 } }, 'invalid_type', 'reasoning.exclude'],
    [{ reasoning: { enabled: 'on' } }, 'invalid_type', 'reasoning.enabled'],
    [{ reasoning: { summary: 'long' } }, 'invalid_value', 'reasoning.summary'],
    [{ reasoning_effort: 'extreme' }, 'invalid_value', 'reasoning_effort'],
    [{ reasoning_effort: 3 }, 'invalid_type', 'reasoning_effort'],
    [
      { reasoning: { effort: 'low' }, reasoning_effort: 'high' },
      'invalid_value',
      'reasoning_effort',
    ],
    [{ include_reasoning: 'no' }, 'invalid_type', 'include_reasoning'],
    [{ verbosity: 'max' }, 'invalid_value', 'verbosity'],
    [{ cache_control: 'ephemeral' }, 'invalid_type', 'cache_control'],
    [{ session_id: 7 }, 'invalid_type', 'session_id'],
    [{ session_id: 's'.repeat(257) }, 'string_above_max_length', 'session_id'],
    [{ session_id: '🌊'.repeat(257) }, 'string_above_max_length', 'session_id'],
    [{ plugins: { id: 'web' } }, 'invalid_type', 'plugins'],
    [{ plugins: ['web'] }, 'invalid_type', 'plugins[0]'],
    [{ plugins: [{}] }, 'missing_required_parameter', 'plugins[0].id'],
    [{ plugins: [{ id: 5 }] }, 'invalid_type', 'plugins[0].id'],
    [{ plugins: [{ id: 'web', enabled: 'yes' }] }, 'invalid_type', 'plugins[0].enabled'],
    [{ plugins: [{ id: 'web', max_results: 2.5 }] }, 'invalid_type', 'plugins[0].max_results'],
    [{ plugins: [{ id: 'web', search_prompt: [] }] }, 'invalid_type', 'plugins[0].search_prompt'],
    [
      { plugins: [{ id: 'x' }, { id: 'web', include_domains: 'a' }] },
      'invalid_type',
      'plugins[1].include_domains',
    ],
    [
      { plugins: [{ id: 'web', exclude_domains: ['a', 1] }] },
      'invalid_type',
      'plugins[0].exclude_domains[1]',
    ],
    [{ user: 5 }, 'invalid_type', 'user'],
    [{ safety_identifier: {} }, 'invalid_type', 'safety_identifier'],
    [{ prompt_cache_key: [] }, 'invalid_type', 'prompt_cache_key'],
    [{ prediction: 'x' }, 'invalid_type', 'prediction'],
    [{ metadata: 'x' }, 'invalid_type', 'metadata'],
    [{ metadata: { a: 1 } }, 'invalid_type', 'metadata.a'],
    [{ metadata: { a: 'v'.repeat(513) } }, 'string_above_max_length', 'metadata.a'],
    [{ metadata: { ['k'.repeat(65)]: 'v' } }, 'string_above_max_length', 'metadata'],
    [
      { metadata: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [i, 'v'])) },
      'invalid_value',
      'metadata',
    ],
    [{ modalities: 'text' }, 'invalid_type', 'modalities'],
    [{ modalities: [1] }, 'invalid_type', 'modalities[0]'],
    [{ modalities: ['text', 'audio'] }, 'unsupported_value', 'modalities'],
    [{ modalities: ['image'] }, 'unsupported_value', 'modalities'],
    [{ policy: null }, 'invalid_policy', 'policy'],
    [{ policy: { version: 2 } }, 'invalid_policy', 'policy.version'],
  ])('%j', (members, code, param) => {
    expect(refusalOf(withBody(members))).toMatchObject({ status: 400, code, param })
  })

  it.each<[message: object, code: string, path: string]>([
    [{ content: 'x' }, 'missing_required_parameter', 'role'],
    [{ role: 'robot', content: 'x' }, 'invalid_value', 'role'],
    [{ role: 'constructor', content: 'x' }, 'invalid_value', 'role'],
    [{ role: 5, content: 'x' }, 'invalid_type', 'role'],
    [{ role: null, content: 'x' }, 'invalid_type', 'role'],
    [{ role: 'user' }, 'missing_required_parameter', 'content'],
    [{ role: 'user', content: null }, 'invalid_type', 'content'],
    [{ role: 'user', content: 5 }, 'invalid_type', 'content'],
    [{ role: 'user', content: {} }, 'invalid_type', 'content'],
    [{ role: 'user', content: [] }, 'empty_array', 'content'],
    [{ role: 'user', content: ['x'] }, 'invalid_type', 'content[0]'],
    [{ role: 'user', content: 'x', name: 5 }, 'invalid_type', 'name'],
    [{ role: 'system', content: null }, 'invalid_type', 'content'],
    [{ role: 'developer' }, 'missing_required_parameter', 'content'],
    [{ role: 'assistant' }, 'missing_required_parameter', 'content'],
    [{ role: 'assistant', content: null }, 'invalid_type', 'content'],
    [{ role: 'assistant', content: null, tool_calls: [] }, 'invalid_type', 'content'],
    [
      { role: 'assistant', refusal: null, tool_calls: null },
      'missing_required_parameter',
      'content',
    ],
    [{ role: 'assistant', refusal: 5 }, 'invalid_type', 'refusal'],
    [{ role: 'assistant', content: 'x', reasoning: {} }, 'invalid_type', 'reasoning'],
    [
      { role: 'assistant', content: 'x', reasoning_content: 1 },
      'invalid_type',
      'reasoning_content',
    ],
    [
      { role: 'assistant', content: 'x', reasoning_details: {} },
      'invalid_type',
      'reasoning_details',
    ],
    [
      { role: 'assistant', content: 'x', reasoning_details: [{}, 'r'] },
      'invalid_type',
      'reasoning_details[1]',
    ],
    [{ role: 'assistant', tool_calls: {} }, 'invalid_type', 'tool_calls'],
    [{ role: 'assistant', tool_calls: [CALL, 5] }, 'invalid_type', 'tool_calls[1]'],
    [
      { role: 'assistant', tool_calls: [{ ...CALL, type: 'mcp' }] },
      'invalid_value',
      'tool_calls[0].type',
    ],
    [
      { role: 'assistant', tool_calls: [{ ...CALL, id: undefined }] },
      'missing_required_parameter',
      'tool_calls[0].id',
    ],
    [
      { role: 'assistant', tool_calls: [{ id: 'c' }] },
      'missing_required_parameter',
      'tool_calls[0].function',
    ],
    [
      { role: 'assistant', tool_calls: [{ id: 'c', function: { name: 'f', arguments: {} } }] },
      'invalid_type',
      'tool_calls[0].function.arguments',
    ],
    [
      { role: 'assistant', tool_calls: [{ id: 'c', type: 'custom', custom: { name: 'c' } }] },
      'missing_required_parameter',
      'tool_calls[0].custom.input',
    ],
    [
      { role: 'assistant', function_call: { name: 'f' } },
      'missing_required_parameter',
      'function_call.arguments',
    ],
    [{ role: 'tool', content: 'x' }, 'missing_required_parameter', 'tool_call_id'],
    [{ role: 'tool', content: 'x', tool_call_id: null }, 'invalid_type', 'tool_call_id'],
    [{ role: 'tool', tool_call_id: 'c' }, 'missing_required_parameter', 'content'],
    [
      { role: 'tool', tool_call_id: 'c', content: 'x', is_error: 'yes' },
      'invalid_type',
      'is_error',
    ],
    [{ role: 'function', content: 'x' }, 'missing_required_parameter', 'name'],
  ])('message %j', (message, code, path) => {
    const body = withBody({ messages: [...MESSAGES, message] })
    expect(refusalOf(body)).toMatchObject({ code, param: `messages[1].${path}` })
  })

  it.each<[part: object, code: string, path: string]>([
    [{}, 'missing_required_parameter', '.type'],
    [{ type: 'video_url', video_url: { url: PNG } }, 'invalid_value', '.type'],
    [{ type: 'toString' }, 'invalid_value', '.type'],
    [{ type: 7 }, 'invalid_type', '.type'],
    [{ type: 'text' }, 'missing_required_parameter', '.text'],
    [{ type: 'text', text: null }, 'invalid_type', '.text'],
    [{ type: 'image_url' }, 'missing_required_parameter', '.image_url'],
    [{ type: 'image_url', image_url: 5 }, 'invalid_type', '.image_url'],
    [{ type: 'image_url', image_url: '' }, 'empty_string', '.image_url'],
    [{ type: 'image_url', image_url: {} }, 'missing_required_parameter', '.image_url.url'],
    [{ type: 'image_url', image_url: { url: 5 } }, 'invalid_type', '.image_url.url'],
    [{ type: 'image_url', image_url: { url: 'ftp://a/b' } }, 'invalid_value', '.image_url.url'],
    [
      { type: 'image_url', image_url: { url: 'file:///etc/passwd' } },
      'invalid_value',
      '.image_url.url',
    ],
    [{ type: 'image_url', image_url: { url: 'iVBORw0KGgo=' } }, 'invalid_value', '.image_url.url'],
    [
      { type: 'image_url', image_url: { url: 'data:image/png,x' } },
      'invalid_base64',
      '.image_url.url',
    ],
    [
      { type: 'image_url', image_url: { url: 'data:image/png;base64' } },
      'invalid_base64',
      '.image_url.url',
    ],
    [
      { type: 'image_url', image_url: { url: PNG, detail: 'huge' } },
      'invalid_value',
      '.image_url.detail',
    ],
    [{ type: 'input_audio' }, 'missing_required_parameter', '.input_audio'],
    [
      { type: 'input_audio', input_audio: { format: 'wav' } },
      'missing_required_parameter',
      '.input_audio.data',
    ],
    [
      { type: 'input_audio', input_audio: { data: 'AA' } },
      'missing_required_parameter',
      '.input_audio.format',
    ],
    [
      { type: 'input_audio', input_audio: { data: 'https://a/b.wav', format: 'wav' } },
      'invalid_base64',
      '.input_audio.data',
    ],
    [
      { type: 'input_audio', input_audio: { data: 'data:audio/wav,AA', format: 'wav' } },
      'invalid_base64',
      '.input_audio.data',
    ],
    [{ type: 'file' }, 'missing_required_parameter', '.file'],
    [{ type: 'file', file: {} }, 'missing_required_parameter', '.file.file_data'],
    [{ type: 'file', file: { file_id: 'file-1' } }, 'unsupported_value', '.file.file_id'],
    [
      { type: 'file', file: { file_data: 'AA', file_id: 'file-1' } },
      'unsupported_value',
      '.file.file_id',
    ],
    [{ type: 'file', file: { file_data: '' } }, 'empty_string', '.file.file_data'],
    [{ type: 'file', file: { file_data: 'gs://a/b' } }, 'invalid_value', '.file.file_data'],
    [
      { type: 'file', file: { file_data: 'data:text/plain,x' } },
      'invalid_base64',
      '.file.file_data',
    ],
    [{ type: 'file', file: { file_data: 'AA', filename: 5 } }, 'invalid_type', '.file.filename'],
    [{ type: 'refusal' }, 'missing_required_parameter', '.refusal'],
  ])('part %j', (part, code, path) => {
    const text = { type: 'text', text: 'x' }
    const body = withMessage({ role: 'user', content: [text, part] })
    expect(refusalOf(body)).toMatchObject({ code, param: `messages[0].content[1]${path}` })
  })

  it('says what was wrong, where, and what would be right', () => {
    expect(refusalOf(withBody({ temperature: 3 })).message).toBe(
      "Invalid 'temperature': expected a number from 0 to 2, found 3.",
    )
    expect(refusalOf(withMessage({ role: 'robot', content: '' })).message).toBe(
      "Invalid 'messages[0].role': expected one of system, developer, user, assistant, tool, " +
        'function, found "robot".',
    )
    expect(refusalOf({ messages: MESSAGES }).message).toBe(
      "Missing 'model': expected a string, found nothing.",
    )
    expect(refusalOf(withBody({ stream: 'yes' })).message).toBe(
      "Invalid 'stream': expected true or false, found a string.",
    )
  })

  it('starts messages about schemas with the words that clients look for', () => {
    for (const given of [{ name: 'n' }, { name: 'n', schema: 'x' }]) {
      expect(refusalOf(withBody(schema(given))).message).toMatch(
        /^Invalid schema for response_format/,
      )
    }
  })

  it('never repeats content', () => {
    const secret = 'swordfish'.repeat(20)
    for (const body of [
      withMessage({ role: 'user', content: [secret] }),
      withMessage({ role: secret, content: 'x' }),
      withMessage(secret),
      withPart({ type: 'image_url', image_url: { url: `ftp://${secret}` } }),
      withBody({ stop: { secret } }),
      withBody({ temperature: secret }),
      withBody({ verbosity: secret }),
      withBody({ metadata: { [secret]: secret } }),
    ]) {
      expect(refusalOf(body).message).not.toContain('swordfish')
    }
    const param = refusalOf(withBody({ logit_bias: { ['9'.repeat(9999)]: 'x' } })).param
    expect(param?.length).toBeLessThan(100)
  })

  it('reports what is missing first, then the document in its order', () => {
    expect(refusalOf({ n: 0, messages: MESSAGES }).param).toBe('model')
    expect(refusalOf(withBody({ n: 0, top_p: 9 })).param).toBe('n')
    expect(refusalOf(withBody({ top_p: 9, n: 0 })).param).toBe('top_p')
    expect(refusalOf(withBody({ policy: null, top_p: 9 })).param).toBe('top_p')
  })
})

describe('the checker and the schema', () => {
  it('accept every good body', () => {
    fc.assert(
      fc.property(bodies(), (body) => {
        expect(v.safeParse(chatBody, body).issues).toBeUndefined()
        expect(refused(() => readChatRequest(body))).toBeUndefined()
      }),
      { numRuns: runs(170) },
    )
  })

  it('agree on every mutated body', () => {
    let refusals = 0
    const numRuns = runs(200)
    fc.assert(
      fc.property(bodies(), fc.nat(), mutations(), (body, place, change) => {
        const mutated = mutate(body, place, change)
        const accepted = v.safeParse(chatBody, mutated).success
        const error = refused(() => readChatRequest(mutated))
        expect(error === undefined).toBe(accepted)
        if (!error) return
        refusals++
        expect(error.param).toBeTruthy()
        expect(error.message).toContain('expected')
      }),
      { numRuns },
    )
    expect(refusals).toBeGreaterThan(numRuns / 10)
    expect(refusals).toBeLessThan(numRuns * 0.9)
  })

  it('what passed can be asked for its needs and sent on', () => {
    fc.assert(
      fc.property(bodies(), fc.nat(), mutations(), (body, place, change) => {
        const mutated = mutate(body, place, change)
        if (refused(() => readChatRequest(mutated))) return
        const before = JSON.stringify(mutated)
        const request = readChatRequest(mutated)
        requiredCapabilities(request)
        usesLegacyFunctions(request)
        const once = outboundChat(request)
        // The normal form is a valid request, and normal.
        const again = readChatRequest({ model: 'a/b', ...once })
        expect(outboundChat(again)).toEqual(once)
        expect(JSON.stringify(mutated)).toBe(before)
      }),
      { numRuns: runs(130) },
    )
  })
})

describe('outboundChat', () => {
  it('sends no seed that is larger than 64 bits', () => {
    const body = JSON.parse('{"model":"m","messages":[{"role":"user","content":"a"}],"seed":0}')
    for (const seed of ['9223372036854775807', '-9223372036854775808', '7']) {
      const sent = JSON.stringify(outboundChat({ ...body, seed: JSON.parse(seed) }))
      const [, digits] = /"seed":(-?\d+)/.exec(sent)!
      expect(BigInt.asIntN(64, BigInt(digits!))).toBe(BigInt(digits!))
    }
  })

  it('drops what is not for vendors', () => {
    const dropped = {
      policy: { version: 1 },
      plugins: [{ id: 'web' }],
      provider: { order: ['x'] },
      models: ['a/b'],
      route: 'fallback',
      service_tier: 'flex',
      stream_options: { include_usage: true },
      transforms: ['middle-out'],
      debug: { echo: true },
      usage: { include: true },
      store: true,
    }
    expect(outbound(dropped)).toEqual({ messages: MESSAGES })
  })

  it('passes everything else untouched', () => {
    const passed = {
      stream: true,
      temperature: 0.5,
      top_k: 4,
      stop: ['a'],
      n: 2,
      seed: 1,
      logit_bias: { '1': 2 },
      logprobs: true,
      top_logprobs: 2,
      response_format: { type: 'json_object' },
      cache_control: { type: 'ephemeral' },
      session_id: 's',
      user: 'u',
      metadata: { a: 'b' },
      verbosity: 'low',
      prediction: { type: 'content', content: 'x' },
      web_search_options: {},
      prompt_cache_key: 'k',
      modalities: ['text'],
      vendor_extra: { deep: [1, { x: null }] },
    }
    expect(outbound(passed)).toEqual({ messages: MESSAGES, ...passed })
  })

  it('shares what does not change, and is a new object', () => {
    const request = readChatRequest(withBody({ tools: [TOOL], stop: ['a'] }))
    const input = outboundChat(request)
    expect(input).not.toBe(request)
    expect(input.messages).toBe(request.messages)
    expect(input.tools).toBe(request.tools)
    expect(input.stop).toBe(request.stop)
  })

  it.each<[object, number | undefined]>([
    [{ max_tokens: 5 }, 5],
    [{ max_completion_tokens: 6 }, 6],
    [{ max_tokens: 5, max_completion_tokens: 6 }, 6],
    [{ max_tokens: 5, max_completion_tokens: null }, 5],
    [{}, undefined],
  ])('knows one token limit: %j', (members, limit) => {
    const input = outbound(members)
    expect(input.max_completion_tokens).toBe(limit)
    expect(input).not.toHaveProperty('max_tokens')
    expect('max_completion_tokens' in input).toBe(limit !== undefined)
  })

  it.each<[object, object | undefined]>([
    [{}, undefined],
    [{ reasoning: {} }, undefined],
    [{ reasoning: { effort: null } }, undefined],
    [{ reasoning: { effort: 'low', summary: 'auto' } }, { effort: 'low', summary: 'auto' }],
    [{ reasoning_effort: 'high' }, { effort: 'high' }],
    [{ reasoning_effort: 'none' }, { effort: 'none' }],
    [
      { reasoning: { effort: null, exclude: true }, reasoning_effort: 'high' },
      { effort: 'high', exclude: true },
    ],
    [{ reasoning: { effort: 'low' }, reasoning_effort: 'low' }, { effort: 'low' }],
    [{ reasoning: { effort: 'low', max_tokens: 100 } }, { max_tokens: 100 }],
    [{ reasoning: { max_tokens: 100 }, reasoning_effort: 'low' }, { max_tokens: 100 }],
    [{ include_reasoning: false }, { exclude: true }],
    [{ include_reasoning: true }, undefined],
    [{ include_reasoning: false, reasoning: { exclude: false } }, { exclude: true }],
    [
      { include_reasoning: false, reasoning_effort: 'low' },
      { effort: 'low', exclude: true },
    ],
    [{ reasoning: { enabled: false } }, { enabled: false }],
    [{ reasoning: { vendor_extra: 1 } }, { vendor_extra: 1 }],
  ])('knows one form of reasoning: %j', (members, reasoning) => {
    const input = outbound(members)
    expect(input.reasoning).toEqual(reasoning)
    expect('reasoning' in input).toBe(reasoning !== undefined)
    expect(input).not.toHaveProperty('reasoning_effort')
    expect(input).not.toHaveProperty('include_reasoning')
  })

  it('turns functions into tools', () => {
    const functions = [{ name: 'f', description: null, parameters: { type: 'object' } }]
    expect(outbound({ functions, function_call: { name: 'f' } })).toEqual({
      messages: MESSAGES,
      tools: [{ type: 'function', function: { name: 'f', parameters: PARAMETERS } }],
      tool_choice: { type: 'function', function: { name: 'f' } },
    })
    expect(outbound({ functions, function_call: 'auto' }).tool_choice).toBe('auto')
  })

  it('prefers tools to functions', () => {
    const input = outbound({ tools: [TOOL], functions: [{ name: 'g' }], function_call: 'none' })
    expect(input.tools).toEqual([TOOL])
    expect(input).not.toHaveProperty('tool_choice')
  })

  it('drops tools of unknown types', () => {
    const custom = { type: 'custom', custom: { name: 'c' } }
    const input = outbound({ tools: [{ type: 'web_search' }, TOOL, { type: '' }, custom] })
    expect(input.tools).toEqual([TOOL, custom])
  })

  it.each([
    { tools: [], tool_choice: 'none', parallel_tool_calls: true },
    { tools: [{ type: 'web_search' }], tool_choice: 'auto', parallel_tool_calls: false },
    { tool_choice: 'auto' },
    { function_call: 'none' },
  ])('does not speak of tools where there are none: %j', (members) => {
    expect(outbound(members)).toEqual({ messages: MESSAGES })
  })

  it('does not drop a choice that needs a tool', () => {
    expect(outbound({ tool_choice: 'required' }).tool_choice).toBe('required')
    expect(outbound({ function_call: { name: 'f' } }).tool_choice).toEqual({
      type: 'function',
      function: { name: 'f' },
    })
  })

  it('keeps cache markers on tools, and drops nulls of their definitions', () => {
    const tool = { ...TOOL, cache_control: { type: 'ephemeral' } }
    expect(outbound({ tools: [tool] }).tools).toEqual([tool])
    const dumped = { type: 'function', function: { name: 'f', description: null, strict: null } }
    expect(outbound({ tools: [dumped] }).tools).toEqual([TOOL])
  })

  it('writes image URLs as objects', () => {
    const cache_control = { type: 'ephemeral' }
    const content = [
      { type: 'text', text: 'x', cache_control },
      { type: 'image_url', image_url: PNG, cache_control },
      { type: 'image_url', image_url: { url: PNG, detail: null, extra: 1 } },
      { type: 'file', file: { file_data: 'AA==', filename: null } },
    ]
    expect(outboundMessage({ role: 'user', content, extra: 1 })).toEqual({
      role: 'user',
      extra: 1,
      content: [
        { type: 'text', text: 'x', cache_control },
        { type: 'image_url', image_url: { url: PNG }, cache_control },
        { type: 'image_url', image_url: { url: PNG, extra: 1 } },
        { type: 'file', file: { file_data: 'data:application/pdf;base64,AA==' } },
      ],
    })
    expect(content[1]!.image_url).toBe(PNG)
  })

  it('names the type of calls in the history', () => {
    const call = { id: 'c', function: { name: 'f', arguments: '{' } }
    expect(outboundMessage({ role: 'assistant', content: null, tool_calls: [call, CALL] })).toEqual(
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ ...call, type: 'function' }, CALL],
      },
    )
    expect(call).not.toHaveProperty('type')
  })

  it('drops what means nothing in a message', () => {
    const dumped = { role: 'assistant', content: 'x', name: null, function_call: null }
    const plain = { role: 'assistant', content: 'x' }
    expect(outboundMessage({ ...dumped, tool_calls: null })).toEqual(plain)
    expect(outboundMessage({ ...dumped, tool_calls: [] })).toEqual(plain)
  })

  it('hands reasoning and unknown members of the history on, in order', () => {
    const message = {
      role: 'assistant',
      content: 'x',
      reasoning: 'r',
      reasoning_content: 'r',
      reasoning_details: [
        { type: 'reasoning.text', text: 'a', signature: null, index: 0 },
        { type: 'reasoning.encrypted', data: 'b', index: 1 },
      ],
      annotations: [{ type: 'url_citation' }],
      cache_control: { type: 'ephemeral' },
    }
    expect(outboundMessage(message)).toEqual(message)
  })
})

describe('usesLegacyFunctions', () => {
  it('is true where only functions were given', () => {
    expect(uses({ functions: [{ name: 'f' }] })).toBe(true)
    expect(uses({ functions: [{ name: 'f' }], tools: [] })).toBe(true)
    expect(uses({ functions: [{ name: 'f' }], tools: [TOOL] })).toBe(false)
    expect(uses({ function_call: 'auto' })).toBe(false)
    expect(uses({})).toBe(false)
  })
})

describe('needsOf', () => {
  const schemaFormat = schema({ name: 'n', schema: {} })

  it.each<[object, object]>([
    [{}, {}],
    [{ n: 3 }, { CHOICES: 'n' }],
    [{ logprobs: true }, { LOGPROBS: 'logprobs' }],
    [{ logprobs: false }, {}],
    [{ tools: [TOOL] }, { TOOLS: 'tools' }],
    [{ tools: [TOOL], tool_choice: 'required' }, { TOOLS: 'tools' }],
    [{ tools: [TOOL], tool_choice: 'none' }, {}],
    [{ tools: [{ type: 'web_search' }] }, {}],
    [{ functions: [{ name: 'f' }] }, { TOOLS: 'functions' }],
    [{ functions: [{ name: 'f' }], function_call: 'none' }, {}],
    [{ response_format: { type: 'json_object' } }, {}],
    [schemaFormat, { STRUCTURED_OUTPUTS: 'response_format' }],
  ])('of %j', (members, expected) => {
    expect(needs(members)).toEqual(expected)
  })

  it('names the first part of each kind', () => {
    const text = { type: 'text', text: 'x' }
    const image = { type: 'image_url', image_url: PNG }
    const audio = { type: 'input_audio', input_audio: { data: 'AA', format: 'wav' } }
    const file = { type: 'file', file: { file_data: 'AA' } }
    const messages = [
      { role: 'system', content: 'x' },
      { role: 'user', content: [text, image, image] },
      { role: 'user', content: [image, audio, file] },
    ]
    expect(needs({ messages })).toEqual({
      VISION: 'messages[1].content[1]',
      AUDIO_INPUT: 'messages[2].content[1]',
      FILE_INPUT: 'messages[2].content[2]',
    })
  })
})

describe('hostile input', () => {
  it('does not let member names reach a prototype', () => {
    const names = '"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}'
    const body = JSON.parse(`{
      "model":"a/b",${names},"top_p":null,
      "messages":[{"role":"user",${names},"name":null,"content":[{"type":"image_url",${names},"image_url":"${PNG}"}]}],
      "tools":[{"type":"function",${names},"function":{"name":"f",${names},"strict":null}}],
      "reasoning":{"effort":null,${names}},
      "metadata":{"__proto__":"x"},
      "logit_bias":{"__proto__":1}
    }`)
    const input = outboundChat(readChatRequest(body))
    const objects: any[] = [{}, input, input.messages[0], input.tools![0], input.reasoning]
    for (const each of objects) {
      expect(each.polluted).toBeUndefined()
      expect(Object.getPrototypeOf(each)).toBe(Object.prototype)
    }
    expect(input.messages[0]!.content![0]).toMatchObject({ image_url: { url: PNG } })
  })

  it('does not take inherited names for known ones', () => {
    for (const name of ['constructor', 'toString', '__proto__', 'hasOwnProperty']) {
      expect(refusalOf(withMessage({ role: name, content: 'x' })).code).toBe('invalid_value')
      expect(refusalOf(withPart({ type: name })).code).toBe('invalid_value')
      expect(refusalOf(withBody({ response_format: { type: name } })).code).toBe('invalid_value')
      expect(refusalOf(withBody({ verbosity: name })).code).toBe('invalid_value')
      expect(refusalOf(withBody({ tool_choice: { type: name } })).code).toBe('invalid_value')
    }
  })

  it('is not impressed by depth', () => {
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
    const nested = `${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`
    const body = JSON.parse(
      `{"model":"a/b","x":${deep},"metadata":{},"cache_control":${nested},
        "messages":[{"role":"user","content":"x","y":${nested}}],
        "tools":[{"type":"function","function":{"name":"f","parameters":${nested}}}]}`,
    )
    expect(outboundChat(readChatRequest(body)).x).toBe(body.x)
    const places = ['messages', 'stop', 'metadata', 'tools', 'tool_choice', 'plugins', 'policy']
    for (const place of places) {
      for (const json of [deep, nested]) {
        const { param } = refusalOf(withBody({ [place]: JSON.parse(json) }))
        expect(param).toMatch(new RegExp(`^${place}`))
      }
    }
  })

  it('takes 50,000 messages', () => {
    const messages = Array.from({ length: 50_000 }, (_, i) => ({
      role: i % 2 ? 'assistant' : 'user',
      content: [{ type: 'text', text: `${i}` }],
    }))
    expect(readChatRequest(withBody({ messages })).messages).toHaveLength(50_000)
    const last = [...messages, { role: 'user', content: [{ type: 'text', text: 5 }] }]
    expect(refusalOf(withBody({ messages: last })).param).toBe('messages[50000].content[0].text')
  })

  it('takes megabytes in one string', () => {
    const much = 'A'.repeat(8_000_000)
    expect(() =>
      readChatRequest(withPart({ type: 'image_url', image_url: `data:image/png;base64,${much}` })),
    ).not.toThrow()
    for (const url of [`data:${much}`, `data:;base64${much}`, `data:${';'.repeat(8_000_000)},`]) {
      expect(refusalOf(withPart({ type: 'image_url', image_url: url })).code).toBe('invalid_base64')
    }
    for (const url of [much, `${much}:`]) {
      expect(refusalOf(withPart({ type: 'image_url', image_url: url })).code).toBe('invalid_value')
    }
    expect(refusalOf(withBody({ session_id: much })).code).toBe('string_above_max_length')
    expect(refusalOf(withBody({ tools: [fn({ name: much })] })).code).toBe(
      'string_above_max_length',
    )
  })
})

describe('bodies that client libraries send', () => {
  const json_schema = { name: 'answer', strict: true, schema: { type: 'object', properties: {} } }

  it.each<[string, object, object]>([
    [
      'openai',
      {
        messages: [
          { role: 'developer', content: 'Be brief.' },
          { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
        ],
        max_completion_tokens: 100,
        tools: [fn({ name: 'f', parameters: { type: 'object' }, strict: true })],
        response_format: { type: 'json_schema', json_schema },
        stream: true,
        stream_options: { include_usage: true },
        extra: { any: 'thing' },
      },
      { max_completion_tokens: 100, stream: true, extra: { any: 'thing' } },
    ],
    [
      'ai-sdk openai-compatible',
      {
        messages: [
          { role: 'user', content: 'Weather?' },
          { role: 'assistant', content: null, reasoning_content: 'Hm', tool_calls: [CALL] },
          { role: 'tool', tool_call_id: 'call_1', content: '{"c":21}' },
          { role: 'assistant', content: '', tool_calls: [CALL] },
          { role: 'tool', tool_call_id: 'call_1', content: '"ok"' },
          {
            role: 'user',
            content: [
              { type: 'text', text: 'And this?' },
              { type: 'image_url', image_url: { url: PNG } },
              { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
              {
                type: 'file',
                file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,AA==' },
              },
            ],
          },
        ],
        max_tokens: 50,
        response_format: { type: 'json_schema', json_schema },
      },
      { max_completion_tokens: 50 },
    ],
    [
      'openrouter provider',
      {
        messages: [
          {
            role: 'user',
            content: [{ type: 'text', text: 'Hi', cache_control: { type: 'ephemeral' } }],
          },
          {
            role: 'assistant',
            content: 'x',
            reasoning_details: [{ type: 'reasoning.text', text: 'r', format: 'unknown', index: 0 }],
            annotations: [{ type: 'url_citation', url_citation: { url: 'https://example.org' } }],
          },
          { role: 'user', content: 'More' },
        ],
        models: ['acme/other'],
        provider: { order: ['x'], allow_fallbacks: false },
        plugins: [{ id: 'web', max_results: 3 }],
        web_search_options: { search_context_size: 'low' },
        reasoning: { effort: 'medium' },
        include_reasoning: true,
        usage: { include: true },
        cache_control: { type: 'ephemeral' },
        top_k: 10,
        debug: { echo_upstream_body: true },
        extraBody: { a: 1 },
      },
      {
        reasoning: { effort: 'medium' },
        cache_control: { type: 'ephemeral' },
        top_k: 10,
        extraBody: { a: 1 },
      },
    ],
    [
      'LangChain for JavaScript',
      {
        messages: [
          { role: 'system', content: [{ type: 'text', text: 'Be brief.' }] },
          { role: 'user', content: 'Hi' },
          { role: 'assistant', content: '', tool_calls: [CALL] },
          { role: 'tool', tool_call_id: 'call_1', content: [{ type: 'text', text: '1' }] },
        ],
        max_tokens: 20,
        stream: true,
        stream_options: { include_usage: true },
        n: 1,
      },
      { max_completion_tokens: 20, stream: true, n: 1 },
    ],
    [
      'LangChain for Python',
      {
        messages: [
          { role: 'user', content: 'Hi' },
          { role: 'assistant', content: null, tool_calls: [CALL] },
          { role: 'tool', tool_call_id: 'call_1', content: '1' },
        ],
        max_completion_tokens: 20,
        stream: false,
        temperature: null,
        parallel_tool_calls: true,
        tool_choice: 'none',
        tools: [],
      },
      { max_completion_tokens: 20, stream: false },
    ],
  ])('%s', (_, members, expected) => {
    const body = withBody(members)
    const input = outboundChat(readChatRequest(body))
    expect(input).toMatchObject(expected)
    expect(input.messages).toEqual(body.messages)
    for (const name of ['model', 'models', 'provider', 'plugins', 'max_tokens', 'stream_options']) {
      expect(input).not.toHaveProperty(name)
    }
  })
})

function times<T>(count: number, value: T): T[] {
  return Array.from({ length: count }, () => value)
}

function schema(json_schema: object): object {
  return { response_format: { type: 'json_schema', json_schema } }
}

function fn(definition: object): object {
  return { type: 'function', function: definition }
}

function refused(run: () => unknown): InvalidRequest | undefined {
  try {
    run()
    return undefined
  } catch (error) {
    if (error instanceof InvalidRequest) return error
    throw error
  }
}

function refusalOf(body: object): InvalidRequest {
  const error = refused(() => readChatRequest(body))
  if (!error) throw new Error('the body was accepted')
  return error
}

function outbound(members: object): ChatInput {
  return outboundChat(readChatRequest(withBody(members)))
}

function outboundMessage(message: object): ChatMessage {
  return outbound({ messages: [message] }).messages[0]!
}

function uses(members: object): boolean {
  return usesLegacyFunctions(readChatRequest(withBody(members)))
}

function needs(members: object): object {
  return requiredCapabilities(readChatRequest(withBody(members)))
}
