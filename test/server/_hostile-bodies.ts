/** Bodies that are cheap to send and dear to parse, and ordinary bodies that are as large. */
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

/** What is wrong with each of these is its structure, its blanks or its length. @param bytes of each body */
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
