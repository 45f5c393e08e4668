/** Failures that the Responses API reports inside of an answer. */
import type { FailureClass, Host } from '../../src/plugin.ts'
import { problemOf, toFailure, type Failed, type Problem } from '../openai-compatible/errors.ts'

/** Codes that mean something else inside of an answer than with an error status, or are only known here. */
const BY_CODE: ReadonlyMap<string, FailureClass> = new Map([
  ['slow_down', 'upstream_rate'],
  ['invalid_encrypted_content', 'bad_request'],
  ['server_error', 'upstream_error'],
  ['vector_store_timeout', 'upstream_error'],
  // The client's image cannot be used: every deployment would say so.
  ['empty_image_file', 'bad_request'],
  ['failed_to_download_image', 'bad_request'],
  ['image_file_too_large', 'bad_request'],
  ['image_parse_error', 'bad_request'],
  ['image_too_large', 'bad_request'],
  ['image_too_small', 'bad_request'],
  ['invalid_base64_image', 'bad_request'],
  ['invalid_image', 'bad_request'],
  ['invalid_image_format', 'bad_request'],
  ['invalid_image_mode', 'bad_request'],
  ['invalid_image_url', 'bad_request'],
  ['unsupported_image_media_type', 'bad_request'],
])

/** An error that was read, and the failure for it. */
export interface Refusal extends Failed {
  readonly problem: Problem
}

/**
 * The failure for an error inside of an answer.
 * @param reported the event `error` in either of its forms, or the `error` of a failed response, which may be missing
 */
export function refusalOf(fail: Host['fail'], reported: unknown): Refusal {
  const problem = problemOf(reported ?? {})
  return { problem, ...toFailure(fail, problem, problem.status, {}, BY_CODE) }
}
