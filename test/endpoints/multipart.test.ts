import busboy from 'busboy'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readMultipart, toJsonTypes, type Form } from '../../src/endpoints/multipart.ts'
import type { Incoming } from '../../src/pipeline.ts'

const BOUNDARY = 'XbOuNdArY'
const TYPE = `multipart/form-data; boundary=${BOUNDARY}`
const isFile = (field: string) => /^(file|image(\[\d*\])?)$/.test(field)

/** Reads a body that arrives in these pieces. */
function read(pieces: readonly Buffer[], type = TYPE, fileLimitBytes = 1e6): Promise<Form> {
  const incoming = {
    header: (name: string) => (name === 'content-type' ? type : undefined),
    async pieces(_limit: number, take: (piece: Buffer) => void) {
      for (const piece of pieces) take(piece)
    },
  }
  const limits = { files: isFile, fileLimitBytes, bodyLimitBytes: 1e9 }
  return readMultipart(incoming as unknown as Incoming, limits)
}

interface PartText {
  readonly head: string
  readonly body: Buffer | string
}

function bodyOf(parts: readonly PartText[], boundary = BOUNDARY): Buffer {
  const pieces = parts.flatMap(({ head, body }) => [
    Buffer.from(`--${boundary}\r\n${head}\r\n\r\n`),
    Buffer.from(body as Buffer),
    Buffer.from('\r\n'),
  ])
  return Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)])
}

const named = (name: string, more = '') => `Content-Disposition: form-data; name="${name}"${more}`
const form = (...parts: readonly (readonly [string, string])[]) =>
  read([bodyOf(parts.map(([name, body]) => ({ head: named(name), body })))])

function cut(body: Buffer, sizes: readonly number[]): Buffer[] {
  const pieces: Buffer[] = []
  for (let at = 0, i = 0; at < body.length; i++) {
    const size = sizes.length > 0 ? sizes[i % sizes.length]! : body.length
    pieces.push(body.subarray(at, at + size))
    at += size
  }
  return pieces
}

/** Contents that look like what is around them. */
const tricky = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        '\r\n',
        '--',
        `\r\n--${BOUNDARY.slice(0, -1)}`,
        '\r',
        '\n',
        '-',
        BOUNDARY,
        '\0',
      ),
      fc.string({ maxLength: 8 }),
    ),
    { maxLength: 12 },
  )
  .map((pieces) => pieces.join(''))
  .filter((text) => !`\r\n${text}\r\n`.includes(`\r\n--${BOUNDARY}`))

