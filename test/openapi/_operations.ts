/** What the description of the API says of each route beside its schemas. */
import { HOLDER_GROUPS } from '../../src/endpoints/account/usage.ts'
import { dataUrl, pngOfPixels } from '../_documents.ts'
import { wav } from '../endpoints/audio/_sounds.ts'

/** One route. */
export interface Operation {
  readonly id: string
  readonly summary: string
  readonly tag: string
  /** Name of the schema of a JSON answer. */
  readonly answer?: string
  /** Name of the schema of its errors; by default `error`. */
  readonly error?: string
  /** What the events of a stream are. */
  readonly stream?: string
  /** Other types that an answer may have. */
  readonly media?: readonly string[]
  /** Names of the parameters in its query. */
  readonly query?: readonly string[]
  /** It needs no key. */
  readonly open?: boolean
  /** Bodies that a gateway with these models takes. */
  readonly examples?: Record<string, object>
}

const png = dataUrl('image/png', pngOfPixels({ width: 1, height: 1 }, Buffer.alloc(4)))
const asked = { messages: [{ role: 'user', content: 'Say hello.' }] }
const thing = 'example/chat'

/** The operations, by method and path. */
export const OPERATIONS: Readonly<Record<string, Operation>> = {
  'POST /v1/chat/completions': {
    id: 'createChatCompletion',
    summary: 'An answer to a conversation',
    tag: 'chat',
    answer: 'chat-completion',
    stream: 'Objects of the schema chat-completion-chunk, and [DONE].',
    examples: {
      whole: { model: thing, ...asked },
      streamed: { model: thing, ...asked, stream: true, stream_options: { include_usage: true } },
      tools: {
        model: thing,
        ...asked,
        tools: [
          {
            type: 'function',
            function: {
              name: 'weather',
              parameters: { type: 'object', properties: { city: { type: 'string' } } },
            },
          },
        ],
      },
    },
  },
  'POST /v1/messages': {
    id: 'createMessage',
    summary: "The same in the form of Anthropic's Messages API",
    tag: 'chat',
    answer: 'message',
    error: 'message-error',
    stream: 'Events of the Messages API.',
    examples: { whole: { model: thing, max_tokens: 100, ...asked } },
  },
  'POST /v1/messages/count_tokens': {
    id: 'countMessageTokens',
    summary: 'The tokens of a prompt, free of charge',
    tag: 'chat',
    answer: 'token-count',
    error: 'message-error',
    examples: { prompt: { model: thing, ...asked } },
  },
  'POST /v1/responses': {
    id: 'createResponse',
    summary: "The same in the form of OpenAI's Responses API; nothing is stored",
    tag: 'chat',
    answer: 'response',
    stream: 'Events of the Responses API, and [DONE].',
    examples: { whole: { model: thing, input: 'Say hello.' } },
  },
  'POST /v1/responses/input_tokens': {
    id: 'countResponseTokens',
    summary: 'The tokens of a prompt, free of charge',
    tag: 'chat',
    answer: 'token-count',
    examples: { prompt: { model: thing, input: 'Say hello.' } },
  },
  'POST /v1/responses/compact': {
    id: 'compactResponse',
    summary: 'A conversation shortened to a summary that every model can read',
    tag: 'chat',
    answer: 'response-compaction',
    examples: { whole: { model: thing, input: 'Say hello.' } },
  },
  'POST /v1/completions': {
    id: 'createCompletion',
    summary: 'A text that goes on',
    tag: 'chat',
    answer: 'completion',
    stream: 'Objects of the schema completion, and [DONE].',
    examples: { whole: { model: 'example/text', prompt: 'Once upon a time', max_tokens: 20 } },
  },
  'POST /v1/images/generations': {
    id: 'createImage',
    summary: 'Images from a text',
    tag: 'images',
    answer: 'images-response',
    stream: 'Objects of the schema images-stream-event.',
    examples: { whole: { model: 'example/image', prompt: 'A cube.' } },
  },
  'POST /v1/images/edits': {
    id: 'editImage',
    summary: 'Images from images and a text',
    tag: 'images',
    answer: 'images-response',
    stream: 'Objects of the schema images-stream-event.',
    examples: {
      inline: { model: 'example/image', prompt: 'In blue.', images: [{ image_url: png }] },
    },
  },
  'POST /v1/ocr': {
    id: 'readDocument',
    summary: 'The text of a document as Markdown',
    tag: 'documents',
    answer: 'ocr-response',
    examples: {
      image: { model: 'example/ocr', document: { type: 'image_url', image_url: png } },
    },
  },
  'POST /v1/audio/speech': {
    id: 'createSpeech',
    summary: 'Sound from a text',
    tag: 'audio',
    media: ['audio/mpeg', 'audio/wav', 'audio/pcm', 'audio/ogg', 'audio/aac', 'audio/flac'],
    stream: 'Objects of the schema speech-stream-event.',
    examples: { whole: { model: 'example/speech', input: 'Hello.', voice: 'a' } },
  },
  'POST /v1/audio/transcriptions': {
    id: 'createTranscription',
    summary: 'Text from sound',
    tag: 'audio',
    answer: 'transcription-json',
    media: ['text/plain'],
    stream: 'Objects of the schema transcription-stream-event.',
    examples: {
      inline: { model: 'example/transcription', file: dataUrl('audio/wav', wav(0.01)) },
    },
  },
  'POST /v1/embeddings': {
    id: 'createEmbeddings',
    summary: 'Vectors of texts',
    tag: 'texts',
    answer: 'embeddings',
    examples: { whole: { model: 'example/embedding', input: ['Hello.', 'Good day.'] } },
  },
  'POST /v1/rerank': {
    id: 'rerank',
    summary: 'Documents in order by what they have to do with a query',
    tag: 'texts',
    answer: 'rerank',
    examples: {
      whole: { model: 'example/rerank', query: 'fox', documents: ['A red fox.', 'A hen.'] },
    },
  },
  'POST /v1/moderations': {
    id: 'createModeration',
    summary: 'What is in a text, by the guards of the gateway or by a model',
    tag: 'texts',
    answer: 'moderation',
    examples: { model: { model: 'example/moderation', input: 'Hello.' } },
  },
  'GET /v1/models': {
    id: 'listModels',
    summary: 'All models with their prices',
    tag: 'account',
    answer: 'models-list',
    open: true,
  },
  'GET /v1/models/user': {
    id: 'listUsableModels',
    summary: 'The models that the key may use now',
    tag: 'account',
    answer: 'models-list',
  },
  'GET /v1/models/{id}': {
    id: 'retrieveModel',
    summary: 'One model, by any of its names',
    tag: 'account',
    answer: 'models-list.model',
    open: true,
  },
  'GET /v1/key': {
    id: 'retrieveKey',
    summary: 'Limits and spend of the key',
    tag: 'account',
    answer: 'key',
  },
  'GET /v1/key/usage': {
    id: 'retrieveKeyUsage',
    summary: 'What the key has used, by model and time',
    tag: 'account',
    query: ['from', 'to', 'rollup', 'group', 'metric', 'top', 'format', ...HOLDER_GROUPS],
  },
  'GET /v1/key/requests': {
    id: 'listKeyRequests',
    summary: 'The calls of the key, newest first',
    tag: 'account',
    query: ['limit', 'after', 'status', 'model'],
  },
  'GET /v1/key/requests/{id}': {
    id: 'retrieveKeyRequest',
    summary: 'One call of the key, with its bill',
    tag: 'account',
  },
  'POST /v1/key/checkout': {
    id: 'createCheckout',
    summary: 'An order of credit, and the page on which it is paid',
    tag: 'account',
    answer: 'checkout',
    examples: { credit: { usd: '25' } },
  },
  'GET /v1/key/payments': {
    id: 'listKeyPayments',
    summary: 'The orders of the key, newest first',
    tag: 'account',
    query: ['limit', 'after'],
  },
  'GET /v1/key/payments/{reference}': {
    id: 'retrieveKeyPayment',
    summary:
      'One order of the key; while it is open, the payment provider is asked what became of it',
    tag: 'account',
  },
  'GET /v1/credits': {
    id: 'retrieveCredits',
    summary: 'Balance and tier of the account',
    tag: 'account',
    answer: 'credits',
  },
}
