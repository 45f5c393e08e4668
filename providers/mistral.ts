/** Mistral's API: chat, completions, embeddings and OCR. */
import * as v from 'valibot'
import {
  defineProvider,
  type Host,
  type OcrInput,
  type OcrPage,
  type Provider,
  type OptionField,
} from '../src/plugin.ts'
import { createChat } from './openai-compatible/chat.ts'
import { completionsOption, createCompletions } from './openai-compatible/completions.ts'
import { createEmbeddings } from './openai-compatible/embeddings.ts'
import { deploymentFields, deploymentMembers, jsonHeaders } from './openai-compatible/options.ts'
import { quirksOf } from './openai-compatible/rows.ts'
import { joinUrl, notAnAnswer, send, toDataUrl, tryParse } from './shared/http.ts'
import { openAIModels } from './shared/offers.ts'
import { withRemedies } from './shared/remedies.ts'
import { ADDRESS_FIELD, KEY_FIELD, apiKey, baseURL, headersOption } from './shared/options.ts'
import { httpFailure, inbandFailure } from './openai-compatible/errors.ts'

// Mistral's OCR, `POST /ocr`. The gateway's own OCR path uses the same names.

/** URL and headers of requests. */
interface OcrTarget {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

/** Options of a deployment that matter here. */
interface Options {
  /** Members of the request that this model refuses. */
  readonly omit?: readonly string[]
}

/** An answer may contain all images of the document. */
const MAX_ANSWER_BYTES = 128 * 1024 * 1024

/** Members that are passed on. The vendor refuses unknown ones. */
const PASSED = [
  'pages',
  'include_image_base64',
  'image_limit',
  'image_min_size',
  'bbox_annotation_format',
  'document_annotation_format',
  'document_annotation_prompt',
  'table_format',
  'extract_header',
  'extract_footer',
  'include_blocks',
  'confidence_scores_granularity',
]

/** The OCR method of a provider. */
function createOcr(host: Host, { url, headers }: OcrTarget): NonNullable<Provider['ocr']> {
  return async ({ input, model, options, signal }) => {
    const { omit = [] } = options as Options
    const body = JSON.stringify(toBody(input, model, omit))
    const response = await send(host, { url, headers, body, signal }, httpFailure)
    const answer = tryParse(await response.text(MAX_ANSWER_BYTES))
    const { pages, document_annotation, usage_info } = answer ?? {}
    if (!Array.isArray(pages) || !pages.every(isPage)) {
      throw (answer && inbandFailure(host.fail, answer)?.error) ?? notAnAnswer(host.fail)
    }
    const processed = countOf(usage_info?.pages_processed)
    const documentBytes = countOf(usage_info?.doc_size_bytes)
    return {
      pages: pages.map(withIndex),
      ...(typeof document_annotation === 'string' && { document_annotation }),
      ...(documentBytes !== undefined && { documentBytes }),
      ...(processed !== undefined && { usage: { pages: processed } }),
    }
  }
}

function toBody(input: OcrInput, model: string, omit: readonly string[]): object {
  const passed = PASSED.filter((name) => input[name] !== undefined && !omit.includes(name))
  return {
    model,
    document: toDocument(input.document),
    ...Object.fromEntries(passed.map((name) => [name, input[name]])),
  }
}

function toDocument(document: OcrInput['document']): object {
  const url = 'url' in document ? document.url : toDataUrl(document.file)
  if (document.kind === 'image') return { type: 'image_url', image_url: url }
  const { name } = document
  return { type: 'document_url', document_url: url, ...(name && { document_name: name }) }
}

function isPage(page: any): boolean {
  return typeof page?.markdown === 'string'
}

function withIndex(page: OcrPage, position: number): OcrPage {
  return Number.isInteger(page.index) ? page : { ...page, index: position }
}

function countOf(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 0 && Number.isInteger(value) ? value : undefined
}

const options = v.strictObject({
  headers: headersOption,
  apiKey,
  /** The address of a proxy, or a regional address of Mistral. */
  baseURL: v.optional(baseURL, 'https://api.mistral.ai/v1'),
})

const deploymentOptions = v.strictObject({
  ...deploymentMembers,
  /** The model fills in the middle of a text. */
  completions: completionsOption,
})

const fields: readonly OptionField[] = [KEY_FIELD, ADDRESS_FIELD]

export default defineProvider({
  name: 'mistral',
  telemetryName: 'mistral_ai',
  options,
  fields,
  deploymentOptions,
  deploymentFields,
  setup({ apiKey, baseURL: base, headers }, host) {
    const quirks = quirksOf('mistral')
    const sent = jsonHeaders({ authorization: `Bearer ${apiKey}` }, headers)
    const target = (path: string) => ({ url: joinUrl(base, path), headers: sent, quirks })
    const chat = target('chat/completions')
    return {
      models: openAIModels(host, { url: joinUrl(base, 'models'), headers: sent, httpFailure }),
      chat: withRemedies(
        host,
        createChat(host, () => chat),
      ),
      ...createCompletions(host, { base, headers: sent, quirks }),
      ...createEmbeddings(host, () => target('embeddings')),
      ocr: createOcr(host, { url: joinUrl(base, 'ocr'), headers: sent }),
    }
  },
})
