/** Parts of a transcript between provider and client. */
import type { Transcription, TranscriptionEvent, TranscriptSegment } from '../../plugin.ts'
import type { Billed } from '../shared/billing.ts'

/** `done` is the last part, and the only one of an answer that is not streamed. */
export type TranscriptPart = Exclude<TranscriptionEvent, { type: 'done' }> | DonePart

/** The complete transcript. */
export interface DonePart extends Transcription, Billed {
  readonly type: 'done'
}

/** Whether it is the last part. */
export function isDone(part: TranscriptPart): part is DonePart {
  return part.type === 'done'
}

/** @param index of the segment, from 0 */
export function segmentId(index: number): string {
  return `seg_${String(index + 1).padStart(3, '0')}`
}

/** Names speakers without a name A, B and so on; AA and BB follow Z. */
export function nameSpeakers(segment: TranscriptSegment): TranscriptSegment {
  const { speaker = 0 } = segment
  if (typeof speaker === 'string' && speaker !== '') return segment
  const number = Number(speaker) || 0
  const letter = String.fromCharCode(65 + (number % 26))
  return { ...segment, speaker: letter.repeat(1 + Math.floor(number / 26)) }
}