describe('a form', () => {
  it('is the same however it is cut, and what another parser reads', async () => {
    const part = fc.record({
      name: fc.constantFrom('file', 'image[]', 'prompt', 'model', 'n'),
      body: tricky,
      filename: fc.option(fc.constantFrom('a.png', 'ä.bin', 'x')),
    })
    await fc.assert(
      fc.asyncProperty(
        fc.array(part, { maxLength: 6 }),
        fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 6 }),
        fc.constantFrom('', 'a preamble\r\n', '\r\n'),
        async (parts, sizes, preamble) => {
          const texts = parts.map(({ name, body, filename }) => ({
            // The other one takes a part for a file only if it has a name for it.
            head: named(name, filename || isFile(name) ? `; filename="${filename ?? 'f'}"` : ''),
            body,
          }))
          const body = Buffer.concat([Buffer.from(preamble), bodyOf(texts), Buffer.from('an end')])
          const { fields, files } = await read(cut(body, sizes))
          const found = [
            ...Object.entries(fields).flatMap(([name, value]) =>
              [value].flat().map((text) => [name, String(text)]),
            ),
            ...files.map(({ field, file }) => [field, Buffer.from(file.bytes).toString()]),
          ]
          const expected = await withBusboy(body)
          expect(found.toSorted(byText)).toEqual(expected.toSorted(byText))
        },
      ),
      { numRuns: 300 },
    )
  })

  it('written by the platform is read back', async () => {
    const sent = new FormData()
    sent.append('prompt', 'é "quoted"\r\n☃')
    sent.append('file', new Blob(['RIFF']), 'na"ïve\n.wav')
    const response = new Response(sent)
    const body = Buffer.from(await response.arrayBuffer())
    const { fields, files } = await read(cut(body, [7]), response.headers.get('content-type')!)
    expect(fields).toEqual({ prompt: 'é "quoted"\r\n☃' })
    expect(files[0]!.file.filename).toBe('na"ïve%0A.wav')
  })

  it('has files by name: without a file name, without a type, in any order', async () => {
    const bytes = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0xff, 0x00])
    const parts = [
      { head: named('image[1]'), body: 'second' },
      { head: named('image[0]'), body: bytes },
      {
        head: `${named('prompt', '; filename="p.txt"')}\r\nContent-Type: application/octet-stream`,
        body: 'not a file',
      },
      {
        head: `${named('file', '; filename="a.mp3"')}\r\ncontent-type: application/octet-stream`,
        body: 'x',
      },
      {
        head: `${named('file', `; filename*=UTF-8''%C3%A4.bin`)}\r\ncontent-type: audio/ogg; x=y`,
        body: 'x',
      },
    ]
    const { fields, files } = await read([bodyOf(parts)])
    expect(fields).toEqual({ prompt: 'not a file' })
    expect(files.map(({ field, file }) => [field, file.mediaType, file.filename])).toEqual([
      ['image[0]', 'image/png', undefined],
      ['image[1]', 'application/octet-stream', undefined],
      ['file', 'audio/mpeg', 'a.mp3'],
      ['file', 'audio/ogg', 'ä.bin'],
    ])
    expect(Buffer.from(files[0]!.file.bytes)).toEqual(bytes)
  })

  it('has lists and objects', async () => {
    const { fields } = await form(
      ['one', '1'],
      ['list[]', 'a'],
      ['again', 'x'],
      ['again', 'y'],
      ['placed[1]', 'late'],
      ['placed[0]', 'early'],
      ['list[]', 'b'],
      ['single[]', 'only'],
      ['cs[type]', 'server_vad'],
      ['cs[threshold]', '0.5'],
      ['__proto__[x]', 'y'],
      ['odd[a][b]', 'z'],
      ['empty', ''],
    )
    expect(Object.entries(fields)).toEqual([
      ['one', '1'],
      ['list', ['a', 'b']],
      ['again', ['x', 'y']],
      ['placed', ['early', 'late']],
      ['single', ['only']],
      ['cs', expect.objectContaining({ type: 'server_vad', threshold: '0.5' })],
      ['__proto__', expect.objectContaining({ x: 'y' })],
      ['odd[a][b]', 'z'],
      ['empty', ''],
    ])
    expect(Object.prototype).not.toHaveProperty('x')
  })

  it('has texts in the character set they name', async () => {
    const head = `${named('prompt')}\r\nContent-Type: text/plain; charset=ISO-8859-1`
    const { fields } = await read([bodyOf([{ head, body: Buffer.from('é', 'latin1') }])])
    expect(fields.prompt).toBe('é')
  })

  it('may quote its boundary, fold its heads and pad its lines', async () => {
    const body = '--a b  \r\ncontent-disposition:form-data;\r\n name="n"\r\n\r\n1\r\n--a b--'
    const { fields } = await read(
      cut(Buffer.from(body), [1]),
      'multipart/form-data; boundary="a b"',
    )
    expect(fields).toEqual({ n: '1' })
  })

  it('may be empty', async () => {
    expect(await read([bodyOf([])])).toMatchObject({ files: [] })
  })
})

