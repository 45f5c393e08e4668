/** An emitter whose `error` has no listener ends the process. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { expect, it } from 'vitest'

const ROOT = resolve(import.meta.dirname, '..')

const MAKES_ONE = new RegExp(
  [
    String.raw`\bnew (?:\w+\.)?(?:Worker|Pool|Client|EventEmitter|Readable|Writable|Transform|PassThrough|Duplex|Socket|Redis|Cluster)\(`,
    String.raw`\bcreate(?:Server|ReadStream|WriteStream|Connection|Gunzip|Inflate|InflateRaw|BrotliDecompress|ZstdDecompress|Interface)\(`,
    String.raw`(?<![.#\w])(?:spawn|fork|busboy|watch)\((?!.*\{$)`,
  ].join('|'),
  'm',
)
/** A listener; waiting for another event, which rejects with the error; a pipeline, which does too. */
const LISTENS = /\.(?:on|once)\(\s*'error'|await once\(|await pipeline\(/

it('every file that makes emitters listens for their errors', () => {
  const files = readdirSync(join(ROOT, 'src'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name))
  const makers = files
    .map((file) => ({ file: relative(ROOT, file), text: readFileSync(file, 'utf8') }))
    .filter(({ text }) => MAKES_ONE.test(text))
  expect(makers.length).toBeGreaterThan(5)
  const silent = makers.filter(({ text }) => !LISTENS.test(text)).map(({ file }) => file)
  expect(silent).toEqual([])
})
