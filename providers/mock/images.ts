/** Generated images of one colour, which depends on the prompt. */
import { hash } from 'node:crypto'
import { crc32, deflateSync } from 'node:zlib'
import type {
  ImageEditInput,
  ImageEvent,
  ImageInput,
  ImageResult,
  Usage,
} from '../../src/plugin.ts'

/** What the deployment's options script. */
interface ImageScript {
  /** Sent as the revised prompt. */
  readonly reply?: string | undefined
  /** No usage is reported. */
  readonly uncounted: boolean
}

const MAX_SIDE = 4096
const IMAGE_TOKENS = 1024

/** The requested images at once. */
export function makeImages(input: ImageInput | ImageEditInput, script: ImageScript): ImageResult {
  const { prompt, size = 'auto', n = 1, quality } = input
  const [width = 0, height = 0] = size.split('x').map((side) => Math.min(Number(side), MAX_SIDE))
  const shape = width > 0 && height > 0 ? { width, height } : { width: 1024, height: 1024 }
  const data = Array.from({ length: n }, (_, index) => ({
    b64_json: pngOf(shape, `${prompt} ${index}`).toString('base64'),
    ...(script.reply !== undefined && { revised_prompt: script.reply }),
  }))
  return {
    data,
    size: `${shape.width}x${shape.height}`,
    background: 'opaque',
    output_format: 'png',
    ...(quality && quality !== 'auto' && { quality }),
    ...(!script.uncounted && { usage: usageOf(input, n) }),
  }
}

/** The same images as a stream of events. @param pace is awaited before each event */
export async function* imageEvents(
  input: ImageInput | ImageEditInput,
  script: ImageScript,
  pace: (sent: number) => Promise<void>,
): AsyncGenerator<ImageEvent, void, undefined> {
  const result = makeImages(input, script)
  const partials = input.partial_images ?? 0
  for (let index = 0; index < partials; index++) {
    await pace(index)
    const side = 16 << index
    const sketch = pngOf({ width: side, height: side }, `${input.prompt} 0`)
    yield { type: 'partial', b64_json: sketch.toString('base64'), index }
  }
  await pace(partials)
  yield { type: 'completed', ...result }
}

/** Four characters of the prompt count as one token, and each image as 1,024 tokens. */
function usageOf(input: ImageInput | ImageEditInput, n: number): Usage {
  const references = 'images' in input ? (input as ImageEditInput).images.length : 0
  const imageInputTokens = references * IMAGE_TOKENS
  return {
    promptTokens: Math.ceil(input.prompt.length / 4) + imageInputTokens,
    imageInputTokens,
    completionTokens: n * IMAGE_TOKENS,
    imageOutputTokens: n * IMAGE_TOKENS,
  }
}

/** A PNG of one colour (https://www.w3.org/TR/png-3/): one bit per pixel, all 0, and a palette of one colour. */
function pngOf({ width, height }: { width: number; height: number }, name: string): Buffer {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  // Bit depth 1, colour type 3 (palette).
  header.set([1, 3, 0, 0, 0], 8)
  const palette = Buffer.from(hash('sha256', name, 'hex').slice(0, 6), 'hex')
  const rows = deflateSync(Buffer.alloc(height * (1 + Math.ceil(width / 8))))
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    chunk('IHDR', header),
    chunk('PLTE', palette),
    chunk('IDAT', rows),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

function chunk(type: string, content: Buffer): Buffer {
  const bytes = Buffer.alloc(content.length + 12)
  bytes.writeUInt32BE(content.length, 0)
  bytes.write(type, 4, 'latin1')
  content.copy(bytes, 8)
  bytes.writeUInt32BE(crc32(bytes.subarray(4, -4)), bytes.length - 4)
  return bytes
}
