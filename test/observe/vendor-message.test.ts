/** What vendors say reaches the log without what they quote. */
import { globSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { expect, it } from 'vitest'
import { Mask } from '../../src/observe/mask.ts'
import { scrub, vendorMessage } from '../../src/observe/vendor-message.ts'

const TRANSCRIPTS = resolve(import.meta.dirname, '../providers/transcripts')
const CONFIGURED = 'configured-vendor-key-of-the-test'
const PROMPT = 'please write the confidential plan of our merger for me, with all its names'

/** Texts that a vendor may quote, and that no log may hold. */
const PLANTED = [
  CONFIGURED,
  'sk-proj-abcdefgh12345678',
  'Bearer abcdef.ghijkl',
  'AKIAIOSFODNN7EXAMPLE',
  'AIzaSyA1234567890abcdefghijklmnopqrstuv',
  'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig-nature',
  PROMPT,
]

const mask = new Mask()
mask.use([CONFIGURED])
const clean = (text: string) => mask.clean(text)

/** A recorded body whose message quotes more than the recorded one. */
function planted(body: string, more: string): string {
  return body.replace(/("message": ?")/, `$1${JSON.stringify(more).slice(1, -1)} `)
}

it('recorded errors of vendors are told without secrets and prompts', () => {
  const files = globSync('**/*.http', { cwd: TRANSCRIPTS })
  const texts = files.map((file) => readFileSync(resolve(TRANSCRIPTS, file), 'utf8'))
  const errors = texts.filter((text) => /^HTTP\/1.1 [45]/.test(text))
  expect(errors.length).toBeGreaterThanOrEqual(5)
  for (const text of errors) {
    const body = text.slice(text.indexOf('\n\n') + 2)
    const usual = vendorMessage(body, clean)
    expect(usual, body).toMatch(/\w+ \w+/)
    for (const one of PLANTED) {
      const quoted = `Refused: "${one}" at https://user:word@vendor.example/v1?signature=planted-sig`
      const said = vendorMessage(planted(body, quoted), clean)!
      expect(said).toContain('https://vendor.example/v1')
      for (const hidden of [one, 'planted-sig', 'user:word']) expect(said).not.toContain(hidden)
    }
  }
})

it.each([
  ['{"error":{"message":"no such model"}}', 'no such model'],
  ['{"message":"no such model"}', 'no such model'],
  ['{"detail":[{"message":"too long"}]}', 'too long'],
  ['{"error":"{\\"error\\":{\\"message\\":\\"inner\\"}}"}', 'inner'],
  ['overloaded, come again', 'overloaded, come again'],
  ['<html><b>502</b></html>', undefined],
  ['{"error":{"code":7}}', undefined],
  ['', undefined],
  ['{"error":{"message":"cut', undefined],
])('finds the message in %s', (body, message) => {
  expect(vendorMessage(body, clean)).toBe(message)
})

it('a quotation becomes its length, also one that was cut; names of settings stay', () => {
  expect(scrub(`invalid "${PROMPT}" in 'temperature'`, clean)).toBe(
    `invalid "[${PROMPT.length} characters]" in 'temperature'`,
  )
  expect(scrub(`it can't be "${PROMPT}`, clean)).toBe(`it can't be "[${PROMPT.length} characters]`)
  expect(scrub('api_key=abc123, token: xyz', clean)).toBe('api_key=[secret], token: [secret]')
  expect(scrub('word '.repeat(300), clean)).toHaveLength(500)
})
