/** What guards read of image requests and answers: the prompt, and texts beside the images. */
import type { OutputCodec } from '../../guard/adapter.ts'
import { itemOf, labelItems, mediaOf, oneTurnGuard, otherItems } from '../shared/guard.ts'
import type { ImagePart } from './parts.ts'
import type { ImageRequest } from './read.ts'

/** Members that are read separately, or whose values the API lists. */
const READ_SEPARATELY = new Set([
  'plugins',
  'prompt',
  'user',
  'images',
  'mask',
  'size',
  'quality',
  'response_format',
  'output_format',
  'background',
  'moderation',
  'style',
  'input_fidelity',
])

/** The guard adapter of images. */
export const guardAdapter = oneTurnGuard<ImageRequest, ImagePart>(
  (input) => {
    const { prompt, images = [], mask, user } = input
    const files = images.length > 0 && mask ? [...images, mask] : images
    const media = files.map((file) => mediaOf('image', file))
    return [
      itemOf('prompt', 'prompt', prompt, media),
      ...labelItems('user', user),
      ...otherItems(input, READ_SEPARATELY, 'tool_schema'),
    ]
  },
  () => LANES,
)

const LANES: OutputCodec<ImagePart> = {
  split(part, take) {
    if (part.type === 'partial') return take({ kind: 'mark', choice: 0, part })
    const texts = part.images.flatMap(({ revised_prompt: text }) => (text ? [{ text }] : []))
    const unscanned = 'image'
    take({ kind: 'whole', choice: 0, channel: 'prompt', index: 0, part, texts, unscanned })
  },
  cut: ({ part }) => part,
}
