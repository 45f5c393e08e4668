/** Bodies that are cheap to send and dear to parse, and ordinary bodies that are as large. */
import { randomBytes } from 'node:crypto'
import { brotliCompressSync, constants, gzipSync, zstdCompressSync } from 'node:zlib'

/** Every content coding of bodies, and none. */
export const CODINGS: Readonly<Record<string, (body: Buffer) => Buffer>> = {
  identity: (body) => body,
  gzip: (body) => gzipSync(body, { level: 1, strategy: constants.Z_RLE }),
  br: (body) => brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }),
  zstd: (body) => zstdCompressSync(body),
}

/** A request of at most so many bytes, with `inner` as often as it goes in. */
function filled(bytes: number, before: string, inner: string, after: string): Buffer {
  const head = `{"model":"mock/echo","messages":[{"role":"user","content":"Hi"}],${before}`
  const times = Math.floor((bytes - head.length - after.length) / inner.length)
  const middle = Buffer.alloc(times * inner.length, inner)
  return Buffer.concat([Buffer.from(head), middle, Buffer.from(after)])
}

/** What is wrong with each of these is its structure, its blanks or its length. @param bytes the size of each body */
export function hostileBodies(bytes: number): Readonly<Record<string, Buffer>> {
  return {
    brackets: filled(bytes, '"x":', '[', ']}'),
    braces: filled(bytes, '"x":', '{"":', '0}'),
    objects: filled(bytes, '"x":[', '{},', '0]}'),
    lists: filled(bytes, '"x":[', '[[]],', '0]}'),
    members: filled(bytes, '"x":{', '"":0,', '"":0}}'),
    strings: filled(bytes, '"x":[', '"",', '""]}'),
    numbers: filled(bytes, '"x":[', '1,', '1]}'),
    digits: filled(bytes, '"x":', '1', ' }'),
    name: filled(bytes, '"', 'n', '":0}'),
  }
}

const MIB = 1024 * 1024

/** Large bodies that clients send. @param model whom all of them ask. @param imageMib the MiB of all images together */
export function ordinaryBodies(model = 'm', imageMib = 37): Readonly<Record<string, Buffer>> {
  const image = (bytes: number) => ({
    type: 'image_url',
    image_url: { url: `data:image/png;base64,${randomBytes(bytes).toString('base64')}` },
  })
  const asking = (content: unknown) => ({ model, messages: [{ role: 'user', content }] })
  const members = Object.fromEntries(
    Array.from({ length: 200 }, (_, i) => [`member_${i}`, { type: 'string' }]),
  )
  const tool = (i: number) => ({
    type: 'function',
    function: { name: `tool_${i}`, parameters: { type: 'object', properties: members } },
  })
  let schema: object = { type: 'string' }
  for (let level = 0; level < 40; level++) {
    schema = { type: 'object', properties: { next: schema }, required: ['next'] }
  }
  const bodies = {
    'one large image': asking([image(imageMib * MIB)]),
    '500 images': asking(Array.from({ length: 500 }, () => image((imageMib * MIB) / 500))),
    'messages and tools': {
      model,
      messages: Array.from({ length: 2000 }, (_, i) => ({ role: 'user', content: `turn ${i}` })),
      tools: Array.from({ length: 128 }, (_, i) => tool(i)),
    },
    tokens: {
      ...asking('hi'),
      input: Array.from({ length: 300_000 }, (_, i) => (i * 7919) % 100_000),
    },
    'a deep schema': {
      ...asking('hi'),
      response_format: { type: 'json_schema', json_schema: { name: 'deep', schema } },
    },
  }
  const texts = Object.entries(bodies).map(([name, body]) => [
    name,
    Buffer.from(JSON.stringify(body)),
  ])
  return Object.fromEntries(texts)
}
