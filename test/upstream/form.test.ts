import { expect, it } from 'vitest'
import { encodeForm } from '../../src/upstream/host.ts'

it('a form can be decoded, and shares the bytes of its files', async () => {
  const bytes = new Uint8Array([0, 255, 13, 10, 45, 45])
  const { contentType, body } = encodeForm([
    { name: 'model', value: 'm' },
    { name: 'text', value: 'Ümläute\r\n--and "quotes"' },
    { name: 'odd "name"\r\n', value: '' },
    { name: 'file', value: { bytes, mediaType: 'audio/wav', filename: 'a "b".wav' } },
    { name: 'last', value: '1' },
  ])
  expect(body).toContain(bytes)
  const headers = { 'content-type': contentType }
  const form = await new Response(Buffer.concat(body), { headers }).formData()
  expect([...form.keys()]).toEqual(['model', 'text', 'odd "name"\r\n', 'file', 'last'])
  expect([form.get('model'), form.get('last')]).toEqual(['m', '1'])
  expect(form.get('text')).toBe('Ümläute\r\n--and "quotes"')
  const file = form.get('file') as File
  expect([file.name, file.type]).toEqual(['a "b".wav', 'audio/wav'])
  expect(new Uint8Array(await file.arrayBuffer())).toEqual(bytes)
})
