/** Parts of an answer with images between provider and client. */
import type { GeneratedImage } from '../../plugin.ts'
import type { Billed } from '../shared/billing.ts'

/** A partial image of a stream, or all finished images. */
export type ImagePart =
  | {
      readonly type: 'partial'
      readonly b64_json: string
      readonly index: number
      readonly properties: ImageProperties
    }
  | CompletedPart

interface CompletedPart extends Billed {
  readonly type: 'completed'
  /** As many as the client asked for. */
  readonly images: readonly GeneratedImage[]
  readonly properties: ImageProperties
}

/** Properties of images that an answer states. */
export interface ImageProperties {
  /** Known properties. */
  readonly known: Shown
  /** Known properties, and the requested ones for the rest. */
  readonly all: Required<Shown>
}

interface Shown {
  readonly background?: string
  readonly output_format?: string
  readonly size?: string
  readonly quality?: string
}

/** Whether it is the last part. */
export function isCompleted(part: ImagePart): part is CompletedPart {
  return part.type === 'completed'
}
