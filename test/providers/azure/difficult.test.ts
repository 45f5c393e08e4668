/** Every row of the table of difficult conversations, for each surface of Azure. */
import * as v from 'valibot'
import azure from '../../../providers/azure.ts'
import { setUp } from '../_chat.ts'
import { describeDifficult, type DifficultOptions } from '../_difficult.ts'
import {
  bodyIn,
  COMMON,
  file,
  image,
  JSON_OR_SCHEMA,
  LOGPROBS,
  OLDER_LIMIT,
  OPENAI_FORM,
  PENALTIES,
  sound,
} from '../openai-compatible/_forms.ts'

const refused: NonNullable<DifficultOptions['refused']> = {
  'image of an assistant': ['unsupported_parameter', 'messages[1].content[1]'],
  'image in a system message': ['unsupported_parameter', 'messages[0].content[1]'],
  'PDF as the result of a call': ['unsupported_parameter', 'messages[2].content[0]'],
}
const changed: NonNullable<DifficultOptions['changed']> = {
  'calls of tools with odd names': ['files.read', `files_${'x'.repeat(110)}`],
}
const number = v.number()
const sampling = { ...PENALTIES, ...LOGPROBS, logit_bias: v.record(v.string(), number), n: number }

describeDifficult({
  title: 'difficult conversations with Azure',
  setUp: (baseURL, download) => setUp(azure, { baseURL, apiKey: 'k' }, download),
  model: 'our-model',
  schema: bodyIn(OPENAI_FORM),
  refused,
  changed,
})

describeDifficult({
  title: 'difficult conversations with the first stable versions of Azure',
  setUp: (baseURL, download) =>
    setUp(azure, { baseURL, apiKey: 'k', surface: 'deployments' }, download),
  model: 'our-model',
  schema: bodyIn({
    ...OPENAI_FORM,
    current: false,
    members: {
      ...COMMON,
      ...sampling,
      max_completion_tokens: number,
      response_format: JSON_OR_SCHEMA,
      user: v.string(),
    },
    parts: [image, file, sound],
  }),
  refused,
  changed,
})

describeDifficult({
  title: 'difficult conversations with models of other makers at Azure',
  setUp: (baseURL, download) => setUp(azure, { baseURL, apiKey: 'k', surface: 'models' }, download),
  model: 'our-model',
  schema: bodyIn({
    answered: true,
    anywhere: true,
    members: {
      ...COMMON,
      ...OLDER_LIMIT,
      ...sampling,
      modalities: v.array(v.string()),
      top_k: number,
      min_p: number,
      repetition_penalty: number,
      response_format: JSON_OR_SCHEMA,
      reasoning_effort: v.picklist(['low', 'medium', 'high']),
    },
    parts: [image, file, sound],
    resultImages: true,
  }),
  changed: { ...changed, 'call of a custom tool': ['*** "quoted"'] },
})
