import { Buffer } from 'node:buffer'
import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import { Mask } from '../../src/observe/mask.ts'

const SECRET = 'vendor"key/with+odd=chars&é'

function masking(...secrets: string[]): (text: string) => string {
  const mask = new Mask()
  mask.use(secrets)
  return (text) => mask.clean(text)
}

it('replaces a secret in every form in which a vendor may quote it', () => {
  const clean = masking(SECRET)
  const json = JSON.stringify(SECRET).slice(1, -1)
  const forms = [
    SECRET,
    json,
    JSON.stringify(json).slice(1, -1),
    json.replaceAll('/', '\\/'),
    json.replaceAll('é', '\\u00e9'),
    encodeURIComponent(SECRET),
    encodeURIComponent(SECRET).replaceAll(/%../g, (code) => code.toLowerCase()),
    new URLSearchParams({ key: SECRET }).toString().slice('key='.length),
  ]
  for (const form of forms)
    expect([form, clean(`no ${form} here`)]).toEqual([form, 'no [secret] here'])
})

it('replaces a secret in base64, wherever it begins and ends', () => {
  const clean = masking(SECRET)
  const bytes = fc.uint8Array({ maxLength: 9 })
  fc.assert(
    fc.property(bytes, bytes, fc.constantFrom('base64', 'base64url'), (before, after, encoding) => {
      const encoded = Buffer.concat([before, Buffer.from(SECRET), after]).toString(
        encoding as BufferEncoding,
      )
      expect(clean(encoded)).toContain('[secret]')
      expect(clean(encoded).length).toBeLessThan('[secret]'.length + 32)
    }),
  )
})

it('replaces the words of a setting with blanks, longer secrets before their parts, and keys by their form', () => {
  const clean = masking('Token abcdefgh', 'abcdefgh-ijkl', 'tiny')
  expect(clean('abcdefgh')).toBe('[secret]')
  expect(clean('abcdefgh-ijkl')).toBe('[secret]')
  expect(clean('sk-1234567890 and Bearer x.y')).toBe('[secret] and [secret]')
  expect(clean('a tiny word')).toBe('a tiny word')
})

it('keeps the secrets of each owner until it replaces them', () => {
  const mask = new Mask()
  const owner = {}
  mask.use(['configured-key'])
  mask.use(['token-of-an-hour'], owner)
  const text = 'configured-key, token-of-an-hour, token-of-another'
  expect(mask.clean(text)).toBe('[secret], [secret], token-of-another')
  mask.use(['token-of-another'], owner)
  expect(mask.clean(text)).toBe('[secret], token-of-an-hour, [secret]')
  mask.use([], owner)
  expect(mask.clean(text)).toBe('[secret], token-of-an-hour, token-of-another')
})
