import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseHttp, readTranscripts } from '../../src/testing.ts'
import {
  boundariesOf,
  cutAt,
  splitBytewise,
  randomFrom,
  splitRandomly,
} from '../../src/testing/splits.ts'
import { folder } from '../_folder.ts'

const GOOD = '{"request":{"messages":[]},"expect":{"text":"Hello"}}'

describe('a folder of transcripts', () => {
  it('is read by name, with responses where they exist', async () => {
    const path = await folder({
      'b.json': GOOD,
      'a.json': GOOD,
      'a.http': 'HTTP/1.1 200 OK\ncontent-type: text/plain\n\nHello\n',
      'notes.md': '',
    })
    const [a, b] = await readTranscripts(path)
    expect([a!.name, b!.name]).toEqual(['a', 'b'])
    expect(a!.answer).toMatchObject({ status: 200, headers: { 'content-type': 'text/plain' } })
    expect(Buffer.from(a!.answer!.body).toString()).toBe('Hello\n')
    expect(b!.answer).toBeUndefined()
  })

  it.each<[what: string, files: Record<string, string>, message: RegExp]>([
    [
      'nothing',
      {},
      /the folder has no transcripts; expected pairs such as hello\.json and hello\.http/,
    ],
    ['an answer alone', { 'a.http': '' }, /a\.http +it has no request; write a\.json/],
    ['no JSON', { 'a.json': '{' }, /a\.json is not valid:\n.*JSON/],
    [
      'a slip',
      { 'a.json': GOOD.replace('text', 'txt') },
      /expect\.txt +unknown key; did you mean "text"/,
    ],
    [
      'an unknown failure',
      { 'a.json': GOOD.replace('"text":"Hello"', '"failure":"ratelimit"') },
      /expect\.failure +expected .*"upstream_rate"/,
    ],
    [
      'no head',
      { 'a.json': GOOD, 'a.http': 'Hello' },
      /a\.http is not valid:\n +head +expected a status line/,
    ],
  ])('with %s is an error that says what to do', async (_what, files, message) => {
    await expect(readTranscripts(await folder(files))).rejects.toThrow(message)
  })

  it('that does not exist is an error', async () => {
    await expect(readTranscripts('/nowhere/at/all')).rejects.toThrow(/the folder does not exist/)
  })
})

describe('a response as curl prints it', () => {
  it('may follow other heads; headers about its connection are dropped', () => {
    const text = [
      'HTTP/1.1 200 Connection established\r\n\r\n',
      'HTTP/1.1 100 Continue\r\n\r\n',
      'HTTP/2 429 \r\nRetry-After: 7\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n',
      'a\r\n\r\nb',
    ].join('')
    const { status, headers, body } = parseHttp(Buffer.from(text), 'a.http')
    expect([status, headers]).toEqual([429, { 'retry-after': '7' }])
    expect(Buffer.from(body).toString()).toBe('a\r\n\r\nb')
  })

  it('keeps every byte of its body', () => {
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        const answer = Buffer.concat([Buffer.from('HTTP/1.1 200 OK\n\n'), bytes])
        expect(Buffer.from(parseHttp(answer, 'a.http').body)).toEqual(Buffer.from(bytes))
      }),
    )
  })
})

describe('cuts', () => {
  it('lose nothing', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1 }), fc.nat(), (bytes, seed) => {
        const random = randomFrom(seed)
        for (const pieces of [
          splitBytewise(bytes, 16),
          splitRandomly(bytes, random, 5),
          cutAt(bytes, boundariesOf(bytes, 'text/event-stream')),
        ]) {
          expect(Buffer.concat(pieces)).toEqual(Buffer.from(bytes))
        }
      }),
    )
  })

  it('are the same for the same seed', () => {
    const body = Buffer.from('Hello there, and to everybody else as well')
    const lengths = (seed: number) => {
      const random = randomFrom(seed)
      return Array.from({ length: 5 }, () =>
        splitRandomly(body, random, 8).map((piece) => piece.length),
      )
    }
    expect(lengths(7)).toEqual(lengths(7))
    expect(lengths(7)).not.toEqual(lengths(8))
  })

  it.each<[contentType: string, body: Buffer, ends: number[]]>([
    ['text/event-stream; charset=utf-8', Buffer.from('data: a\r\n\r\ndata: b\n\n'), [11, 20]],
    ['application/x-ndjson', Buffer.from('{}\n{"a":1}\n'), [3, 11]],
    [
      'application/vnd.amazon.eventstream',
      Buffer.from([0, 0, 0, 6, 1, 1, 0, 0, 0, 4, 0, 0, 0, 9]),
      [6, 10],
    ],
    ['application/json', Buffer.from('{}\n\n'), []],
  ])('know the borders of %s', (contentType, body, ends) => {
    expect(boundariesOf(body, contentType)).toEqual(ends)
  })
})
