import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readMultipart, toJsonTypes, type Form } from '../../../src/endpoints/shared/multipart.ts'
import type { Incoming } from '../../../src/pipeline/http.ts'
import { runs } from '../../_runs.ts'

const BOUNDARY = 'XbOuNdArY'
const TYPE = `multipart/form-data; boundary=${BOUNDARY}`
const isFile = (field: string) => /^(file|image(\[\d*\])?)$/.test(field)

/** Reads a body that arrives in these pieces, all at once or each for itself. */
function read(
  pieces: readonly Buffer[],
  { type = TYPE, fileLimitBytes = 1e6, apart = false } = {},
): Promise<Form> {
  const incoming = {
    header: (name: string) => (name === 'content-type' ? type : undefined),
    async pieces(_limit: number, take: (piece: Buffer) => void) {
      for (const piece of pieces) {
        take(piece)
        if (apart) await turn()
      }
    },
  }
  const json = { depth: 9, containers: 20, values: 40, literal: 10, key: 10 }
  const jsonFields = ['strategy']
  const limits = { files: isFile, fileLimitBytes, bodyLimitBytes: 1e9, json, jsonFields }
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

/** What may stand before and after a form; large enough for a piece not to be put together with others. */
const AROUND = Buffer.from(`${'x'.repeat(20_000)}\r\n`)

/** A body with something around it, cut at this place. */
function halves(body: Buffer, at: number): Buffer[] {
  const place = at % (body.length + 1)
  return [
    Buffer.concat([AROUND, body.subarray(0, place)]),
    Buffer.concat([body.subarray(place), AROUND]),
  ]
}

/** Contents that look like what is around them. */
const tricky = (maxLength: number) =>
  fc
    .array(
      fc.oneof(
        fc.constantFrom(
          '\r\n',
          '--',
          `\r\n--${BOUNDARY.slice(0, -1)}`,
          '\r\r\n',
          '\n',
          '-',
          BOUNDARY,
          '\0',
        ),
        fc.string({ maxLength: 8, unit: 'binary' }),
      ),
      { maxLength },
    )
    .map((pieces) => pieces.join('').toWellFormed())
    .filter((text) => !`\r\n${text}\r\n`.includes(`\r\n--${BOUNDARY}`))

const byText = (a: readonly string[], b: readonly string[]) =>
  JSON.stringify(a) < JSON.stringify(b) ? -1 : 1

/** Names and contents. */
const contentsOf = ({ fields, files }: Form) => [
  ...Object.entries(fields).flatMap(([name, value]) =>
    [value].flat().map((text) => [name, String(text)]),
  ),
  ...files.map(({ field, file }) => [field, Buffer.from(file.bytes).toString()]),
]

describe('a form', () => {
  it('is what was sent, however it is labelled and cut', async () => {
    const part = fc.record({
      name: fc.constantFrom('file', 'image[]', 'prompt', 'model', 'n'),
      body: tricky(12),
      label: fc.constantFrom(
        '',
        '; filename="a.png"',
        '; filename=""',
        '\r\nContent-Type: application/octet-stream',
        '\r\nContent-Type: image/png',
      ),
    })
    await fc.assert(
      fc.asyncProperty(
        fc.array(part, { maxLength: 6 }),
        fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 6 }),
        fc.nat(),
        async (parts, sizes, place) => {
          const body = bodyOf(
            parts.map(({ name, label, body }) => ({ head: named(name, label), body })),
          )
          const sent = parts.map(({ name, body }) => [
            name,
            // At the beginning of a text it is a mark and no character.
            isFile(name) ? body : body.replace(/^\ufeff/, ''),
          ])
          for (const pieces of [cut(body, sizes), halves(body, place)]) {
            const found = contentsOf(await read(pieces))
            expect(found.toSorted(byText)).toEqual(sent.toSorted(byText))
          }
        },
      ),
      { numRuns: runs(14) },
    )
  })

  it('has long files whole that have no names, byte by byte', async () => {
    await fc.assert(
      fc.asyncProperty(
        tricky(200).filter((text) => text.length > 0),
        fc.integer({ min: 300 * 1024, max: 900 * 1024 }),
        fc.array(fc.integer({ min: 15_000, max: 70_000 }), { minLength: 1, maxLength: 4 }),
        fc.boolean(),
        async (pattern, size, sizes, apart) => {
          // Bytes that are no text, and the beginning of a boundary here and there.
          const noise = Buffer.concat([Buffer.from([0xff, 0xc3, 0x80]), Buffer.from(pattern)])
          const bytes = Buffer.alloc(size, noise)
          const body = bodyOf([
            { head: named('image'), body: bytes },
            { head: named('prompt'), body: 'after' },
            { head: named('file'), body: bytes.subarray(1) },
          ])
          const { fields, files } = await read(cut(body, sizes), { apart })
          expect(fields).toEqual({ prompt: 'after' })
          expect(files.map(({ field }) => field)).toEqual(['image', 'file'])
          expect(bytes.equals(files[0]!.file.bytes)).toBe(true)
          expect(bytes.subarray(1).equals(files[1]!.file.bytes)).toBe(true)
        },
      ),
      { numRuns: runs(5) },
    )
  })

  it('is the same or as wrong, however it is cut, when something is missing or too much', async () => {
    const part = fc.record({
      name: fc.constantFrom('file', 'prompt'),
      label: fc.constantFrom('', '; filename="f"'),
      body: tricky(6),
    })
    const outcome = async (pieces: readonly Buffer[]) => {
      try {
        return contentsOf(await read(pieces))
      } catch (error) {
        return (error as { code?: string }).code ?? error
      }
    }
    await fc.assert(
      fc.asyncProperty(
        fc.array(part, { maxLength: 3 }),
        fc.nat(),
        fc.nat(6),
        fc.constantFrom('', 'x', '\r\n', '--', `\r\n--${BOUNDARY}\r\n`, `\r\n--${BOUNDARY}--`),
        fc.nat(),
        async (parts, at, removed, added, place) => {
          const form = bodyOf(
            parts.map(({ name, label, body }) => ({ head: named(name, label), body })),
          )
          const start = at % form.length
          const broken = Buffer.concat([
            form.subarray(0, start),
            Buffer.from(added),
            form.subarray(start + removed),
          ])
          const whole = await outcome(halves(broken, 0))
          expect(Array.isArray(whole) || whole === 'invalid_multipart').toBe(true)
          expect(await outcome(halves(broken, place))).toEqual(whole)
          expect(await outcome([Buffer.concat(halves(broken, place))])).toEqual(whole)
        },
      ),
      { numRuns: runs(14) },
    )
  })

  it('is refused where a boundary cuts off the head of a part, in whatever pieces it comes', async () => {
    const file = 'Content-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
    const open = `--${BOUNDARY}\r\n`
    const form = Buffer.from(
      `${open}${file}--\r\n${open}Content-Disposition: form-data;\r\n${open} name="file"; filename="f"\r\n\r\n--\r\n--${BOUNDARY}--\r\n`,
    )
    for (let at = 1; at < form.length; at++) {
      await expect(read(cut(form, [at]))).rejects.toMatchObject({ code: 'invalid_multipart' })
    }
  })

  it('written by the platform is read back', async () => {
    const sent = new FormData()
    sent.append('prompt', 'é "quoted"\r\n☃')
    sent.append('file', new Blob(['RIFF']), 'na"ïve\n.wav')
    const response = new Response(sent)
    const body = Buffer.from(await response.arrayBuffer())
    const { fields, files } = await read(cut(body, [7]), {
      type: response.headers.get('content-type')!,
    })
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

  it.each([
    ['none named', '', 'Grüße, 你好', 'utf8', 'Grüße, 你好'],
    ['none named, and a mark', '', '\ufeffx', 'utf8', 'x'],
    ['none named, and no UTF-8', '', 'é', 'latin1', 'é'],
    ['ISO-8859-1', 'ISO-8859-1', 'é', 'latin1', 'é'],
    ['UTF-8', 'utf-8', 'é', 'utf8', 'é'],
    ['UTF-8 in quotes', '"UTF-8"', 'é ☃', 'utf8', 'é ☃'],
    ['UTF-16', 'utf-16le', 'é ☃', 'utf16le', 'é ☃'],
    // What cannot be told from UTF-8 without a name.
    ['UTF-8, and looks like UTF-8 misread', 'utf-8', 'Ã©', 'utf8', 'é'],
  ] as const)('has texts in their character set: %s', async (_set, charset, sent, as, text) => {
    const type = charset && `\r\nContent-Type: text/plain; charset=${charset}`
    const head = named('prompt', type)
    const { fields } = await read([bodyOf([{ head, body: Buffer.from(sent, as) }])])
    expect(fields.prompt).toBe(text)
  })

  it('has long texts, and those that come as files', async () => {
    const long = 'Grüße '.repeat(100_000)
    const parts = [
      { head: named('prompt'), body: long },
      { head: named('model', '; filename="m.txt"'), body: 'é' },
    ]
    const body = bodyOf(parts)
    expect((await read(cut(body, [50_000]))).fields).toEqual({ prompt: long, model: 'é' })
    expect((await read([body])).fields).toEqual({ prompt: long, model: 'é' })
  })

  it('may quote its boundary and fold its heads', async () => {
    const body = '--a =b\r\ncontent-disposition:form-data;\r\n name="n"\r\n\r\n1\r\n--a =b--'
    const { fields } = await read(cut(Buffer.from(body), [1]), {
      type: 'multipart/form-data; x="y"; Boundary="a =b"; charset=utf-8',
    })
    expect(fields).toEqual({ n: '1' })
  })

  it('keeps a file that comes in crumbs in pieces of some size', async () => {
    const bytes = Buffer.alloc(200_000, 'crumbs')
    const body = bodyOf(['image', 'file'].map((name) => ({ head: named(name), body: bytes })))
    const { files } = await read(cut(body, [10]))
    for (const { file } of files) {
      expect(file.segments!.length).toBeLessThan(14)
      expect(bytes.equals(file.bytes)).toBe(true)
    }
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
    ['blanks behind a boundary', `--${BOUNDARY}  \r\n${named('a')}\r\n\r\nx\r\n--${BOUNDARY}--`],
    ['a name without an end', bodyOf([{ head: named('a" b'), body: 'x' }]).toString()],
    [
      'a file name in no known form',
      bodyOf([{ head: named('file', "; filename*=UTF-8''a%zz"), body: 'x' }]).toString(),
    ],
    [
      'more than the boundary in its line',
      bodyOf([{ head: named('file'), body: `x\r\n--${BOUNDARY}y\r\nz` }]).toString(),
    ],
    [
      'a part behind the end',
      `${bodyOf([{ head: named('a'), body: 'x' }])}\r\n--${BOUNDARY}\r\n${named('file', '; filename="f"')}\r\n\r\n`,
    ],
    [
      'a form behind the end',
      bodyOf([{ head: named('a'), body: 'x' }])
        .toString()
        .repeat(2),
    ],
    [
      'a text in an unknown character set',
      bodyOf([
        { head: named('a', '\r\nContent-Type: text/plain; charset=x'), body: 'x' },
      ]).toString(),
    ],
    [
      'a file in a character set',
      bodyOf([
        { head: named('file', '\r\nContent-Type: text/plain; charset=utf-8'), body: '☃' },
      ]).toString(),
    ],
    ['a long name', bodyOf([{ head: named('a'.repeat(201)), body: 'x' }]).toString()],
    ['a head without end', `--${BOUNDARY}\r\n${'x'.repeat(20_000)}`],
    [
      'many parts',
      bodyOf(Array.from({ length: 1001 }, () => ({ head: named('image'), body: '' }))).toString(),
    ],
    [
      'many texts',
      bodyOf(Array.from({ length: 65 }, () => ({ head: named('a'), body: '' }))).toString(),
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
      await expect(read([], { type })).rejects.toMatchObject({ code: 'invalid_multipart' })
    },
  )
})

describe('limits', () => {
  it.each(['', '; filename="a"', '\r\nContent-Type: image/png'])(
    'hold for each file to the byte: %j',
    async (label) => {
      const part = (size: number) => ({ head: named('image', label), body: Buffer.alloc(size) })
      const limit = { fileLimitBytes: 1000 }
      expect((await read([bodyOf([part(1000), part(1000)])], limit)).files).toHaveLength(2)
      await expect(read([bodyOf([part(1000), part(1001)])], limit)).rejects.toMatchObject({
        code: 'file_too_large',
        status: 413,
        param: 'image',
      })
    },
  )

  it('are found while a file comes, before the rest is looked at', async () => {
    const limit = 1024 * 1024
    const body = bodyOf([
      { head: named('image', '; filename="a"'), body: Buffer.alloc(2 * limit, '\r') },
    ])
    const head = body.indexOf('\r\n\r\n') + 4
    // Without the end of the form: the parser does not wait for it.
    const pieces = cut(body.subarray(0, head + limit + 60_000), [20_000])
    await expect(read(pieces, { fileLimitBytes: limit, apart: true })).rejects.toMatchObject({
      code: 'file_too_large',
      status: 413,
      param: 'image',
    })
  })

  it('hold for the head of a part', async () => {
    const head = named('prompt', `\r\nX-Padding: `)
    const bodies = [8192, 8193].map((bytes) => {
      const long = head + 'x'.repeat(bytes - head.length - '\r\n'.length)
      return bodyOf([
        { head: named('image'), body: Buffer.alloc(20_000) },
        { head: long, body: 'x'.repeat(20_000) },
      ])
    })
    for (const size of [1, 7, 1000, 5000, 60_000]) {
      expect((await read(cut(bodies[0]!, [size]))).fields.prompt).toHaveLength(20_000)
      await expect(read(cut(bodies[1]!, [size]))).rejects.toMatchObject({
        code: 'invalid_multipart',
        message: expect.stringContaining('the head of a part is larger than 8192 bytes'),
      })
    }
  })

  it.each(['', '; filename="a"', '\r\nContent-Type: text/plain; charset=utf-8'])(
    'hold for each text, and for all of them together: %j',
    async (label) => {
      const part = (name: string, size: number) => ({
        head: named(name, label),
        body: Buffer.alloc(size, 'x'),
      })
      const MIB = 1024 * 1024
      const refused = { code: 'request_too_large', status: 413 }
      expect((await read([bodyOf([part('a', MIB)])])).fields.a).toHaveLength(MIB)
      await expect(read([bodyOf([part('a', MIB + 1)])])).rejects.toMatchObject(refused)
      const five = bodyOf(['a', 'b', 'c', 'd', 'e'].map((name) => part(name, 900 * 1024)))
      await expect(read([five])).rejects.toMatchObject(refused)
      await expect(read(cut(five, [30_000]))).rejects.toMatchObject(refused)
    },
  )
})

describe('JSON in a form', () => {
  it.each([
    ['deep', `${'['.repeat(10)}${']'.repeat(10)}`, 400, 'invalid_json'],
    ['of many lists', `[${'[],'.repeat(25)}0]`, 413, 'request_too_large'],
    ['of many values', `[${'1,'.repeat(45)}0]`, 413, 'request_too_large'],
    ['with a long number', `{"a":${'1'.repeat(11)}}`, 400, 'invalid_json'],
    ['with a long name', `{"${'n'.repeat(11)}":1}`, 400, 'invalid_json'],
  ])('is bounded like a body: %s', async (_what, json, status, code) => {
    for (const param of ['policy', 'strategy']) {
      await expect(form([param, json])).rejects.toMatchObject({ status, code, param })
    }
    expect((await form(['prompt', json])).fields.prompt).toBe(json)
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
