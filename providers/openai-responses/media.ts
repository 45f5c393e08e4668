/** Content of messages as parts of the Responses API. */
import type { Host } from '../../src/plugin.ts'
import { fileNameOf, isAddress } from '../shared/files.ts'

/** A part of an input message, or of the output of a tool. */
export type InputPart =
  | { readonly type: 'input_text'; readonly text: string }
  | { readonly type: 'input_image'; readonly image_url: string; readonly detail: string }
  | { readonly type: 'input_file'; readonly file_url: string }
  | { readonly type: 'input_file'; readonly filename: string; readonly file_data: string }

/**
 * Converts a part of a message that is not the assistant's.
 * @param path of the part, for the error
 * @throws the failure class `bad_request` for sound and unknown types
 */
export function toInputPart(part: any, path: string, fail: Host['fail']): InputPart {
  const marker = part.prompt_cache_breakpoint
    ? { prompt_cache_breakpoint: part.prompt_cache_breakpoint }
    : undefined
  switch (part.type) {
    case 'text':
      return { type: 'input_text', text: part.text, ...marker }
    case 'refusal':
      return { type: 'input_text', text: part.refusal, ...marker }
    case 'image_url': {
      const { url, detail } = part.image_url
      return { type: 'input_image', image_url: url, detail: detail ?? 'auto', ...marker }
    }
    case 'file':
      return { ...toFile(part.file), ...marker }
    default:
      throw notTaken(part.type, 'text, an image or a file', path, fail)
  }
}

/** The failure for a part that this API does not have. */
export function notTaken(type: string, expected: string, path: string, fail: Host['fail']): Error {
  const message = `Expected ${expected} at ${path}: this model takes no ${type} there.`
  return fail('bad_request', message, { code: 'unsupported_parameter', param: path })
}

function toFile({ file_data, filename }: { file_data: string; filename?: string }): InputPart {
  if (isAddress(file_data)) return { type: 'input_file', file_url: file_data }
  // The vendor requires a name.
  return { type: 'input_file', filename: filename || fileNameOf(file_data), file_data }
}
