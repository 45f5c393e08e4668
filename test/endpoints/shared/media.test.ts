import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  mediaTypeOf,
  mediaTypeOfName,
  parseBase64,
  parseDataUrl,
  toBase64,
} from '../../../src/endpoints/shared/media.ts'

const bytes = fc.uint8Array({ minLength: 1, maxLength: 300 })

describe('base64', () => {
  it('is read in every form that clients write it in', () => {
    const form = fc.record({
      bytes,
      urlSafe: fc.boolean(),
      padded: fc.boolean(),
      width: fc.constantFrom(0, 1, 4, 76),
    })
    fc.assert(
      fc.property(form, ({ bytes: given, urlSafe, padded, width }) => {
        let text = Buffer.from(given).toString(urlSafe ? 'base64url' : 'base64')
        if (urlSafe && padded) text = text.padEnd(Math.ceil(text.length / 4) * 4, '=')
        if (!padded) text = text.replace(/=+$/, '')
        if (width > 0) text = text.replace(new RegExp(`.{${width}}`, 'g'), '$&\r\n\t ')
        expect(Buffer.from(parseBase64(text, 'x'))).toEqual(Buffer.from(given))
      }),
    )
  })

  it('is written in the standard alphabet, also of a part of a buffer', () => {
    const whole = new Uint8Array([1, 2, 0xfb, 0xff, 0xfe, 3])
    expect(toBase64(whole.subarray(2, 5))).toBe('+//+')
    expect(toBase64(new Uint8Array([255]))).toBe('/w==')
  })

  it.each(['', ' ', '=', 'a', 'abcde', 'ab=c', 'abc===', 'hällo===', 'ab cd$', 'ab\0d'])(
    'is not %j',
    (text) => {
      expect(() => parseBase64(text, 'the.place')).toThrow(
        expect.objectContaining({ code: 'invalid_base64', param: 'the.place' }),
      )
    },
  )
})

describe('a data URL', () => {
  const GIF = 'R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7'

  it.each([
    ['data:application/pdf;base64,aGVsbG8=', 'application/pdf'],
    ['DATA:Text/Plain;charset=utf-8;name="a.txt";BASE64,aGVsbG8', 'text/plain'],
    ['data:;base64,aGVsbG8=', 'application/octet-stream'],
    ['data:;base64, aGVs\r\nbG8 ', 'application/octet-stream'],
  ])('%s', (text, mediaType) => {
    const file = parseDataUrl(text, 'x')
    expect(Buffer.from(file.bytes).toString()).toBe('hello')
    expect(file.mediaType).toBe(mediaType)
  })

  it('is what its bytes are, whatever it says', () => {
    expect(parseDataUrl(`data:image/png;base64,${GIF}`, 'x').mediaType).toBe('image/gif')
    expect(parseDataUrl(`data:;base64,${GIF}`, 'x').mediaType).toBe('image/gif')
  })

  it.each([
    'https://a.example/b.png',
    'data:image/png,hello',
    'data:image/png;base64',
    'data:image/png;base64,',
    'data:image/png;base64;x,aGVsbG8=',
    ` data:;base64,${GIF}`,
    GIF,
    `data:${'x'.repeat(600)};base64,${GIF}`,
  ])('is not %s', (text) => {
    expect(() => parseDataUrl(text, 'a[0].b')).toThrow(
      expect.objectContaining({ code: 'invalid_base64', param: 'a[0].b' }),
    )
  })
})

describe('the type of bytes', () => {
  it.each([
    ['image/png', '89504e470d0a1a0a0000000d'],
    ['image/jpeg', 'ffd8ffe0'],
    ['image/jpeg', 'ffd8ffdb'],
    ['image/webp', '524946461a00000057454250'],
    ['image/gif', '474946383961'],
    ['image/tiff', '49492a0008'],
    ['image/tiff', '4d4d002a00'],
    ['image/avif', '0000001c6674797061766966'],
    ['image/heic', '0000001c6674797068656963'],
    ['application/pdf', '255044462d312e37'],
    ['application/pdf', '0a0a255044462d312e37'],
    ['audio/wav', '524946462400000057415645'],
    ['audio/mpeg', '49443304'],
    ['audio/mpeg', 'fffb9064'],
    ['audio/mpeg', 'fff34464'],
    ['audio/aac', 'fff15080'],
    ['audio/aac', 'fff95080'],
    ['audio/flac', '664c6143'],
    ['audio/ogg', '4f676753'],
    ['audio/mp4', '0000001c667479704d344120'],
    ['audio/mp4', '0000001c6674797069736f6d'],
    ['audio/webm', '1a45dfa39f4286810142f7810142f2810442f381084282847765626d'],
    [undefined, ''],
    [undefined, '68656c6c6f'],
    [undefined, 'ffff'],
    [undefined, 'fffe68006500'],
    [undefined, '524946461a00000041564920'],
  ])('%s: %s', (type, hex) => {
    expect(mediaTypeOf(Buffer.from(hex, 'hex'))).toBe(type)
  })

  it('can be told for anything', () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 40 }), (any) => void mediaTypeOf(any)))
  })

  it('may be in a name', () => {
    expect(mediaTypeOfName('Song.MP3')).toBe('audio/mpeg')
    expect(mediaTypeOfName('scan.tif')).toBe('image/tiff')
    expect(mediaTypeOfName('png')).toBeUndefined()
    expect(mediaTypeOfName('a.exe')).toBeUndefined()
  })
})
