/** What guards read of image requests and answers: the prompt, and texts beside the images. */
import type { GuardAdapter, OutputCodec } from '../../guard/adapter.ts'
import { toBase64 } from '../shared/media.ts'
import type { Media, MediaFile, TextItem } from '../../plugin.ts'
import { stringsIn } from '../shared/texts.ts'
import type { ImagePart } from './parts.ts'
import type { ImageRequest } from './read.ts'

/** Members that are read separately, or whose values the API lists. */
const READ_SEPARATELY = new Set([
  'model',
  'policy',
  'provider',
  'plugins',
  'prompt',
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
  'user',
])

/** The guard adapter of images. A refusal is always an error: there is no text to put it in. */
export const guardAdapter: GuardAdapter<ImageRequest, ImagePart> = {
  inputTexts(input) {
    const { prompt, images = [], mask } = input
    const base = { side: 'input', role: 'user', current: true } as const
    const media = images.length > 0 && { media: [...images, ...(mask ? [mask] : [])].map(toMedia) }
    const items: TextItem[] = [{ ...base, id: 'prompt', channel: 'prompt', text: prompt, ...media }]
    for (const name in input) {
      if (READ_SEPARATELY.has(name)) continue
      stringsIn(input[name]).forEach((text, index) =>
        items.push({ ...base, id: `${name}#${index}`, channel: 'tool_schema', text }),
      )
    }
    return { items, refusedTurns: [] }
  },
  choices: () => 1,
  outputCodec: () => LANES,
}

const LANES: OutputCodec<ImagePart> = {
  split(part, take) {
    if (part.type === 'partial') return take({ kind: 'mark', choice: 0, part })
    const texts = part.images.flatMap(({ revised_prompt: text }) => (text ? [{ text }] : []))
    const unscanned = 'image'
    take({ kind: 'whole', choice: 0, channel: 'prompt', index: 0, part, texts, unscanned })
  },
  cut: ({ part }) => part,
}

function toMedia(file: MediaFile): Media {
  const { mediaType } = file
  return {
    kind: 'image',
    mediaType,
    // Few guards check images, and their base64 is large: it is made on demand.
    get url() {
      return `data:${mediaType};base64,${toBase64(file.bytes)}`
    },
  }
}
