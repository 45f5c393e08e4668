/** What passes between a provider of images and the client. */
import type { GeneratedImage } from '../../plugin.ts'
import type { Ending } from '../shared/billing.ts'

export type ImagePart =
  | {
      readonly type: 'partial'
      readonly b64_json: string
      readonly index: number
      readonly look: Look
    }
  | CompletedPart

/** What it took is there once it is charged. */
export interface CompletedPart extends Partial<Ending> {
  readonly type: 'completed'
  /** As many as were asked for. */
  readonly images: readonly GeneratedImage[]
  readonly look: Look
}

/** How images look. */
export interface Look {
  /** What is known of it. */
  readonly known: Shown
  /** The same, with what was asked for in place of what is not known. */
  readonly all: Required<Shown>
}

interface Shown {
  readonly background?: string
  readonly output_format?: string
  readonly size?: string
  readonly quality?: string
}

export function isCompleted(part: ImagePart): part is CompletedPart {
  return part.type === 'completed'
}