describe('what is no form', () => {
  it.each([
    ['nothing', ''],
    ['no boundary', 'hello'],
    ['another boundary', bodyOf([{ head: named('a'), body: 'x' }], 'other').toString()],
    ['a cut in a head', `--${BOUNDARY}\r\nContent-Disp`],
    ['a cut in a body', `--${BOUNDARY}\r\n${named('a')}\r\n\r\nhello`],
    ['a cut before the end', `--${BOUNDARY}\r\n${named('a')}\r\n\r\nhello\r\n--${BOUNDARY}`],
    ['lines without returns', `--${BOUNDARY}\n${named('a')}\n\nx\n--${BOUNDARY}--`],
    ['a part without a head', `--${BOUNDARY}\r\n\r\nx\r\n--${BOUNDARY}--`],
    [
      'a part without a name',
      bodyOf([{ head: 'Content-Disposition: form-data', body: 'x' }]).toString(),
    ],
    [
      'an attachment',
      bodyOf([{ head: 'Content-Disposition: attachment; name="a"', body: 'x' }]).toString(),
    ],
    ['a long name', bodyOf([{ head: named('a'.repeat(201)), body: 'x' }]).toString()],
    ['a head without end', `--${BOUNDARY}\r\n${'x'.repeat(20_000)}`],
    [
      'many parts',
      bodyOf(Array.from({ length: 1001 }, () => ({ head: named('a'), body: '' }))).toString(),
    ],
    [
      'a value that is an object',
      bodyOf(['a', 'a[b]'].map((name) => ({ head: named(name), body: 'x' }))).toString(),
    ],
    [
      'an object that is a value',
      bodyOf(['a[b]', 'a'].map((name) => ({ head: named(name), body: 'x' }))).toString(),
    ],
  ])('%s', async (_what, body) => {
    await expect(read([Buffer.from(body)])).rejects.toMatchObject({ code: 'invalid_multipart' })
    await expect(read(cut(Buffer.from(body), [5]))).rejects.toMatchObject({ status: 400 })
  })

  it.each(['multipart/form-data', 'multipart/form-data; boundary=', `${TYPE}${'x'.repeat(70)}`])(
    'without a good boundary: %s',
    async (type) => {
      await expect(read([], type)).rejects.toMatchObject({ code: 'invalid_multipart' })
    },
  )
})

describe('limits', () => {
  it('hold for each file to the byte, before the rest is looked at', async () => {
    const part = (size: number) => ({ head: named('file'), body: Buffer.alloc(size) })
    expect((await read([bodyOf([part(100), part(100)])], TYPE, 100)).files).toHaveLength(2)
    const large = bodyOf([part(101)])
    // Without the end of the form: nobody waited for it.
    await expect(read(cut(large.subarray(0, 190), [10]), TYPE, 100)).rejects.toMatchObject({
      code: 'file_too_large',
      status: 413,
      param: 'file',
    })
  })

  it('hold for all texts together', async () => {
    const body = Buffer.alloc(9 * 1024 * 1024, 'x')
    const parts = ['a', 'b'].map((name) => ({ head: named(name), body }))
    await expect(read([bodyOf(parts)])).rejects.toMatchObject({ code: 'request_too_large' })
  })
})

describe('texts as JSON types', () => {
  it('become what they stand for, and stay text where they cannot', () => {
    const types = {
      n: 'number',
      t: 'number',
      b: 'boolean',
      c: 'boolean',
      l: 'list',
      j: 'json',
    } as const
    const typed = (fields: Record<string, unknown>) => ({ ...toJsonTypes(fields, types) })
    expect(
      typed({ n: ' 2 ', t: '-0.5e3', b: 'TRUE', c: '0', l: 'x', j: '{"a":1}', o: '7' }),
    ).toEqual({
      n: 2,
      t: -500,
      b: true,
      c: false,
      l: ['x'],
      j: { a: 1 },
      o: '7',
    })
    expect(typed({ n: '0x10', t: '1,5', b: 'yes', c: '', j: 'auto' })).toEqual({
      n: '0x10',
      t: '1,5',
      b: 'yes',
      c: '',
      j: 'auto',
    })
    expect(typed({ n: 'null', b: 'null', j: 'null', l: ['a', 'b'], o: 'null' })).toEqual({
      j: null,
      l: ['a', 'b'],
      o: 'null',
    })
    expect(typed({ n: ['1', '2'] })).toEqual({ n: ['1', '2'] })
  })
})

const byText = (a: readonly string[], b: readonly string[]) =>
  JSON.stringify(a) < JSON.stringify(b) ? -1 : 1

/** Names without brackets for fields, as they are for files; values as text. */
function withBusboy(body: Buffer): Promise<string[][]> {
  return new Promise((resolve, reject) => {
    const found: string[][] = []
    const parser = busboy({ headers: { 'content-type': TYPE } })
    parser.on('field', (name, value) => found.push([name, value]))
    parser.on('file', (name, stream) => {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('end', () => found.push([name, Buffer.concat(chunks).toString()]))
    })
    parser.on('close', () => resolve(found))
    parser.on('error', reject)
    parser.end(body)
  })
}
